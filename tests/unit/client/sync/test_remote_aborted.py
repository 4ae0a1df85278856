"""Aborted transactions among records of an object store: found wherever their markers lie, and no further."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from crc32c import crc32c
from tests.unit.log.tiers.lying_store import LyingStore

from ottla.client.requests.remote_segments import (
    TXN_INDEX,
    AbortedRecords,
    ReadableSegment,
    RemoteObject,
    RemoteSegments,
)
from ottla.client.sync.remote_aborted import RemoteAborted
from ottla.records.index_entries import AbortedEntry
from ottla.runtime.object_store import ObjectMissingError, StoreError


class Leader:
    """Segments of ten records, one in each answer; entries are (producer, first, marker, stable)."""

    def __init__(self, *segments: Sequence[tuple[int, int, int, int]], cut: int = 1 << 40) -> None:
        self.store, self.read = LyingStore(), list[str]()
        self.store.on_get = self._given
        self.aborted: tuple[AbortedRecords, ...] = ()
        self.asked: list[int] = []
        self.segments: list[ReadableSegment] = []
        for number, entries in enumerate(segments):
            data = b"".join(AbortedEntry(*each).pack() for each in entries)
            name = f"{number}{TXN_INDEX}"
            self.store.objects[name] = data
            held = {TXN_INDEX: RemoteObject(name, len(data), crc32c(data))}
            end = min(10 * number + 10, cut)
            self.segments.append(ReadableSegment(str(number), 10 * number, end, held))

    def _given(self, name: str, data: bytes) -> bytes:
        self.read.append(name)
        return data

    def ask(self, offset: int) -> RemoteSegments:
        self.asked.append(offset)
        left = [each for each in self.segments if each.next_offset > offset]
        is_complete = len(left) <= 1
        aborted = self.aborted if is_complete else ()
        return RemoteSegments(is_complete=is_complete, segments=tuple(left[:1]), aborted=aborted)

    def between(self, *ranges: tuple[int, int]) -> list[list[tuple[int, int]]]:
        reads = RemoteAborted(self.store, self.ask, ranges[0][0])
        return [[(each.producer_id, each.first_offset) for each in reads.between(*one)] for one in ranges]


def test_a_marker_may_follow_by_many_segments_or_lie_with_the_leader() -> None:
    leader = Leader([(1, 2, 8, 9)], [], [(2, 5, 25, 6)])
    leader.aborted = (AbortedRecords(3, 6, 31), AbortedRecords(2, 5, 25))
    assert leader.between((0, 10), (10, 20), (26, 30)) == [
        [(1, 2), (2, 5), (3, 6)],
        [(2, 5), (3, 6)],
        [(3, 6)],
    ]
    assert leader.asked == [0, 10, 20]


def test_nothing_is_read_beyond_the_entry_that_says_so() -> None:
    leader = Leader([(1, 2, 8, 5)], [(1, 9, 12, 13)], [(1, 22, 25, 26)])
    assert leader.between((0, 3), (3, 5)) == [[(1, 2)], [(1, 2)]]
    assert leader.read == [f"0{TXN_INDEX}"]
    assert leader.between((0, 6)) == [[(1, 2)]]
    assert leader.read[-1] == f"1{TXN_INDEX}"


def test_markers_that_were_truncated_are_none() -> None:
    leader = Leader([(1, 2, 4, 5), (2, 3, 8, 9)], cut=7)
    leader.aborted = (AbortedRecords(4, 6, 12),)
    assert leader.between((0, 7)) == [[(1, 2), (4, 6)]]


def test_an_index_that_is_missing_or_damaged_is_an_error() -> None:
    leader = Leader([(1, 2, 8, 9)])
    name, data = next(iter(leader.store.objects.items()))
    leader.store.objects[name] = data[:-1] + b"?"
    with pytest.raises(StoreError, match="is not what was written"):
        leader.between((0, 10))
    assert leader.read == [name, name]
    leader.store.objects.clear()
    with pytest.raises(ObjectMissingError):
        leader.between((0, 10))
