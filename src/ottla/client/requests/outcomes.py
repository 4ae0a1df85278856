"""The outcome of each item of a request: a value, or the error that the broker gave for it.

One topic's failure does not undo another's success, so calls that name several items return a value or a
`KafkaError` for each. A caller that wants all values or an exception writes `succeeded(await
admin.create_topics(...))`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ottla.errors import ErrorCode, KafkaError

K = TypeVar("K")
T = TypeVar("T")


def succeeded(outcomes: Mapping[K, T | KafkaError]) -> dict[K, T]:
    """The outcomes, if none of them is an error; otherwise the first error is raised."""
    if not isinstance(outcomes, Mapping):
        raise TypeError(f"outcomes must be the answer of an administrator's call, not {outcomes!r}")
    done: dict[K, T] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            raise outcome
        done[key] = outcome
    return done


def outcome(error_code: int, value: T, message: str | None = None) -> T | KafkaError:
    """`value`, or the error that `error_code` stands for, with the broker's message if it sent one."""
    return value if error_code == ErrorCode.NONE else error_of(error_code, message)


def error_of(error_code: int, message: str | None = None) -> KafkaError:
    """The error of a number on the wire; a number from the future becomes UNKNOWN_SERVER_ERROR."""
    try:
        return KafkaError(ErrorCode(error_code), message or None)
    except ValueError:
        text = message or f"the broker answered error {error_code}, which this client does not know"
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
