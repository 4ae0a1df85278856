"""The records of coordinators in words: `__consumer_offsets` and `__transaction_state`.

A record of a kind that is not decoded is no damage: Kafka has more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Final

from ottla.group.records import OffsetCommitKey
from ottla.group.records import decode_record as decode_group_record
from ottla.protocol.codec import DecodeError
from ottla.records.record import Record
from ottla.transaction.metadata import TransactionState
from ottla.transaction.records import decode_record as decode_transaction_record

Fields = dict[str, Any]

_STATES: Final = [state.value for state in TransactionState]  # by Kafka's numbers


def plain(value: Any) -> Any:
    """A decoded message as mappings and lists."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(each) for each in value] if isinstance(value, list) else value


def coordinator_fields(topic: str, record: Record) -> Fields | None:
    """The type and fields of a coordinator's record; None for records of other topics."""
    decode = _DECODERS.get(topic)
    if decode is None:
        return None
    try:
        decoded = decode(record)
    except DecodeError as problem:
        return {"type": "unknown", "problem": str(problem)}
    return {"type": "unknown", "problem": "a record of another kind"} if decoded is None else decoded


def _group_fields(record: Record) -> Fields | None:
    decoded = decode_group_record(record.key, record.value)
    if decoded is None:
        return None
    key, value = decoded
    kind = "Offset" if isinstance(key, OffsetCommitKey) else "Group"
    return {"type": kind, **plain(key), **_value_fields(value)}


def _transaction_fields(record: Record) -> Fields | None:
    decoded = decode_transaction_record(record.key, record.value)
    if decoded is None:
        return None
    transactional_id, value = decoded
    shown = _value_fields(value)
    if value is not None and 0 <= value.transaction_status < len(_STATES):
        shown["transaction_status"] = _STATES[value.transaction_status]
    return {"type": "Transaction", "transactional_id": transactional_id, **shown}


def _value_fields(value: Any) -> Fields:
    return {"is_tombstone": True} if value is None else dict(plain(value))


_DECODERS: Final[dict[str, Callable[[Record], Fields | None]]] = {
    "__consumer_offsets": _group_fields,
    "__transaction_state": _transaction_fields,
}
