"""The part of a partition's log that an object store holds, as the metadata has it. Values only, immutable.

    copying  -> segments   the copy is finished: sizes and checksums were verified
    copying  -> deleting   the leader changed, or gave the copy up
    segments -> deleting   all records lie below the log start, or the log was truncated, or tiering was disabled
    deleting -> (gone)     the objects are deleted

A segment is named here before its first object is written, and until its last object is deleted: what the store
has beside that is an orphan. Segments follow each other without a gap, so that an offset between the first and
the last one is always found. Each has an id of its own: a second copy of the same offsets never touches the
objects of the first.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from ottla.model import NO_TIMESTAMP

_BASE_OFFSET: Final = attrgetter("base_offset")


class RemoteObject(NamedTuple):
    """An object of a segment: the end of its name, its size and its CRC-32C."""

    kind: str
    size_bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment in the object store: its records from `base_offset` up to `next_offset`.

    The objects may hold records beyond `next_offset`: a log that was truncated has others there. `leader_epoch`
    is the copying leader's. `epochs` are the leader epochs of the records, with their first offsets.
    """

    segment_id: UUID
    base_offset: int
    next_offset: int
    leader_epoch: int
    size_bytes: int = 0
    max_timestamp_ms: int = NO_TIMESTAMP
    objects: tuple[RemoteObject, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()

    def object(self, kind: str) -> RemoteObject | None:
        """The object of this kind; None if the segment has none."""
        return next((each for each in self.objects if each.kind == kind), None)

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record."""
        return self.epochs[-1][0]


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """The remote part of one partition. Records below `start_offset` are deleted, whatever the objects hold."""

    start_offset: int = 0
    segments: tuple[RemoteSegment, ...] = ()
    copying: RemoteSegment | None = None
    deleting: tuple[RemoteSegment, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the store has nothing of this partition, and nothing is on the way."""
        return not (self.segments or self.copying or self.deleting)

    @property
    def next_offset(self) -> int | None:
        """The offset after the last remote record; None if there is none."""
        return self.segments[-1].next_offset if self.segments else None

    @property
    def first_offset(self) -> int | None:
        """The first remote record that may be read; None if there is none."""
        return max(self.start_offset, self.segments[0].base_offset) if self.segments else None

    def segment_of(self, offset: int) -> RemoteSegment | None:
        """The segment that holds an offset."""
        number = bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1
        found = self.segments[number] if number >= 0 else None
        return found if found is not None and offset < found.next_offset else None

    def from_offset(self, offset: int) -> tuple[RemoteSegment, ...]:
        """The segment that holds `offset`, and all that follow it."""
        return self.segments[max(0, bisect_right(self.segments, offset, key=_BASE_OFFSET) - 1) :]

    def all_segments(self) -> Iterator[tuple[str, RemoteSegment]]:
        """Every segment whose objects may exist, with its state in a word."""
        yield from (("copied", segment) for segment in self.segments)
        if self.copying is not None:
            yield "copying", self.copying
        yield from (("deleting", segment) for segment in self.deleting)

    # Changes: each returns another log

    def with_copying(self, segment: RemoteSegment) -> "RemoteLog":
        """A copy begins. One that was not finished is given up."""
        return replace(self._without(segment.segment_id).given_up(), copying=segment)

    def with_copied(self, segment: RemoteSegment) -> "RemoteLog":
        """A copy is finished. It takes the place of segments that begin within it."""
        known = self._without(segment.segment_id)
        if segment.next_offset <= known.start_offset:
            return known.with_deleting(segment)
        kept = tuple(each for each in known.segments if each.base_offset < segment.base_offset)
        return replace(
            known,
            segments=(*kept, segment),
            deleting=(*known.deleting, *known.segments[len(kept) :]),
        )

    def with_deleting(self, segment: RemoteSegment) -> "RemoteLog":
        """The objects of a segment are to be deleted; nobody reads them from now on."""
        known = self._without(segment.segment_id)
        return replace(known, deleting=(*known.deleting, segment))

    def without(self, segment_id: UUID) -> "RemoteLog":
        """The objects of a segment are deleted. A segment that may be read stays."""
        kept = tuple(each for each in self.deleting if each.segment_id != segment_id)
        return replace(self, deleting=kept)

    def started_at(self, offset: int) -> "RemoteLog":
        """Records below `offset` are deleted."""
        if offset <= self.start_offset:
            return self
        gone = [each for each in self.segments if each.next_offset <= offset]
        is_useless = self.copying is not None and self.copying.next_offset <= offset
        kept = self.given_up() if is_useless else self
        return replace(
            kept,
            start_offset=offset,
            segments=self.segments[len(gone) :],
            deleting=(*kept.deleting, *gone),
        )

    def abandoned(self) -> "RemoteLog":
        """The topic is deleted: every segment goes."""
        given_up = self.given_up()
        return replace(given_up, segments=(), deleting=(*given_up.deleting, *given_up.segments))

    def given_up(self) -> "RemoteLog":
        """The copy that was begun is not finished any more."""
        if self.copying is None:
            return self
        return replace(self, copying=None, deleting=(*self.deleting, self.copying))

    def _without(self, segment_id: UUID) -> "RemoteLog":
        """Without the segment, in whatever state it is."""
        return replace(
            self,
            segments=tuple(each for each in self.segments if each.segment_id != segment_id),
            copying=None
            if self.copying is not None and self.copying.segment_id == segment_id
            else self.copying,
            deleting=tuple(each for each in self.deleting if each.segment_id != segment_id),
        )


@dataclass(frozen=True, slots=True)
class RemoteTopic:
    """The remote parts of a topic, by partition. The name is part of the names of the objects."""

    name: str
    partitions: Mapping[int, RemoteLog] = field(default_factory=dict)


RemoteLogs = Mapping[UUID, RemoteTopic]
"""By topic id. A deleted topic stays until its objects are deleted."""
