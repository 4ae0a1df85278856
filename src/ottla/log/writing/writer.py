"""Puts numbered batches at the end of the log, with one writev per segment.

A `Writer` collects batches and changes nothing in the log until their bytes are in the file; then it moves the log's
end, installs the producers' new state and adds index entries. A batch that does not fit the active segment ends the
writev, rolls, and begins the next one. Between two calls the writer keeps the numbers it works with, as long as
nobody else changed the log (`LogState.layout_version`).

When a write fails the file is cut back to where it was. Should even that fail, nobody knows what the file holds, and
the log refuses writes from then on.
"""

from ottla.log.producers.producer_state import Staged
from ottla.log.segments.segment import MAX_RELATIVE_OFFSET
from ottla.log.state import LogState, logger
from ottla.log.writing.rolling import must_roll, roll
from ottla.model import NO_TIMESTAMP

_NEVER_LOADED = -1


class Writer:
    """The end of one log, as the batches that are being appended see it."""

    __slots__ = (
        "_buffers",
        "_entries",
        "_epochs",
        "_interval_bytes",
        "_largest",
        "_largest_time",
        "_last_allowed_offset",
        "_last_allowed_time",
        "_now_ms",
        "_room_bytes",
        "_since_index_bytes",
        "_size_bytes",
        "_state",
        "_version",
        "next_offset",
        "staged",
    )

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._now_ms = 0
        self._version = _NEVER_LOADED
        self.next_offset = 0
        self.staged = Staged(state.producers)

    def begin(self, now_ms: int) -> bool:
        """Be at the end of the log. Whether the time or the log changed since the last call."""
        if self._version != self._state.layout_version:
            self._now_ms = now_ms
            self._load()
            return True
        if self._now_ms == now_ms:
            return False
        self._now_ms = now_ms
        self._last_allowed_time = self._state.last_timestamp_before_roll(now_ms)
        return True

    def forget_time(self) -> None:
        """Let the next `begin` say that the time has changed."""
        self._now_ms = NO_TIMESTAMP

    def _load(self) -> None:
        state = self._state
        if state.cut_job is not None:
            state.settle_cut()
        active, config = state.segments.active, state.config
        self._buffers: list[memoryview] = []
        self._entries: list[tuple[int, int, tuple[int, int]]] = []
        self._epochs: list[tuple[int, int]] = []
        self.staged = Staged(state.producers)
        self.next_offset = active.next_offset
        self._size_bytes = active.size_bytes
        self._since_index_bytes = active.since_index_bytes
        self._largest = active.largest_timestamp
        self._largest_time = self._largest[0]
        self._interval_bytes = config.index_interval_bytes
        self._room_bytes = 0 if must_roll(active, config) else config.segment_bytes - active.size_bytes
        self._last_allowed_offset = active.base_offset + MAX_RELATIVE_OFFSET
        self._last_allowed_time = state.last_timestamp_before_roll(self._now_ms)
        self._version = state.layout_version

    def make_room(self, size_bytes: int, max_time: int, last_offset: int) -> None:
        """Roll if the active segment cannot take such a batch. OSError leaves everything before it in the log."""
        if (
            size_bytes > self._room_bytes
            or max_time > self._last_allowed_time
            or last_offset > self._last_allowed_offset
        ):
            next_offset = self.next_offset
            # An epoch whose first batch is this one begins in the new segment.
            epochs = [] if self._buffers else self._epochs
            self.write()
            roll(self._state, next_offset, self._now_ms)
            self._load()
            self._epochs = epochs

    def place(self, records: memoryview, size_bytes: int, last_offset: int, max_time: int) -> None:
        """The batch comes next in the file; `make_room` was called for it."""
        if max_time > self._largest_time:
            self._largest_time, self._largest = max_time, (max_time, last_offset)
        if self._since_index_bytes > self._interval_bytes:
            self._index(last_offset)
        elif not self._size_bytes:
            self._first_of_segment(max_time)
        self._buffers.append(records)
        self._since_index_bytes += size_bytes
        self._size_bytes += size_bytes
        self._room_bytes -= size_bytes
        self.next_offset = last_offset + 1

    def begin_epoch(self, epoch: int, start_offset: int) -> None:
        """The batch that comes next is the first of a leader epoch."""
        self._epochs.append((epoch, start_offset))

    def _index(self, last_offset: int) -> None:
        self._entries.append((last_offset, self._size_bytes, self._largest))
        self._since_index_bytes = 0
        if must_roll(self._state.segments.active, self._state.config, len(self._entries)):
            self._room_bytes = 0

    def _first_of_segment(self, max_time: int) -> None:
        if max_time >= 0:
            age_limit_ms = self._state.age_limit_ms(self._state.segments.active.base_offset)
            self._last_allowed_time = max_time + age_limit_ms

    def write(self) -> None:
        """Write what was placed and make it the truth. OSError if it is not written."""
        if self._buffers:
            _write_at_end(self._state, self._buffers)
            self._commit()
        elif self.staged.entries or self._epochs:
            # Prepared, but nothing came of it.
            self.staged.take()
            self._epochs = []

    def abandon(self) -> None:
        """Forget what was placed and not written."""
        self._version = _NEVER_LOADED

    def _commit(self) -> None:
        state = self._state
        active = state.segments.active
        state.appended(self._size_bytes - active.size_bytes, self._now_ms)
        self._buffers = []
        active.since_index_bytes = self._since_index_bytes
        active.largest_timestamp = self._largest
        active.size_bytes = self._size_bytes
        active.next_offset = self.next_offset
        if self.staged.entries:
            state.producers.install(self.staged.take())
        if self._epochs:
            epochs, self._epochs = self._epochs, []
            _begin_epochs(state, epochs)
        if self._entries:
            entries, self._entries = self._entries, []
            for last_offset, position, largest in entries:
                active.add_index_entry(last_offset, position, largest, state.config.segment_index_bytes)


def _write_at_end(state: LogState, buffers: list[memoryview]) -> None:
    """Append to the active file; on OSError the file is as long as before, or the log refuses writes."""
    active = state.segments.active
    try:
        active.file.append(buffers)
    except OSError as problem:
        if not state.is_failing:
            # Once, and not for every request that comes while the disk is full.
            logger.error(
                "writing to %s failed: %s. Its writes are refused while this lasts", state.name, problem
            )
            state.is_failing = True
        _cut_back(state)
        raise
    if state.is_failing:
        logger.warning("%s is written to again", state.name)
        state.is_failing = False


def _cut_back(state: LogState) -> None:
    active = state.segments.active
    try:
        active.file.truncate(active.size_bytes)
    except OSError as problem:
        state.refuse(f"a failed write could not be cut off ({problem})")


def _begin_epochs(state: LogState, epochs: list[tuple[int, int]]) -> None:
    """Note leader epochs; the file is made durable with the next flush."""
    for epoch, start_offset in epochs:
        state.leader_epochs.assign(epoch, start_offset)
    try:
        state.leader_epochs.write()
    except OSError as problem:
        logger.warning("%s: the leader epochs are not written yet: %s", state.name, problem)
