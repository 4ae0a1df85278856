"""The records of a produce request: REST v2's body, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.json_bodies import kind_of
from ottla.records.record import Header

INVALID_DATA: Final = 42205
_MOST_INT32: Final = 2**31 - 1
_MOST_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RecordToSend:
    """One record of a caller, in bytes. Without a partition, the key decides."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


# The bytes of a key or a value, by its name. Raises ValueError with a phrase, or HttpError.
Encode = Callable[[str, Any], bytes | None]


def records_in(body: dict[str, Any], encode: Encode, partition: int | None) -> list[RecordToSend]:
    """The records of a body; `partition` is that of the path. Raises HttpError(422)."""
    records = body.get("records")
    if not isinstance(records, list) or not records:
        raise unprocessable('the body must have "records": a list of one record at least')
    return [_record(index, each, encode, partition) for index, each in enumerate(records)]


def _record(index: int, given: Any, encode: Encode, partition: int | None) -> RecordToSend:
    if not isinstance(given, dict):
        raise unprocessable(f"record {index} must be an object, not {kind_of(given)}")
    if "value" not in given and "key" not in given:
        raise unprocessable(f'record {index} has no "value"; to delete a key, write "value": null')
    named = given.get("partition")
    if partition is not None and named is not None:
        raise unprocessable(f"record {index} names a partition, and so does the path: leave one out")
    return RecordToSend(
        _part(index, "value", given.get("value"), encode),
        _part(index, "key", given.get("key"), encode),
        partition if named is None else whole_number(f"the partition of record {index}", named, _MOST_INT32),
        (),
        _timestamp(index, given.get("timestamp")),
    )


def _part(index: int, name: str, value: Any, encode: Encode) -> bytes | None:
    try:
        return encode(name, value)
    except ValueError as error:
        raise HttpError(
            422, f"the {name} of record {index} cannot be used: {error}", error_code=INVALID_DATA
        ) from error


def _timestamp(index: int, given: Any) -> int | None:
    return None if given is None else whole_number(f"the timestamp of record {index}", given, _MOST_INT64)


def whole_number(name: str, value: Any, most: int = _MOST_INT64) -> int:
    """A number from zero on. Raises HttpError(422)."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise unprocessable(f"{name} must be a whole number from 0 on, not {str(value)[:50]}")
    return value
