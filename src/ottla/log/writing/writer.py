"""Writes batches that have their offsets at the end of the log, with one writev per segment.

A `Writer` collects batches and changes nothing in the log until their bytes are in the file; then it moves
the log's end, installs the producers' new state and adds index entries. A batch that does not fit the active
segment ends the writev, rolls, and begins the next one. Between two appends the writer keeps its numbers, as
long as nothing else changed the log (`Tail.version`).

When a write fails, the file is truncated to its size before. If that fails as well, the content of the file
is unknown, and the log refuses writes from then on.
"""

import logging

from ottla.log.producers.producer_state import Producers, Staged
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import MAX_RELATIVE_OFFSET
from ottla.log.status import Status
from ottla.log.writing.durability import Durability
from ottla.log.writing.tail import Tail

logger = logging.getLogger(__name__)

_NEVER_LOADED = -1
_NO_TIME = -1


class Writer:
    """The end of one log, as the batches that are being appended see it."""

    __slots__ = (
        "_buffers",
        "_durability",
        "_entries",
        "_epochs",
        "_extent",
        "_interval_bytes",
        "_largest",
        "_largest_time",
        "_last_allowed_offset",
        "_last_allowed_time",
        "_now_ms",
        "_producers",
        "_room_bytes",
        "_segments",
        "_since_index_bytes",
        "_size_bytes",
        "_status",
        "_tail",
        "_version",
        "next_offset",
        "staged",
    )

    def __init__(
        self, extent: Extent, tail: Tail, durability: Durability, producers: Producers, status: Status
    ) -> None:
        self._extent = extent
        self._segments = extent.segments
        self._tail = tail
        self._durability = durability
        self._producers = producers
        self._status = status
        self._now_ms = 0
        self._version = _NEVER_LOADED
        self.next_offset = 0
        self.staged = Staged(producers)
        # Collected for the next writev: batches, index entries, and leader epochs that begin.
        self._buffers: list[memoryview] = []
        self._entries: list[tuple[int, int, tuple[int, int]]] = []
        self._epochs: list[tuple[int, int]] = []
        # The active segment after that writev, and its limits: `_load` sets them before the first batch.
        self._size_bytes = self._since_index_bytes = 0
        self._largest = (_NO_TIME, 0)
        self._largest_time = _NO_TIME
        self._interval_bytes = self._room_bytes = 0
        self._last_allowed_offset = self._last_allowed_time = 0

    def begin(self, now_ms: int) -> bool:
        """Go to the end of the log. Whether the time or the log changed since the last call."""
        if self._version != self._tail.version:
            self._now_ms = now_ms
            self._load()
            return True
        if self._now_ms == now_ms:
            return False
        self._now_ms = now_ms
        self._last_allowed_time = self._tail.last_timestamp_before_roll(now_ms)
        return True

    def forget_time(self) -> None:
        """Let the next `begin` report that the time has changed."""
        self._now_ms = _NO_TIME

    def _load(self) -> None:
        self._durability.settle_truncation()
        tail, active, config = self._tail, self._segments.active, self._tail.config
        self._buffers = []
        self._entries = []
        self._epochs = []
        self.staged = Staged(self._producers)
        self.next_offset = active.next_offset
        self._size_bytes = active.size_bytes
        self._since_index_bytes = active.since_index_bytes
        self._largest = active.largest_timestamp
        self._largest_time = self._largest[0]
        self._interval_bytes = config.index_interval_bytes
        self._room_bytes = 0 if tail.is_index_full() else config.segment_bytes - active.size_bytes
        self._last_allowed_offset = active.base_offset + MAX_RELATIVE_OFFSET
        self._last_allowed_time = tail.last_timestamp_before_roll(self._now_ms)
        self._version = tail.version

    def make_room(self, size_bytes: int, max_time: int, last_offset: int) -> None:
        """Roll if the active segment cannot take such a batch.

        After an OSError all batches before are in the log.
        """
        if (
            size_bytes > self._room_bytes
            or max_time > self._last_allowed_time
            or last_offset > self._last_allowed_offset
        ):
            next_offset = self.next_offset
            # An epoch whose first batch is this one begins in the new segment.
            epochs = [] if self._buffers else self._epochs
            self.write()
            self._tail.roll(next_offset, self._now_ms)
            self._load()
            self._epochs = epochs

    def place(self, records: memoryview, size_bytes: int, last_offset: int, max_time: int) -> None:
        """Put a batch next in the file, after `make_room` was called for it."""
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

    def skip_to(self, offset: int) -> None:
        """Leave a gap before the next batch: the leader's log has one there, as compaction makes them."""
        assert offset >= self.next_offset, f"offset {offset} comes where {self.next_offset} is next"
        self.next_offset = offset

    def begin_epoch(self, epoch: int, start_offset: int) -> None:
        """The next batch is the first of a leader epoch."""
        self._epochs.append((epoch, start_offset))

    def _index(self, last_offset: int) -> None:
        self._entries.append((last_offset, self._size_bytes, self._largest))
        self._since_index_bytes = 0
        if self._tail.is_index_full(len(self._entries)):
            self._room_bytes = 0

    def _first_of_segment(self, max_time: int) -> None:
        if max_time >= 0:
            self._last_allowed_time = max_time + self._tail.age_limit_ms()

    def write(self) -> None:
        """Write the placed batches and move the log's end. OSError if they are not written."""
        if self._buffers:
            self._append_to_file()
            self._commit()
        elif self.staged.entries or self._epochs:
            # Prepared for batches that were then refused.
            self.staged.discard()
            self._epochs = []

    def abandon(self) -> None:
        """Drop the batches that were placed and not written."""
        self._version = _NEVER_LOADED

    def _append_to_file(self) -> None:
        """Append to the active file. After an OSError it is as long as before, or the log refuses writes."""
        status, active = self._status, self._segments.active
        try:
            if self.staged.aborted:
                self._index_aborted()
            active.file.append(self._buffers)
        except OSError:
            self._undo_write()
            raise
        if status.is_failing:
            status.write_succeeded()

    def _index_aborted(self) -> None:
        """Before the markers are written: a reader must never find a marker without its entry."""
        index = self._segments.active.txn_index
        if not index.count:
            self._durability.note_names()
        index.add(self.staged.aborted)

    def _undo_write(self) -> None:
        active = self._segments.active
        try:
            active.file.truncate(active.size_bytes)
            if self.staged.aborted:
                active.txn_index.undo(active.next_offset)
        except OSError as problem:
            self._status.refuse(f"a failed write could not be truncated ({problem})")

    def _commit(self) -> None:
        active = self._segments.active
        self._durability.note_append(self._size_bytes - active.size_bytes, self._now_ms)
        self._buffers = []
        active.extend(self._size_bytes, self.next_offset, self._since_index_bytes, self._largest)
        if self.staged.entries:
            self.staged.install()
        if self._epochs:
            epochs, self._epochs = self._epochs, []
            self._assign_epochs(epochs)
        if self._entries:
            entries, self._entries = self._entries, []
            max_bytes = self._tail.config.segment_index_bytes
            for last_offset, position, largest in entries:
                active.add_index_entry(last_offset, position, largest, max_bytes)

    def _assign_epochs(self, epochs: list[tuple[int, int]]) -> None:
        """Record leader epochs; their file is made durable with the next flush."""
        leader_epochs = self._extent.leader_epochs
        for epoch, start_offset in epochs:
            leader_epochs.assign(epoch, start_offset)
        try:
            leader_epochs.write()
        except OSError as problem:
            name = self._extent.location.name
            logger.warning("%s: the leader epochs are not written yet: %s", name, problem)
