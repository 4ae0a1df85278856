"""The records of `__consumer_offsets`, in Kafka's own format, so that Kafka's tools read our log (GRP-3).

A key is the record type (int16) and the type's fields; a value is its version (int16) and its fields; no
value is a tombstone. The log is compacted by key, so the last value of a key is all that counts.

    type   key                       value                versions   written
    0      group, topic, partition   offset (legacy)      0-4        never; read as type 1
    1      group, topic, partition   offset               0-4        4, or 1 if the commit had its own expiry
    2      group                     generation, members  0-4        3

Records are written as Kafka 4.3 writes them. Types of other kinds of groups are passed over when read.
"""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from struct import error as struct_error
from typing import Annotated, Any, Final, NamedTuple

from ottla.model import NO_TIMESTAMP
from ottla.protocol.codec import (
    ZERO_UUID,
    Bytes,
    DecodeError,
    Int32,
    Int64,
    String,
    Uuid,
    between,
    codec,
    declaration_of,
    record,
    since,
    struct,
    tag,
)

NO_EXPIRY: Final = -1

_INT16: Final = Struct(">h")
_OFFSET_VERSION: Final = 4
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VERSION: Final = 3


class GroupRecord(NamedTuple):
    """One record to append: its key, and its value or None for a tombstone."""

    key: bytes
    value: bytes | None


@record(key=0, versions=(0, 0), flexible=None)
class LegacyOffsetCommitKey:
    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@record(key=1, versions=(0, 0), flexible=None)
class OffsetCommitKey:
    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@record(key=1, versions=(0, 4), flexible=4)
class OffsetCommitValue:
    offset: Int64 = 0
    leader_epoch: Annotated[Int32, since(3)] = -1
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, between(1, 1)] = NO_EXPIRY
    topic_id: Annotated[Uuid, tag(0, since=4)] = ZERO_UUID


@record(key=2, versions=(0, 0), flexible=None)
class GroupMetadataKey:
    group: String = ""


@struct
class MemberMetadata:
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, since(1)] = -1
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@record(key=2, versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """A group as of its last completed sync, or since it is empty (no members, no protocol, no leader)."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Annotated[Int64, since(2)] = NO_TIMESTAMP
    members: list[MemberMetadata] = field(default_factory=list)


GroupKey = OffsetCommitKey | GroupMetadataKey
GroupValue = OffsetCommitValue | GroupMetadataValue

_KEYS: Final[dict[int, type[Any]]] = {
    declaration_of(cls).key: cls for cls in (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey)
}
_VALUES: Final[dict[type[Any], type[Any]]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
}


def offset_record(group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> GroupRecord:
    """The record of one committed offset, or its tombstone."""
    key = _encoded_key(OffsetCommitKey(group, topic, partition))
    if value is None:
        return GroupRecord(key, None)
    expires = value.expire_timestamp != NO_EXPIRY
    return GroupRecord(
        key, _encoded_value(value, _OFFSET_VERSION_WITH_EXPIRY if expires else _OFFSET_VERSION)
    )


def group_record(group: str, value: GroupMetadataValue | None) -> GroupRecord:
    """The record of a group, or its tombstone."""
    key = _encoded_key(GroupMetadataKey(group))
    return GroupRecord(key, None if value is None else _encoded_value(value, _GROUP_VERSION))


def _encoded_key(key: GroupKey) -> bytes:
    out = bytearray(_INT16.pack(declaration_of(type(key)).key))
    codec(type(key), 0).write(key, out)
    return bytes(out)


def _encoded_value(value: GroupValue, version: int) -> bytes:
    out = bytearray(_INT16.pack(version))
    codec(type(value), version).write(value, out)
    return bytes(out)


def decode_record(key: bytes | memoryview | None, value: bytes | memoryview | None) -> tuple[Any, Any] | None:
    """The key and value that a record holds; None if it is not one of ours; DecodeError if it is damaged."""
    if key is None:
        return None
    view = memoryview(key)
    key_class = _KEYS.get(_leading_int16(view, "key"))
    if key_class is None:
        return None
    decoded = _read_whole(key_class, 0, view)
    if key_class is LegacyOffsetCommitKey:
        decoded = OffsetCommitKey(decoded.group, decoded.topic, decoded.partition)
    return decoded, None if value is None else _decoded_value(_VALUES[type(decoded)], memoryview(value))


def _decoded_value(cls: type[Any], view: memoryview) -> Any:
    version = _leading_int16(view, "value")
    first, last = declaration_of(cls).versions
    if not first <= version <= last:
        raise DecodeError(f"{cls.__name__} has the versions {first} to {last}, not {version}")
    return _read_whole(cls, version, view)


def _read_whole(cls: type[Any], version: int, view: memoryview) -> Any:
    decoded, end = codec(cls, version).read(view, _INT16.size)
    if end != len(view):
        raise DecodeError(f"{len(view) - end} bytes follow a {cls.__name__}")
    return decoded


def _leading_int16(view: memoryview, what: str) -> int:
    try:
        (number,) = _INT16.unpack_from(view, 0)
    except struct_error:
        raise DecodeError(f"the {what} of a group record is {len(view)} bytes long") from None
    return int(number)
