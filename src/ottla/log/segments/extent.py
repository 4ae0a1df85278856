"""Which offsets one log has, and in which segments: from the log start offset to the log end offset.

The log start offset may lie inside the first segment: records before it are gone for readers, and their
segment is deleted with the next retention plan. The log end offset is the active segment's next offset.
"""

from ottla.log.files.location import Location
from ottla.log.segments.leader_epochs import LeaderEpochs
from ottla.log.segments.lost_offset import Loss
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments


class Extent:
    """The segments, the start offset, the leader epochs and the first lost offset of one log."""

    __slots__ = ("_loss", "leader_epochs", "location", "segments", "start_offset")

    def __init__(
        self,
        location: Location,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        loss: Loss,
        start_offset: int,
    ) -> None:
        self.location = location
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.start_offset = max(start_offset, segments[0].base_offset)
        self._loss = loss

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.segments.active.next_offset

    @property
    def first_lost_offset(self) -> int | None:
        """The first offset whose record a crash lost.

        A follower truncates its log there before it fetches.
        """
        return self._loss.first_offset

    @property
    def has_damaged_tail(self) -> bool:
        """Whether the opening of the log truncated a last batch that had been written whole.

        A killed process leaves a beginning of a batch at most; a machine that loses power may leave anything.
        """
        return self._loss.has_damaged_tail

    def advance_start(self, offset: int) -> bool:
        """Move the log start offset up to `offset`, at most to the log's end.

        Whether `offset` was above the start.
        """
        if offset <= self.start_offset:
            return False
        self.start_offset = min(offset, self.end_offset)
        self.leader_epochs.truncate_from_start(self.start_offset)
        return True

    def restart(self, empty: Segment) -> None:
        """Replace the one segment that is left by an empty one, and begin at its base offset."""
        self.segments.restart(empty)
        self.start_offset = empty.base_offset
        self.leader_epochs.truncate_from_end(0)
        self._loss.forget()

    def agree_with_end(self) -> None:
        """The log's end moved down: nothing that is known about the log may lie above it."""
        end = self.end_offset
        self.start_offset = min(self.start_offset, end)
        self.forget_loss_above_end()
        self.leader_epochs.truncate_from_end(end)
        self.leader_epochs.write()

    def note_loss(self, offset: int) -> None:
        """A record at `offset` was in the log once and is lost. Durable when this returns."""
        self._loss.note(offset)

    def forget_loss(self) -> bool:
        """No replica has the lost records.

        Whether any were lost; durable with the next sync of the directory.
        """
        is_loss = self._loss.first_offset is not None
        self._loss.forget()
        return is_loss

    def forget_loss_above_end(self) -> bool:
        """A log that ends before the first lost offset misses nothing. Whether that is the case."""
        first = self._loss.first_offset
        return first is not None and first >= self.end_offset and self.forget_loss()

    def check(self) -> None:
        """Assert that the parts agree; called whenever the start or the segments change."""
        first, end = self.segments[0].base_offset, self.end_offset
        assert first <= self.start_offset <= end, (
            f"{self.location.name}: {self.start_offset} not in {first}..{end}"
        )
        starts = self.leader_epochs.latest_start
        assert starts is None or starts <= end, (
            f"{self.location.name}: an epoch begins at {starts}, after {end}"
        )

    def close(self) -> None:
        """Close the files of all segments."""
        for segment in self.segments:
            segment.close()
