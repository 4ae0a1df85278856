"""Which records of a batch compaction keeps (RET-3, RET-4, RET-7).

    a record at or after the pass's end       kept
    without a key                             removed
    superseded: its key has a newer offset    removed
    a tombstone whose delete horizon passed   removed
    any other record                          kept
    records of an aborted transaction         removed
    a marker without a batch of its           removed when its delete horizon passed; the horizon is set when
      transaction in the log                  a pass first finds the transaction empty
    the only batch of a live producer, if     kept
      that is a marker

A batch that keeps all its records is copied unchanged; from any other the kept records are copied byte for
byte. Base offset, last offset, sequences and producer never change. The delete horizon of a batch is written
when a pass first finds a tombstone in it: only then are its records re-encoded, because their timestamps are
relative to it.

A batch that keeps no record is removed, unless it is one of the last five batches of a live producer, or the
last of its segment: then its header is kept. So the producers and the end of the segment can always be read
from the log. Apache Kafka keeps the last batch only: a producer that sends an earlier one again, after the
leader has changed, is refused there, begins a new epoch, and an old value of a key becomes its newest one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.log.compaction.plan.offset_map import OffsetMap
from ottla.log.compaction.plan.record_spans import Block, open_block, read_spans, timestamp_delta_at
from ottla.log.compaction.plan.transaction_trail import TransactionTrail
from ottla.model import NO_OFFSET, NO_TIMESTAMP
from ottla.records.batch import (
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    BatchView,
    Readable,
)
from ottla.records.builder import build_batch, write_header
from ottla.records.compression import Compression, compress
from ottla.records.control import ControlRecordType, control_type_of


class LastBatches(NamedTuple):
    """The batches that a live producer may send again: those of its epoch from `first_offset` on.

    The offset is -1 if the producer has only a marker.
    """

    producer_epoch: int
    first_offset: int


class KeptBatch(NamedTuple):
    """A batch with the kept records, and its new header."""

    data: Readable
    header: BatchHeader


class Tally(NamedTuple):
    """Record counts, and when the next tombstones or markers may be removed."""

    records_seen: int
    records_kept: int
    next_horizon_ms: int | None


class BatchCleaner:
    """Cleans one batch after the other, in offset order."""

    __slots__ = (
        "_end_offset",
        "_horizon_ms",
        "_map",
        "_next_horizon_ms",
        "_now_ms",
        "_producers",
        "_records_kept",
        "_records_seen",
        "_trail",
    )

    def __init__(
        self,
        offsets: OffsetMap,
        end_offset: int,
        trail: TransactionTrail,
        producers: Mapping[int, LastBatches],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offsets
        self._end_offset = end_offset
        self._trail = trail
        self._producers = producers
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._next_horizon_ms: int | None = None
        self._records_seen = 0
        self._records_kept = 0

    def clean(self, batch: BatchView, *, is_last: bool) -> KeptBatch | None:
        """The batch with the kept records; None if it is removed.

        The last batch of a segment keeps its header.
        """
        if batch.base_offset >= self._end_offset:
            return KeptBatch(batch.view(), batch.header)
        self._records_seen += batch.records_count
        if batch.is_control:
            return self._clean_control(batch, is_last)
        return self._clean_data(batch, is_last)

    def take_tally(self) -> Tally:
        """The counts since the last call."""
        tally = Tally(self._records_seen, self._records_kept, self._next_horizon_ms)
        self._records_seen = self._records_kept = 0
        self._next_horizon_ms = None
        return tally

    def _clean_data(self, batch: BatchView, is_last: bool) -> KeptBatch | None:
        header = batch.header
        is_aborted = self._trail.is_aborted(header)
        self._trail.see_data(header)
        block = open_block(batch)
        has_tombstones, kept = (False, []) if is_aborted else self._kept_spans(header, block)
        self._records_kept += len(kept)
        if has_tombstones:
            horizon_ms = header.base_timestamp if header.attributes & DELETE_HORIZON else self._horizon_ms
            self._note_horizon(horizon_ms)
            if not header.attributes & DELETE_HORIZON:
                return _with_horizon(batch, {delta for _, _, delta in kept}, horizon_ms)
        if len(kept) == header.records_count > 0:
            return KeptBatch(batch.view(), header)
        if kept:
            return _with_records(header, block, kept)
        is_needed = is_last or self._may_be_sent_again(header)
        return _without_records(header) if is_needed else None

    def _kept_spans(self, header: BatchHeader, block: Block) -> tuple[bool, list[tuple[int, int, int]]]:
        """Whether a tombstone is kept, and (start, end, offset delta) of each kept record."""
        # Runs once per record of every pass, hence the local names.
        newest_offset, base_offset = self._map.get, header.base_offset
        first_unread = self._end_offset - base_offset
        is_horizon_passed = bool(header.attributes & DELETE_HORIZON) and header.base_timestamp <= self._now_ms
        has_tombstones = False
        kept: list[tuple[int, int, int]] = []
        for start, end, delta, key, has_value in read_spans(block):
            if delta < first_unread:
                if key is None or newest_offset(key) > base_offset + delta:
                    continue
                if not has_value:
                    if is_horizon_passed:
                        continue
                    has_tombstones = True
            kept.append((start, end, delta))
        return has_tombstones, kept

    def _clean_control(self, batch: BatchView, is_last: bool) -> KeptBatch | None:
        """A control batch is kept or removed as a whole."""
        header = batch.header
        if not self._may_drop_marker(batch):
            return self._keep_control(batch)
        if not batch.records_count:
            # Another cleaner emptied it.
            return self._keep_control(batch) if is_last else None
        if not batch.has_delete_horizon:
            self._note_horizon(self._horizon_ms)
            self._records_kept += batch.records_count
            return _with_horizon(batch, None, self._horizon_ms)
        if header.base_timestamp <= self._now_ms and not is_last:
            return None
        if header.base_timestamp > self._now_ms:
            self._note_horizon(header.base_timestamp)
        return self._keep_control(batch)

    def _keep_control(self, batch: BatchView) -> KeptBatch:
        self._records_kept += batch.records_count
        return KeptBatch(batch.view(), batch.header)

    def _may_drop_marker(self, batch: BatchView) -> bool:
        """Whether the transaction has no batch in the log, and its producer does not need the marker."""
        header = batch.header
        for record in batch.records():
            control_type = control_type_of(record.key)
            if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                return False
            if self._trail.see_marker(header, is_commit=control_type == ControlRecordType.COMMIT):
                return False
        last = self._producers.get(header.producer_id)
        return last is None or last != LastBatches(header.producer_epoch, NO_OFFSET)

    def _may_be_sent_again(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        return (
            last is not None
            and last.producer_epoch == header.producer_epoch
            and last.first_offset <= header.base_offset
        )

    def _note_horizon(self, horizon_ms: int) -> None:
        known = self._next_horizon_ms
        self._next_horizon_ms = horizon_ms if known is None else min(known, horizon_ms)


def _with_records(header: BatchHeader, block: Block, kept: Sequence[tuple[int, int, int]]) -> KeptBatch:
    """The batch with only these records, copied byte for byte."""
    data = block.data
    max_timestamp = header.max_timestamp
    if not header.attributes & LOG_APPEND_TIME:
        newest_delta = max(timestamp_delta_at(data, start) for start, _, _ in kept)
        max_timestamp = header.base_timestamp + newest_delta
    records = b"".join([data[start:end] for start, end, _ in kept])
    packed = compress(Compression(header.attributes & CODEC_MASK), records)
    return _sealed(
        header._replace(records_count=len(kept), max_timestamp=max_timestamp), bytes(HEADER_BYTES) + packed
    )


def _without_records(header: BatchHeader) -> KeptBatch:
    """The header alone, as Kafka writes it: no codec, no delete horizon, no base timestamp."""
    emptied = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )
    return _sealed(emptied, bytes(HEADER_BYTES))


def _sealed(header: BatchHeader, data: bytes) -> KeptBatch:
    batch = bytearray(data)
    header = header._replace(batch_length=len(batch) - BATCH_OVERHEAD_BYTES)
    write_header(header, batch)
    return KeptBatch(batch, header)


def _with_horizon(batch: BatchView, deltas: set[int] | None, horizon_ms: int) -> KeptBatch:
    """The batch with the records at these offset deltas (None: all) and a delete horizon."""
    header = batch.header
    records = [
        record for record in batch.records() if deltas is None or record.offset - batch.base_offset in deltas
    ]
    is_stamped = bool(header.attributes & LOG_APPEND_TIME)
    data = build_batch(
        records,
        compression=batch.compression,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        timestamp_type=batch.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        last_offset_delta=header.last_offset_delta,
        max_timestamp=header.max_timestamp if is_stamped else None,
        delete_horizon_ms=horizon_ms,
    )
    return KeptBatch(data, BatchView(data).header)
