"""The hot path: batches that arrive are checked, numbered, and written with one writev per segment.

An `Appender` numbers batch after batch, collects them, and changes nothing in the log until their bytes are in the
file; then it moves the log's end, installs the producers' new state and adds index entries. A batch that does not fit
the active segment ends the writev, rolls, and begins the next one. Between two calls the appender keeps the numbers
it works with, as long as nobody else changed the log (`LogState.layout_version`).

When a write fails the file is cut back to where it was. Should even that fail, nobody knows what the file holds, and
the log refuses writes from then on.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producer_state import SEQUENCE_MASK, Incoming, ProducedBatch, Staged
from ottla.log.rolling import must_roll, roll
from ottla.log.segment import MAX_RELATIVE_OFFSET
from ottla.log.state import LogState, logger
from ottla.log.validation import NO_TIMESTAMP, examine
from ottla.records.batch import HEADER, TRANSACTIONAL

_UNPACK: Final = HEADER.unpack_from
_NUMBER: Final = Struct(">qii").pack_into  # base offset, length (unchanged), leader epoch


class Appended(NamedTuple):
    """Where a batch went. `log_append_time_ms` is -1 unless the topic stamps its records."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


Answer = Appended | KafkaError

# Appended(...) spends most of its time in a generated __new__; this is the same without it.
_new_tuple: Final = tuple.__new__


class Appender:
    """Appends what clients send to one log."""

    __slots__ = (
        "_append_time_ms",
        "_buffers",
        "_entries",
        "_interval_bytes",
        "_largest_bytes",
        "_largest_offset",
        "_largest_time",
        "_last_allowed_offset",
        "_last_allowed_time",
        "_leader_epoch",
        "_newest_ms",
        "_next_offset",
        "_now_ms",
        "_oldest_ms",
        "_room_bytes",
        "_since_index_bytes",
        "_size_bytes",
        "_staged",
        "_state",
        "_version",
    )

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._version = -1
        self._now_ms = 0

    def append(self, record_sets: Sequence[memoryview], leader_epoch: int, now_ms: int) -> list[Answer]:
        """One answer per item, in order. Never raises for bad data or a bad disk."""
        state = self._state
        if state.refusal is not None:
            return [state.refusal for _ in record_sets]
        answers: list[Answer] = []
        try:
            self._begin(leader_epoch, now_ms)
            # What was answered before an OSError stays in the list.
            answers.extend(map(self._take, record_sets))
            if self._buffers:
                self._write()
            elif self._staged.entries:
                self._staged.take()
        except OSError as problem:
            self._version = -1
            return _with_failure(state, answers, len(record_sets), problem)
        return answers

    def _begin(self, leader_epoch: int, now_ms: int) -> None:
        state = self._state
        self._leader_epoch = leader_epoch
        if self._version != state.layout_version:
            self._now_ms = now_ms
            self._load()
        if self._now_ms != now_ms:
            self._now_ms = now_ms
            self._set_time()

    def _load(self) -> None:
        """Begin at the end of the active segment."""
        state = self._state
        active, config = state.segments.active, state.config
        self._buffers: list[memoryview] = []
        self._entries: list[tuple[int, int, tuple[int, int]]] = []
        self._staged = Staged(state.producers)
        self._next_offset = active.next_offset
        self._size_bytes = active.size_bytes
        self._since_index_bytes = active.since_index_bytes
        self._largest_time, self._largest_offset = active.largest_timestamp
        self._largest_bytes = state.limits.largest_ordinary_bytes
        self._interval_bytes = config.index_interval_bytes
        self._room_bytes = config.segment_bytes - active.size_bytes
        self._last_allowed_offset = active.base_offset + MAX_RELATIVE_OFFSET
        if must_roll(state, active.next_offset):
            self._room_bytes = 0
        self._set_time()
        self._version = state.layout_version

    def _set_time(self) -> None:
        limits, now_ms = self._state.limits, self._now_ms
        self._oldest_ms = now_ms - limits.before_max_ms
        self._newest_ms = now_ms + limits.after_max_ms
        self._append_time_ms = now_ms if limits.is_log_append_time else NO_TIMESTAMP
        self._last_allowed_time = self._state.last_timestamp_before_roll(now_ms)

    def _take(self, records: memoryview) -> Answer:
        """Check and number one batch of a client. OSError when the roll it needed failed."""
        try:
            (
                _,
                length,
                _,
                magic,
                crc,
                attributes,
                delta,
                base_time,
                max_time,
                producer,
                epoch,
                sequence,
                count,
            ) = _UNPACK(records)
        except struct_error:
            return KafkaError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no record batch")
        # All at once and by header alone: this decides for nearly every batch that ever arrives.
        if (
            length + 12 != len(records)
            or magic != 2
            or not 0 <= attributes <= 4
            or delta + 1 != count
            or count <= 0
            or length + 12 > self._largest_bytes
            or not self._oldest_ms <= base_time <= max_time <= self._newest_ms
            or (producer >= 0 and (sequence < 0 or epoch < 0))
            or crc32c(records[21:]) != crc
        ):
            try:
                records = examine(records, self._state.limits, self._now_ms)
            except KafkaError as refused:
                return refused
            length, attributes, max_time = len(records) - 12, *_changed_fields(records)
        base_offset = self._next_offset
        last_offset = base_offset + delta
        if (
            length + 12 > self._room_bytes
            or max_time > self._last_allowed_time
            or last_offset > self._last_allowed_offset
        ):
            self._roll(base_offset)
        if producer >= 0:
            batch = ProducedBatch(
                sequence, (sequence + delta) & SEQUENCE_MASK, base_offset, last_offset, max_time
            )
            # A known producer's next batch needs no further questions; everything else is asked them.
            entry = self._staged.entry(producer)
            if (
                entry is not None
                and sequence == entry.next_sequence
                and epoch == entry.epoch
                and entry.txn_first_offset < 0
                and attributes < TRANSACTIONAL
            ):
                entry.add(batch)
            else:
                answer = self._stage(Incoming(producer, epoch, bool(attributes & TRANSACTIONAL), batch))
                if answer is not None:
                    return answer
        _NUMBER(records, 0, base_offset, length, self._leader_epoch)
        self._place(records, length + 12, last_offset, max_time)
        fields = (base_offset, last_offset, self._append_time_ms, self._state.log_start_offset, False)
        return _new_tuple(Appended, fields)

    def _stage(self, incoming: Incoming) -> Answer | None:
        """The producer's sequence: None if the batch is new and comes next."""
        try:
            earlier = self._staged.check(incoming)
        except KafkaError as refused:
            return refused
        if earlier is None:
            self._staged.apply(incoming)
            return None
        is_stamped = self._append_time_ms != NO_TIMESTAMP
        return Appended(
            earlier.base_offset,
            earlier.last_offset,
            earlier.timestamp if is_stamped else NO_TIMESTAMP,
            self._state.log_start_offset,
            True,
        )

    def _place(self, records: memoryview, size_bytes: int, last_offset: int, max_time: int) -> None:
        """The batch comes next in the file."""
        if max_time > self._largest_time:
            self._largest_time, self._largest_offset = max_time, last_offset
        if self._since_index_bytes > self._interval_bytes:
            self._index(last_offset)
        elif not self._size_bytes:
            self._first_of_segment(max_time)
        self._buffers.append(records)
        self._since_index_bytes += size_bytes
        self._size_bytes += size_bytes
        self._room_bytes -= size_bytes
        self._next_offset = last_offset + 1

    def _index(self, last_offset: int) -> None:
        self._entries.append((last_offset, self._size_bytes, (self._largest_time, self._largest_offset)))
        self._since_index_bytes = 0
        active, pending = self._state.segments.active, len(self._entries)
        max_bytes = self._state.config.segment_index_bytes
        if active.index.is_full(max_bytes, pending) or active.time_index.is_full(max_bytes, pending):
            self._room_bytes = 0

    def _first_of_segment(self, max_time: int) -> None:
        if max_time >= 0:
            base_offset = self._state.segments.active.base_offset
            jitter_ms = self._state.roll_jitter_ms(base_offset)
            self._last_allowed_time = max_time + self._state.config.segment_ms - jitter_ms

    def _roll(self, base_offset: int) -> None:
        if self._buffers:
            self._write()
        roll(self._state, base_offset, self._now_ms)
        self._load()

    def _write(self) -> None:
        """Write what was taken and make it the truth. OSError if it is not written."""
        state = self._state
        write_at_end(state, self._buffers)
        self._buffers = []
        active = state.segments.active
        state.appended(self._size_bytes - active.size_bytes, self._now_ms)
        if self._leader_epoch > state.leader_epochs.latest:
            begin_epoch(state, self._leader_epoch, active.next_offset)
        active.since_index_bytes = self._since_index_bytes
        active.largest_timestamp = (self._largest_time, self._largest_offset)
        active.size_bytes = self._size_bytes
        active.next_offset = self._next_offset
        if self._staged.entries:
            state.producers.install(self._staged.take())
        if self._entries:
            entries, self._entries = self._entries, []
            for last_offset, position, largest in entries:
                active.add_index_entry(last_offset, position, largest, state.config.segment_index_bytes)


