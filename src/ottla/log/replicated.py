"""Appends without a client's checks: what a leader numbered before, and what the broker itself writes."""

from ottla.errors import ErrorCode, KafkaError
from ottla.log.append import Appended, begin_epoch, write_at_end
from ottla.log.producer_state import Staged
from ottla.log.replay import stage_batch
from ottla.log.rolling import must_roll, roll
from ottla.log.segment import MAX_RELATIVE_OFFSET
from ottla.log.state import LogState
from ottla.log.validation import NO_TIMESTAMP
from ottla.records.batch import BatchView, CorruptRecord, iter_batches


def append_batch(state: LogState, records: memoryview, leader_epoch: int, now_ms: int) -> Appended:
    """Number and append one batch of the broker's own."""
    batch = _batches(records)[0]
    if batch.size_bytes != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "one batch at a time")
    base_offset = state.log_end_offset
    records[0:8] = base_offset.to_bytes(8, "big")
    records[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    numbered = BatchView(records)
    _write(state, numbered, now_ms)
    return Appended(base_offset, numbered.last_offset, NO_TIMESTAMP, state.log_start_offset, False)


def append_replicated(state: LogState, records: memoryview, now_ms: int) -> None:
    """Append batches that carry their offsets and epochs; all of them are checked before the first is written."""
    batches = _batches(records)
    next_offset = state.log_end_offset
    for batch in batches:
        if batch.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"offset {batch.base_offset} comes where {next_offset} is next"
            )
        next_offset = batch.next_offset
    for batch in batches:
        _write(state, batch, now_ms)


def _batches(records: memoryview) -> list[BatchView]:
    try:
        batches = list(iter_batches(records))
    except CorruptRecord as problem:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from None
    if not batches or not all(batch.crc_is_valid() for batch in batches):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
    return batches


def _write(state: LogState, batch: BatchView, now_ms: int) -> None:
    if state.refusal is not None:
        raise state.refusal
    try:
        _roll_for(state, batch, now_ms)
        write_at_end(state, [batch.view()])
    except OSError as problem:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{state.name} could not be written: {problem.strerror}"
        ) from problem
    _commit(state, batch, now_ms)


def _roll_for(state: LogState, batch: BatchView, now_ms: int) -> None:
    active = state.segments.active
    if (
        (active.size_bytes and active.size_bytes + batch.size_bytes > state.config.segment_bytes)
        or batch.max_timestamp > state.last_timestamp_before_roll(now_ms)
        or must_roll(state, batch.last_offset)
    ):
        is_far = batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        roll(state, batch.base_offset if is_far else state.log_end_offset, now_ms)


def _commit(state: LogState, batch: BatchView, now_ms: int) -> None:
    active = state.segments.active
    if batch.partition_leader_epoch > state.leader_epochs.latest:
        begin_epoch(state, batch.partition_leader_epoch, batch.base_offset)
    if batch.max_timestamp > active.largest_timestamp[0]:
        active.largest_timestamp = (batch.max_timestamp, batch.last_offset)
    if active.since_index_bytes > state.config.index_interval_bytes:
        active.add_index_entry(
            batch.last_offset, active.size_bytes, active.largest_timestamp, state.config.segment_index_bytes
        )
        active.since_index_bytes = 0
    active.since_index_bytes += batch.size_bytes
    active.size_bytes += batch.size_bytes
    active.next_offset = batch.next_offset
    state.layout_version += 1
    state.appended(batch.size_bytes, now_ms)
    if batch.producer_id >= 0:
        staged = Staged(state.producers)
        stage_batch(staged, batch.header, batch)
        state.producers.install(staged.entries)
