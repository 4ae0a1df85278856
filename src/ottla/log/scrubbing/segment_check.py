"""Reads one segment to its end and checks every batch: length, magic, checksum and offsets.

A check is made on the event loop, where the segment's size is known, and steps in any thread: each step reads about
a megabyte. The segment may be truncated, replaced or deleted meanwhile: whether the result says anything about the
log is asked on the event loop afterwards (`is_current`).
"""

from dataclasses import dataclass

from ottla.log.opening.scanning import Scanner
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments


@dataclass(frozen=True, slots=True)
class Damage:
    """The first batch of a segment that is not what was written; `is_unreadable` if the disk did not give it."""

    segment: Segment
    position: int
    first_offset: int
    is_unreadable: bool
    problem: str

    def __str__(self) -> str:
        return f"{self.segment} at byte {self.position}, offset {self.first_offset}: {self.problem}"


class SegmentCheck:
    """The check of one segment. OSError if its file cannot be opened."""

    __slots__ = ("_end", "_next_offset", "_position", "_scanner", "_segment", "damage")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._end = segment.size_bytes
        self._position = 0
        self._next_offset = segment.base_offset
        self._scanner = Scanner(segment.file, segment.base_offset, segment.next_offset, may_have_holes=True)
        self.damage: Damage | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing more to read: damage was found, or the end."""
        return self.damage is not None or self._position >= self._end

    def step(self) -> int:
        """Check some batches more; how many bytes they have. In any thread."""
        before = self._position
        try:
            self._check()
        except OSError as problem:
            self._found(str(problem), is_unreadable=True)
        return self._position - before

    def _check(self) -> None:
        scanner = self._scanner
        self._position, self._next_offset = scanner.pass_over(self._position, self._next_offset)
        if self._position >= self._end:
            return
        placed = scanner.valid_at(self._position, self._next_offset)
        if placed is None:
            self._found("no batch with a right checksum")
        else:
            self._position, self._next_offset = placed.end, placed.next_offset

    def _found(self, problem: str, *, is_unreadable: bool = False) -> None:
        self.damage = Damage(self._segment, self._position, self._next_offset, is_unreadable, problem)

    def is_current(self, segments: Segments) -> bool:
        """Whether the log still has the segment, with everything that was checked."""
        return self._segment in tuple(segments) and self._segment.size_bytes >= self._end
