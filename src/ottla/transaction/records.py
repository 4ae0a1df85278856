"""The records of `__transaction_state`, in Kafka's own format, so that Kafka's tools read our log.

A key is the version 0 (int16) and the transactional id; a value is its version (int16) and its fields; no value
is a tombstone. The log is compacted by key, so the last value of a transactional id is all that counts. Value
version 0 is written under `transaction.version` 0, value version 1 (flexible, and with the fields of KIP-890)
under every later one.
"""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Any, Final, NamedTuple

from ottla.protocol.codec import (
    DecodeError,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    codec,
    declaration_of,
    record,
    struct,
    tag,
)

_INT16: Final = Struct(">h")
_KEY_VERSION: Final = 0


class TransactionRecord(NamedTuple):
    """One record to append: its key, and its value or None for a tombstone."""

    key: bytes
    value: bytes | None


@record(key=0, versions=(0, 0), flexible=None)
class TransactionLogKey:
    transactional_id: String = ""


@struct
class PartitionsSchema:
    topic: String = ""
    partition_ids: list[Int32] = field(default_factory=list)


@record(key=0, versions=(0, 1), flexible=1)
class TransactionLogValue:
    """A transactional id as of its last change. `transaction_status` is Kafka's number of the state."""

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, tag(0, since=1)] = -1
    next_producer_id: Annotated[Int64, tag(1, since=1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, tag(3, since=1)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, tag(2, since=1)] = 0
    # Kafka keeps this epoch in memory only: a producer that did not hear the answer to InitProducerId, and asks
    # the next coordinator, is fenced there.
    ottla_last_producer_epoch: Annotated[Int16, tag(10_000, since=1)] = -1


def transaction_record(
    transactional_id: str, value: TransactionLogValue | None, version: int = 1
) -> TransactionRecord:
    """The record of a transactional id, or its tombstone."""
    key = _encoded(TransactionLogKey(transactional_id), _KEY_VERSION)
    return TransactionRecord(key, None if value is None else _encoded(value, version))


def _encoded(data: TransactionLogKey | TransactionLogValue, version: int) -> bytes:
    out = bytearray(_INT16.pack(version))
    codec(type(data), version).write(data, out)
    return bytes(out)


def decode_record(
    key: bytes | memoryview | None, value: bytes | memoryview | None
) -> tuple[str, TransactionLogValue | None] | None:
    """The transactional id and value that a record holds; None if it is not one of ours; DecodeError if it is
    damaged.
    """
    if key is None:
        return None
    key_view = memoryview(key)
    if _leading_int16(key_view, "key") != _KEY_VERSION:
        return None
    transactional_id: str = _read_whole(TransactionLogKey, _KEY_VERSION, key_view).transactional_id
    return transactional_id, None if value is None else _decoded_value(memoryview(value))


def _decoded_value(view: memoryview) -> TransactionLogValue:
    version = _leading_int16(view, "value")
    first, last = declaration_of(TransactionLogValue).versions
    if not first <= version <= last:
        raise DecodeError(f"TransactionLogValue has the versions {first} to {last}, not {version}")
    value: TransactionLogValue = _read_whole(TransactionLogValue, version, view)
    return value


def _read_whole(cls: type[Any], version: int, view: memoryview) -> Any:
    decoded, end = codec(cls, version).read(view, _INT16.size)
    if end != len(view):
        raise DecodeError(f"{len(view) - end} bytes follow a {cls.__name__}")
    return decoded


def _leading_int16(view: memoryview, what: str) -> int:
    try:
        (number,) = _INT16.unpack_from(view, 0)
    except struct_error:
        raise DecodeError(f"the {what} of a transaction record is {len(view)} bytes long") from None
    return int(number)
