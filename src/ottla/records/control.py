"""Control batches: records that brokers write among a client's, and that no application sees.

A control batch holds control records only. A record's key says what it is; the two that end a transaction
carry the epoch of the coordinator that decided. The others belong to the metadata log, and stay bytes here.

Rules
- A type we do not know is no error: a newer broker may have written it, and a reader steps over it.
- A marker takes one offset of the log, and has no sequence number.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final

from ottla.records.batch import BatchView
from ottla.records.builder import build_batch
from ottla.records.corruption import CorruptRecord
from ottla.records.record import Record

_KEY: Final = Struct(">hh")  # version, type
_MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_VERSION: Final = 0
_EPOCH_PER_TRANSACTION: Final = 2  # since this transaction.version (KIP-890)


class ControlRecordType(IntEnum):
    """The meaning of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_MARKERS: Final = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The last word on a producer's transaction in one partition."""

    is_commit: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The decision of a transaction coordinator, for one producer, as a partition is asked to write it.

    From transaction version 2 on the marker has the epoch of the producer's next transaction.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Whether each transaction of the producer has an epoch of its own."""
        return self.transaction_version >= _EPOCH_PER_TRANSACTION

    @property
    def ending(self) -> EndTransactionMarker:
        """The part of the decision that the control record itself carries."""
        return EndTransactionMarker(self.is_commit, self.coordinator_epoch)


def control_key(control_type: ControlRecordType) -> bytes:
    """The key of a control record of this type."""
    return _KEY.pack(_VERSION, control_type)


def control_type_of(key: bytes | None) -> ControlRecordType | int:
    """The type in a control record's key: a known type, or the bare number of an unknown one."""
    try:
        version, number = _KEY.unpack_from(key or b"")
    except struct_error:
        raise CorruptRecord(f"a control record's key needs {_KEY.size} bytes, this one is {key!r}") from None
    if version < 0:
        raise CorruptRecord(f"a control record's key has version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return int(number)


def read_marker(record: Record) -> EndTransactionMarker | None:
    """The marker that a control record is; None when it is another kind of control record."""
    control_type = control_type_of(record.key)
    if control_type not in _MARKERS:
        return None
    try:
        version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except struct_error:
        raise CorruptRecord(f"a transaction marker's value is {record.value!r}") from None
    if version < 0:
        raise CorruptRecord(f"a transaction marker's value has version {version}")
    return EndTransactionMarker(control_type == ControlRecordType.COMMIT, coordinator_epoch)


def marker_of(batch: BatchView) -> EndTransactionMarker | None:
    """The marker in a control batch; None when it holds another control record, or none since compaction."""
    for record in batch.records():
        return read_marker(record)
    return None


def build_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a producer's transaction."""
    key = control_key(_MARKERS[marker.is_commit])
    value = _MARKER_VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
