"""Appends without a client's checks: batches with a leader's offsets, and one batch that gets its offset.

A follower does this for every batch of its leaders, so nearly all batches are accepted with a few comparisons
of header fields; new producers, transactions and control batches take the longer way
(`producer_replay.stage_batch`).
"""

from struct import error as struct_error
from typing import Any, Final

from crc32c import crc32c

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.producer_replay import stage_batch
from ottla.log.producers.producer_state import SEQUENCE_MASK, ProducedBatch
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import MAX_RELATIVE_OFFSET
from ottla.log.status import Status
from ottla.log.writing.append import Appended
from ottla.log.writing.writer import Writer
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import (
    BATCH_OVERHEAD_BYTES,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    BatchView,
    CorruptRecord,
    read_header,
)

_UNPACK: Final = HEADER.unpack_from

# The fields of a header, in the order of BatchHeader: to make a BatchHeader costs as much as all the rest.
Fields = tuple[Any, ...]


class ReplicatedAppender:
    """Appends batches to one log that no client's checks apply to."""

    __slots__ = ("_extent", "_status", "_writer")

    def __init__(self, writer: Writer, extent: Extent, status: Status) -> None:
        self._writer = writer
        self._extent = extent
        self._status = status

    def append_batch(self, records: memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Append one batch of this broker's own; its offsets and leader epoch are written into it."""
        if len(_headers(records)) != 1:
            raise KafkaError(ErrorCode.INVALID_RECORD, "one batch at a time")
        base_offset = self._extent.end_offset
        records[0:8] = base_offset.to_bytes(8, "big")
        records[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
        header = BatchHeader._make(_UNPACK(records))
        self._append(records, [header], now_ms)
        return Appended(base_offset, header.last_offset, NO_TIMESTAMP, self._extent.start_offset, False)

    def append_replicated(self, records: memoryview, now_ms: int) -> None:
        """Append batches that have their offsets and epochs; all are checked before the first is written."""
        headers = _headers(records)
        next_offset = self._extent.end_offset
        for base_offset, _, _, _, _, _, last_offset_delta, *_ in headers:
            if base_offset < next_offset:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD, f"offset {base_offset} comes where {next_offset} is next"
                )
            next_offset = base_offset + last_offset_delta + 1
        self._append(records, headers, now_ms)

    def _append(self, records: memoryview, headers: list[Fields], now_ms: int) -> None:
        if self._status.refusal is not None:
            raise self._status.refusal
        writer = self._writer
        try:
            writer.begin(now_ms)
            self._place(records, headers)
            writer.write()
        except OSError as problem:
            writer.abandon()
            raise self._status.write_failed(problem) from problem
        # The client appender shares the writer, and its limits may be older than this call's time.
        writer.forget_time()

    def _place(self, records: memoryview, headers: list[Fields]) -> None:
        writer, latest_epoch = self._writer, self._extent.leader_epochs.latest
        position = 0
        for header in headers:
            base_offset, length, epoch, _, _, attributes, delta, _, max_time, producer, *_ = header
            size_bytes, last_offset = length + BATCH_OVERHEAD_BYTES, base_offset + delta
            if last_offset - writer.next_offset > MAX_RELATIVE_OFFSET:
                # No segment is long enough for the gap and the batch: a new one begins after the gap.
                writer.skip_to(base_offset)
            writer.make_room(size_bytes, max_time, last_offset)
            if base_offset != writer.next_offset:
                # Compaction left a gap in the leader's log. It lies inside of a segment, also of one that begins
                # here: recovery takes a gap between two segments for lost records.
                writer.skip_to(base_offset)
            if epoch > latest_epoch:
                latest_epoch = epoch
                writer.begin_epoch(epoch, base_offset)
            batch = records[position : position + size_bytes]
            if producer >= 0:
                entry = writer.staged.entry(producer)
                if (
                    entry is not None
                    and entry.epoch == header[10]
                    and not attributes & (CONTROL | TRANSACTIONAL)
                ):
                    sequence = header[11]
                    last_sequence = (sequence + delta) & SEQUENCE_MASK
                    entry.add(ProducedBatch(sequence, last_sequence, base_offset, last_offset, max_time))
                else:
                    stage_batch(writer.staged, BatchHeader._make(header), BatchView(batch))
            # Of a batch that the leader has compacted, perhaps no record is left to be found by its time.
            writer.place(batch, size_bytes, last_offset, max_time if header[12] else NO_TIMESTAMP)
            position += size_bytes


def batch_around(offset: int, records: memoryview) -> int | None:
    """The base offset of the first batch, if `offset` lies inside that batch."""
    try:
        header = read_header(records)
    except CorruptRecord:
        return None
    return header.base_offset if header.base_offset < offset <= header.last_offset else None


def _headers(records: memoryview) -> list[Fields]:
    """The headers of adjacent, whole and undamaged batches; KafkaError if there are other bytes."""
    headers: list[Fields] = []
    position, end = 0, len(records)
    while position < end:
        try:
            header = _UNPACK(records, position)
        except struct_error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{end - position} bytes are no batch") from None
        _, length, _, magic, crc, _, last_offset_delta, *_ = header
        next_position = position + BATCH_OVERHEAD_BYTES + length
        if (
            magic != MAGIC
            or not position + HEADER_BYTES <= next_position <= end
            or last_offset_delta < 0
            or crc32c(records[position + CRC_START : next_position]) != crc
        ):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at byte {position} is damaged")
        headers.append(header)
        position = next_position
    if not headers:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "there is no batch")
    return headers
