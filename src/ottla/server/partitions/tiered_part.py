"""A partition with tiered storage as a whole: what the metadata says of its remote part, and the local log.

The remote part is read where the local log has deleted its segments, and nowhere else: every offset from the local
log start on is answered from the disk. `TieredPart` is also the log that readers are judged by (`LogView`): its
start is the remote one, and its leader epochs go back as far.

A remote segment may hold records that this replica's log does not have, after an unclean election. Two logs with a
record of the same epoch at the same offset are equal up to there (replication/divergence.py); so a segment is
agreed upon if the local log has the epoch of its last record at that offset. Only agreed segments let local ones
be deleted.
"""

from ottla.controller.remote_log import RemoteLog, RemoteSegment
from ottla.log.log import Log
from ottla.log.plan.retention import SegmentFacts
from ottla.log.segments.segment import Segment
from ottla.model import NO_EPOCH, NO_OFFSET, EpochEnd


class TieredPart:
    """The remote part of one partition beside its local log."""

    __slots__ = ("_log", "problem", "remote")

    def __init__(self, log: Log, remote: RemoteLog) -> None:
        self._log = log
        self.remote = remote
        # Why segments are not copied or deleted now; None if nothing is wrong.
        self.problem: str | None = None

    def apply(self, remote: RemoteLog) -> None:
        """Take what the metadata says now."""
        self.remote = remote

    def note_problem(self, problem: str | None) -> None:
        """Segments cannot be copied or deleted, for this reason; None: they can."""
        self.problem = problem

    # The log as readers see it

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read, wherever it lies."""
        local, first = self._log.log_start_offset, self.remote.first_offset
        return max(local, self.remote.start_offset) if first is None else min(local, first)

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        return self._log.latest_epoch

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest leader epoch up to `epoch`, and its end offset; (-1, -1) if that is unknown."""
        entries = self._log.extent.leader_epochs.entries
        if not entries or epoch >= entries[0][0] or epoch == NO_EPOCH or not self.remote.segments:
            return self._log.end_offset_for(epoch)
        # Older than what is left of the local log: a later epoch ends where the next one starts.
        found = EpochEnd(NO_EPOCH, NO_OFFSET)
        for known, start in (*self._remote_epochs(), entries[0]):
            if found.epoch != NO_EPOCH and known > found.epoch and found.end_offset == NO_OFFSET:
                found = EpochEnd(found.epoch, start)
            if known <= epoch:
                found = EpochEnd(known, NO_OFFSET)
        if found.epoch == NO_EPOCH:
            return EpochEnd(epoch, self.log_start_offset)
        return found

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 if that is unknown."""
        if offset >= self._log.log_start_offset:
            return self._log.extent.leader_epochs.epoch_at(offset)
        segment = self.remote.segment_of(offset)
        return NO_EPOCH if segment is None else _epoch_at(segment, offset)

    def _remote_epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of the records that only the store holds, rising."""
        found: list[tuple[int, int]] = []
        for segment in self.remote.segments:
            for epoch, start in segment.epochs:
                if start < self._log.log_start_offset and (not found or epoch > found[-1][0]):
                    found.append((epoch, start))
        return found

    # What may be deleted, and what is to be copied

    @property
    def agreed_offset(self) -> int:
        """The end of the remote records that this replica's log has, or had; 0 if there are none."""
        return next((each.next_offset for each in reversed(self.remote.segments) if self._agrees(each)), 0)

    def _agrees(self, segment: RemoteSegment) -> bool:
        last_offset = segment.next_offset - 1
        if last_offset < self._log.log_start_offset:
            return True
        is_held = segment.next_offset <= self._log.log_end_offset
        return is_held and self._log.extent.leader_epochs.epoch_at(last_offset) == _epoch_at(
            segment, last_offset
        )

    def divergence(self) -> int | None:
        """Where the remote records differ from this leader's log; None if they do not."""
        for segment in self.remote.segments:
            if self._agrees(segment):
                continue
            # The newest epoch that both have: they are equal up to where it ends first.
            end_offset = segment.next_offset
            for epoch, start in reversed(segment.epochs):
                own = self._log.end_offset_for(epoch)
                if own.epoch == epoch:
                    return max(min(own.end_offset, end_offset), self._log.log_start_offset)
                end_offset = start
            return max(segment.base_offset, self._log.log_start_offset)
        return None

    def next_to_copy(self, stable_offset: int) -> Segment | None:
        """The closed segment that is copied next: all of it lies below `stable_offset`."""
        tiered = self.remote.next_offset
        wanted = self.log_start_offset if tiered is None else tiered
        for segment in tuple(self._log.extent.segments)[:-1]:
            if segment.next_offset > stable_offset:
                return None
            if segment.next_offset > wanted and segment.size_bytes:
                return segment
        return None

    @property
    def has_gap(self) -> bool:
        """Whether records are missing between the remote part and the local log."""
        tiered = self.remote.next_offset
        return tiered is not None and tiered < self._log.extent.segments[0].base_offset

    def segment_facts(self, now_ms: int) -> list[SegmentFacts]:
        """The facts from which the retention of the whole partition plans: remote segments, then local ones."""
        local = self._log.retention.segment_facts()
        remote = [
            SegmentFacts(
                each.base_offset, each.next_offset, each.size_bytes, each.max_timestamp_ms, modified_ms=now_ms
            )
            for each in self.remote.segments
            if each.next_offset <= local[0].base_offset
        ]
        return remote + local


def _epoch_at(segment: RemoteSegment, offset: int) -> int:
    return next((epoch for epoch, start in reversed(segment.epochs) if start <= offset), NO_EPOCH)
