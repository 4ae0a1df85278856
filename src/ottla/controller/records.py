"""The records of the metadata log, in Kafka's own format, so that Kafka's tools read our log (CTL-4).

A record's value is a frame version (1), the record type and the type's version, each an unsigned varint, and
then the type's body. Each declaration names the versions of its type that can be read; `_WRITTEN_VERSIONS`
the one that is written. A type that this version does not know is refused: to pass over it could mean to undo
what a newer one decided. The types from 20480 on are Ottla's own.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Final

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Bytes,
    DecodeError,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    UInt32,
    Uuid,
    codec,
    declaration_of,
    record,
    since,
    struct,
    tag,
)

FRAME_VERSION: Final = 1

# The level of metadata that these records make up: Kafka 4.0-IV1, the first one whose partition records have
# eligible leader replicas; ids of log directories they have from 3.7-IV2 on. A log that an earlier version of
# Ottla began says 14 (3.6-IV2): its level is raised with the next registration of a broker.
METADATA_VERSION_FEATURE: Final = "metadata.version"
METADATA_VERSION_LEVEL: Final = 23
ELR_FEATURE: Final = "eligible.leader.replicas.version"
ELR_LEVEL: Final = 1
# 1: flexible records of __transaction_state; 2: every transaction has an epoch of its own (KIP-890). Not raised by
# itself: clients behave differently at each level, so an operator decides.
TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
TRANSACTION_VERSION_LEVEL: Final = 2

NO_LEADER_CHANGE: Final = -2

# Leader recovery states (KIP-704): an unclean election is marked as such.
NO_RECOVERY_CHANGE: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1

# The states of fencing and of stopping in a change of a registration; 0 means no change.
FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


@struct
class BrokerEndpoint:
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class BrokerFeature:
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@record(key=0, versions=(0, 4), flexible=0)
class RegisterBrokerRecord:
    broker_id: Int32 = 0
    is_migrating_zk_broker: Annotated[Boolean, since(2)] = False
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: list[BrokerEndpoint] = field(default_factory=list)
    features: list[BrokerFeature] = field(default_factory=list)
    rack: String | None = ""
    fenced: Boolean = True
    in_controlled_shutdown: Annotated[Boolean, since(1)] = False
    log_dirs: Annotated[list[Uuid], tag(0, since=3)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, tag(1, since=4)] = None


@record(key=1, versions=(0, 0), flexible=0)
class UnregisterBrokerRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


@record(key=2, versions=(0, 0), flexible=0)
class TopicRecord:
    name: String = ""
    topic_id: Uuid = ZERO_UUID


@record(key=3, versions=(0, 2), flexible=0)
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: list[Int32] = field(default_factory=list)
    isr: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, tag(0, since=0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[list[Uuid], since(1)] = field(default_factory=list)
    eligible_leader_replicas: Annotated[list[Int32] | None, tag(1, since=2)] = None
    last_known_elr: Annotated[list[Int32] | None, tag(2, since=2)] = None


@record(key=4, versions=(0, 0), flexible=0)
class ConfigRecord:
    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: String | None = ""


@record(key=5, versions=(0, 2), flexible=0)
class PartitionChangeRecord:
    """Fields that are None, and a leader of -2, did not change. Naming a leader, even the same, raises the
    leader epoch.
    """

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Annotated[list[Int32] | None, tag(0, since=0)] = None
    leader: Annotated[Int32, tag(1, since=0)] = NO_LEADER_CHANGE
    replicas: Annotated[list[Int32] | None, tag(2, since=0)] = None
    removing_replicas: Annotated[list[Int32] | None, tag(3, since=0)] = None
    adding_replicas: Annotated[list[Int32] | None, tag(4, since=0)] = None
    leader_recovery_state: Annotated[Int8, tag(5, since=0)] = NO_RECOVERY_CHANGE
    directories: Annotated[list[Uuid] | None, tag(8, since=1)] = None
    eligible_leader_replicas: Annotated[list[Int32] | None, tag(6, since=2)] = None
    last_known_elr: Annotated[list[Int32] | None, tag(7, since=2)] = None


@record(key=7, versions=(0, 0), flexible=0)
class FenceBrokerRecord:
    id: Int32 = 0
    epoch: Int64 = 0


@record(key=8, versions=(0, 0), flexible=0)
class UnfenceBrokerRecord:
    id: Int32 = 0
    epoch: Int64 = 0


@record(key=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord:
    topic_id: Uuid = ZERO_UUID


@record(key=10, versions=(0, 0), flexible=0)
class DelegationTokenRecord:
    """A delegation token; the HMAC, which is its secret, is not kept."""

    owner: String = ""
    requester: String = ""
    renewers: list[String] = field(default_factory=list)
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


@record(key=11, versions=(0, 0), flexible=0)
class UserScramCredentialRecord:
    """What the cluster keeps of a user's password, by mechanism."""

    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0

    def __repr__(self) -> str:
        return f"UserScramCredentialRecord({self.name!r}, {self.mechanism}, iterations={self.iterations})"


