"""Appends without a client's checks: what a leader numbered before, and what the broker itself writes.

A follower does this for every batch that anybody sends to its leaders, so nearly all of them are decided about by a few comparisons of
header fields; producers that are new, transactions and control batches take the longer way (`replay.stage_batch`).
"""

from struct import error as struct_error
from typing import Any, Final

from crc32c import crc32c

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.producer_state import SEQUENCE_MASK, ProducedBatch
from ottla.log.state import LogState
from ottla.log.writing.append import Appended
from ottla.log.writing.producer_replay import stage_batch
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

# The fields of a header, in the order of BatchHeader: making one of those costs as much as all the rest.
Fields = tuple[Any, ...]


def append_batch(
    state: LogState, writer: Writer, records: memoryview, leader_epoch: int, now_ms: int
) -> Appended:
    """Number and append one batch of the broker's own."""
    if len(_headers(records)) != 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, "one batch at a time")
    base_offset = state.log_end_offset
    records[0:8] = base_offset.to_bytes(8, "big")
    records[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    header = BatchHeader._make(_UNPACK(records))
    _append(state, writer, records, [header], now_ms)
    return Appended(base_offset, header.last_offset, NO_TIMESTAMP, state.log_start_offset, False)


def append_replicated(state: LogState, writer: Writer, records: memoryview, now_ms: int) -> None:
    """Append batches that carry their offsets and epochs; all of them are checked before the first is written."""
    headers = _headers(records)
    next_offset = state.log_end_offset
    for base_offset, _, _, _, _, _, last_offset_delta, *_ in headers:
        if base_offset < next_offset:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"offset {base_offset} comes where {next_offset} is next"
            )
        next_offset = base_offset + last_offset_delta + 1
    _append(state, writer, records, headers, now_ms)


def batch_around(offset: int, records: memoryview) -> int | None:
    """The base offset of the first batch, if `offset` lies inside of it."""
    try:
        header = read_header(records)
    except CorruptRecord:
        return None
    return header.base_offset if header.base_offset < offset <= header.last_offset else None


def _headers(records: memoryview) -> list[Fields]:
    """The headers of whole and undamaged batches, one behind the other; KafkaError if there is anything else."""
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


def _append(state: LogState, writer: Writer, records: memoryview, headers: list[Fields], now_ms: int) -> None:
    if state.refusal is not None:
        raise state.refusal
    try:
        writer.begin(now_ms)
        _place(state, writer, records, headers)
        writer.write()
    except OSError as problem:
        writer.abandon()
        reason = f"{state.name} could not be written: {problem.strerror}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from problem
    # The appender shares the writer, and its limits may be older than this call's time.
    writer.forget_time()


def _place(state: LogState, writer: Writer, records: memoryview, headers: list[Fields]) -> None:
    latest_epoch = state.leader_epochs.latest
    position = 0
    for header in headers:
        base_offset, length, epoch, _, _, attributes, delta, _, max_time, producer, *_ = header
        size_bytes, last_offset = length + BATCH_OVERHEAD_BYTES, base_offset + delta
        # There may be a hole before the batch; a segment that begins here then begins behind the hole.
        writer.next_offset = base_offset
        writer.make_room(size_bytes, max_time, last_offset)
        if epoch > latest_epoch:
            latest_epoch = epoch
            writer.begin_epoch(epoch, base_offset)
        batch = records[position : position + size_bytes]
        if producer >= 0:
            entry = writer.staged.entry(producer)
            if entry is not None and entry.epoch == header[10] and not attributes & (CONTROL | TRANSACTIONAL):
                sequence = header[11]
                last_sequence = (sequence + delta) & SEQUENCE_MASK
                entry.add(ProducedBatch(sequence, last_sequence, base_offset, last_offset, max_time))
            else:
                stage_batch(writer.staged, BatchHeader._make(header), BatchView(batch))
        writer.place(batch, size_bytes, last_offset, max_time)
        position += size_bytes