def _changed_fields(records: memoryview) -> tuple[int, int]:
    header = _UNPACK(records)
    return header[5], header[8]


def write_at_end(state: LogState, buffers: Sequence[memoryview]) -> None:
    """Append to the active file; on OSError the file is as long as before, or the log refuses writes."""
    active = state.segments.active
    try:
        active.file.append(buffers)
    except OSError as problem:
        logger.error("writing to %s failed: %s", state.name, problem)
        _cut_back(state)
        raise


def _cut_back(state: LogState) -> None:
    active = state.segments.active
    try:
        active.file.truncate(active.size_bytes)
    except OSError as problem:
        state.refuse(f"a failed write could not be cut off ({problem})")


def begin_epoch(state: LogState, epoch: int, start_offset: int) -> None:
    """A leader epoch begins; the file is made durable with the next flush."""
    state.leader_epochs.assign(epoch, start_offset)
    try:
        state.leader_epochs.write()
    except OSError as problem:
        logger.warning("%s: the leader epochs are not written yet: %s", state.name, problem)


def _with_failure(state: LogState, answers: list[Answer], count: int, problem: OSError) -> list[Answer]:
    """The answers when the disk failed: what is in the log keeps its answer, all else gets the error."""
    failure = KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, f"{state.name} could not be written: {problem.strerror}"
    )
    end = state.segments.active.next_offset
    settled: list[Answer] = [
        failure if isinstance(answer, Appended) and answer.base_offset >= end else answer
        for answer in answers
    ]
    return settled + [failure] * (count - len(settled))
