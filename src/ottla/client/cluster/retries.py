"""Asking again: which failures pass by themselves, and how long to wait for that.

A request names several things (topics, partitions), and each gets its own answer. `settle` asks until every one of
them has an answer that waiting will not improve, or the time is up; then it hands out what it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime.randomness import jitter
from ottla.wire.failures import CannotConnectError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

FIRST_WAIT_MS = 50
# Longer would make a person wait for a broker that has been back for a while.
MOST_WAIT_MS = 1_000

# Who asks for a topic that is not there should hear it at once. The protocol calls these retriable only because metadata
# may lag behind a creation.
_ABSENT = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
# The broker did nothing, so even a request that must not be carried out twice may be sent again.
_NOTHING_DONE = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


async def settle(
    items: Mapping[K, V],
    attempt: Callable[[Mapping[K, V], int], Awaitable[Mapping[K, T | KafkaError]]],
    *,
    repeatable: bool,
    timeout_ms: int,
) -> dict[K, T | KafkaError]:
    """Call `attempt(items, milliseconds left)`, and again for the items whose error passes by itself.

    A request is repeatable if it does no harm when carried out twice. If it is not, a connection that is lost while
    the answer is awaited is an error at once: nobody can know whether the request was carried out. Without items nothing is asked.
    """
    import asyncio  # here, because those who have no event loop take the rest of this module

    if not items:
        return {}
    loop = asyncio.get_running_loop()
    deadline, pending = loop.time() + timeout_ms / 1000, dict(items)
    outcomes: dict[K, T | KafkaError] = {}
    for wait_ms in waits_ms():
        failure = None
        try:
            outcomes.update(await attempt(pending, max(1, int((deadline - loop.time()) * 1000))))
            pending = {
                key: item for key, item in pending.items() if passes(outcomes.get(key), repeatable=repeatable)
            }
        except (ConnectionError, TimeoutError) as error:
            if not (repeatable or isinstance(error, CannotConnectError)):
                raise
            failure = error
        if pending and loop.time() + wait_ms / 1000 < deadline:
            await asyncio.sleep(wait_ms / 1000)
        elif failure:
            raise failure
        else:
            break
    return {key: outcomes[key] if key in outcomes else unanswered(key) for key in items}


def unanswered(key: object) -> KafkaError:
    """What stands for an answer that a broker has left out."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer left out {key}")


def passes(answer: object, *, repeatable: bool) -> bool:
    """Whether an answer is an error that passes by itself, and whether the request may be sent again then."""
    if not isinstance(answer, KafkaError):
        return False
    if repeatable:
        return answer.code.retriable and answer.code not in _ABSENT
    return answer.code in _NOTHING_DONE


def waits_ms() -> Iterator[float]:
    """Doubling waits, each up to a fifth shorter so that clients do not march in step."""
    return map(backoff_ms, itertools.count(1))


def backoff_ms(failures: int) -> int:
    """How long to wait after so many failures in a row."""
    # The exponent has a bound: past it, nothing grows but the number.
    return round(min(FIRST_WAIT_MS << min(failures - 1, 10), MOST_WAIT_MS) * jitter(0.8, 1.0))