@record(key=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord:
    name: String = ""
    feature_level: Int16 = 0


@record(key=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


@record(key=17, versions=(0, 3), flexible=0)
class BrokerRegistrationChangeRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, tag(0, since=0)] = 0
    in_controlled_shutdown: Annotated[Int8, tag(1, since=1)] = 0
    log_dirs: Annotated[list[Uuid], tag(2, since=2)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, tag(3, since=3)] = None


@struct
class QuotaEntityData:
    entity_type: String = ""
    entity_name: String | None = ""


@record(key=14, versions=(0, 0), flexible=0)
class ClientQuotaRecord:
    entity: list[QuotaEntityData] = field(default_factory=list)
    key: String = ""
    value: Float64 = 0.0
    remove: Boolean = False


@record(key=18, versions=(0, 0), flexible=0)
class AccessControlEntryRecord:
    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@record(key=19, versions=(0, 0), flexible=0)
class RemoveAccessControlEntryRecord:
    id: Uuid = ZERO_UUID


@record(key=20, versions=(0, 0), flexible=0)
class NoOpRecord:
    pass


@record(key=22, versions=(0, 0), flexible=0)
class RemoveUserScramCredentialRecord:
    name: String = ""
    mechanism: Int8 = 0


@record(key=26, versions=(0, 0), flexible=0)
class RemoveDelegationTokenRecord:
    token_id: String = ""


# ---- Ottla's own: remote logs. Their types lie far outside Kafka's.


@record(key=20480, versions=(0, 0), flexible=0)
class RemoteLogRecord:
    """The remote part of a partition exists, and starts at this offset; a start never moves down."""

    topic_id: Uuid = ZERO_UUID
    partition_id: Int32 = -1
    topic_name: String = ""
    start_offset: Int64 = 0


@struct
class RemoteObjectEntry:
    kind: String = ""
    size_bytes: Int64 = 0
    crc: UInt32 = 0


@struct
class RemoteEpoch:
    epoch: Int32 = 0
    start_offset: Int64 = 0


@record(key=20481, versions=(0, 0), flexible=0)
class RemoteSegmentRecord:
    """A segment of a remote log has this state (remote_log_records)."""

    topic_id: Uuid = ZERO_UUID
    partition_id: Int32 = -1
    segment_id: Uuid = ZERO_UUID
    state: Int8 = 0
    base_offset: Int64 = 0
    next_offset: Int64 = 0
    leader_epoch: Int32 = -1
    size_bytes: Int64 = 0
    max_timestamp_ms: Int64 = -1
    objects: list[RemoteObjectEntry] = field(default_factory=list)
    epochs: list[RemoteEpoch] = field(default_factory=list)


@record(key=20482, versions=(0, 0), flexible=0)
class RemoveRemoteSegmentRecord:
    """The objects of a segment are deleted."""

    topic_id: Uuid = ZERO_UUID
    partition_id: Int32 = -1
    segment_id: Uuid = ZERO_UUID


RECORD_TYPES: Final[dict[int, type[Any]]] = {
    declaration_of(cls).key: cls
    for cls in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        ClientQuotaRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
        DelegationTokenRecord,
        RemoveDelegationTokenRecord,
        RemoteLogRecord,
        RemoteSegmentRecord,
        RemoveRemoteSegmentRecord,
    )
}
_WRITTEN_VERSIONS: Final[dict[type[Any], int]] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
}


def encode_record(value: Any) -> bytes:
    """The value of a metadata record in the log."""
    version = _WRITTEN_VERSIONS.get(type(value), 0)
    out = bytearray((FRAME_VERSION, *_varint(declaration_of(type(value)).key), version))
    codec(type(value), version).write(value, out)
    return bytes(out)


def decode_record(value: bytes | bytearray | memoryview) -> Any:
    """The record that a value of the metadata log holds; DecodeError if it holds none."""
    view = memoryview(value)
    frame_version, position = _read_varint(view, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a metadata record has the frame version {frame_version}, not {FRAME_VERSION}")
    key, position = _read_varint(view, position)
    version, position = _read_varint(view, position)
    cls = RECORD_TYPES.get(key)
    if cls is None:
        raise DecodeError(f"a metadata record has the type {key}, which this version does not know")
    first, last = declaration_of(cls).versions
    if not first <= version <= last:
        raise DecodeError(f"{cls.__name__} has the versions {first} to {last}, not {version}")
    decoded, end = codec(cls, version).read(view, position)
    if end != len(view):
        raise DecodeError(f"{len(view) - end} bytes follow a {cls.__name__}")
    return decoded


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(view) or shift > 28:
            raise DecodeError("a metadata record ends within its header")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
