"""Appends without a client's checks: what a leader numbered before, and what the broker itself writes."""

from ottla.errors import ErrorCode, KafkaError
from ottla.log.append import Appended
from ottla.log.replay import stage_batch
from ottla.log.state import LogState
from ottla.log.validation import NO_TIMESTAMP
from ottla.log.writing import Writer
from ottla.records.batch import BatchView, CorruptRecord, iter_batches, read_header


def append_batch(
    state: LogState, writer: Writer, records: memoryview, leader_epoch: int, now_ms: int
) -> Appended:
    """Number and append one batch of the broker's own."""
    (batch, *more) = _batches(records)
    if more:
        raise KafkaError(ErrorCode.INVALID_RECORD, "one batch at a time")
    base_offset = state.log_end_offset
    records[0:8] = base_offset.to_bytes(8, "big")
    records[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    numbered = BatchView(records, batch.position)
    _append(state, writer, [numbered], now_ms)
    return Appended(base_offset, numbered.last_offset, NO_TIMESTAMP, state.log_start_offset, False)


def append_replicated(state: LogState, writer: Writer, records: memoryview, now_ms: int) -> None:
    """Append batches that carry their offsets and epochs; all of them are checked before the first is written."""
    batches = _batches(records)
    next_offset = state.log_end_offset
    for batch in batches:
        if batch.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"offset {batch.base_offset} comes where {next_offset} is next"
            )
        next_offset = batch.next_offset
    _append(state, writer, batches, now_ms)


def batch_around(offset: int, records: memoryview) -> int | None:
    """The base offset of the first batch, if `offset` lies inside of it."""
    try:
        header = read_header(records)
    except CorruptRecord:
        return None
    return header.base_offset if header.base_offset < offset <= header.last_offset else None


def _batches(records: memoryview) -> list[BatchView]:
    try:
        batches = list(iter_batches(records))
    except CorruptRecord as problem:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from None
    if not batches or not all(batch.crc_is_valid() for batch in batches):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
    return batches


def _append(state: LogState, writer: Writer, batches: list[BatchView], now_ms: int) -> None:
    if state.refusal is not None:
        raise state.refusal
    try:
        writer.begin(now_ms)
        latest_epoch = state.leader_epochs.latest
        for batch in batches:
            # There may be a hole before the batch; a segment that begins here then begins behind the hole.
            writer.next_offset = batch.base_offset
            writer.make_room(batch.size_bytes, batch.max_timestamp, batch.last_offset)
            if batch.partition_leader_epoch > latest_epoch:
                latest_epoch = batch.partition_leader_epoch
                writer.begin_epoch(latest_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                stage_batch(writer.staged, batch.header, batch)
            writer.place(batch.view(), batch.size_bytes, batch.last_offset, batch.max_timestamp)
        writer.write()
    except OSError as problem:
        writer.abandon()
        reason = f"{state.name} could not be written: {problem.strerror}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from problem
    # The appender's limits may be older than this call's time.
    state.layout_version += 1
