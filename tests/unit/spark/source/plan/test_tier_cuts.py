"""Ranges are cut where segments of the object store end, and never across the seam to the brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.requests.remote_segments import LOG, ReadableSegment, RemoteObject
from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.tier_cuts import TASK_BYTES, cut_at_segments

PLACE = TopicPartition("t", 0)


def segments(*sizes: int, records: int = 10) -> list[ReadableSegment]:
    """Segments of ten records each, with sizes in tenths of what a task takes."""
    return [
        ReadableSegment(
            f"t/{number}",
            number * records,
            (number + 1) * records,
            {LOG: RemoteObject("", size * TASK_BYTES // 10, 0)},
        )
        for number, size in enumerate(sizes)
    ]


def cut(start: int, end: int, *sizes: int) -> list[tuple[int, int]]:
    pieces = cut_at_segments([OffsetRange("t", 0, start, end)], {PLACE: segments(*sizes)})
    assert all((each.topic, each.partition) == PLACE for each in pieces)
    return [(each.start, each.end) for each in pieces]


@pytest.mark.parametrize(
    ("start", "end", "sizes", "pieces"),
    [
        (0, 100, (), [(0, 100)]),
        (0, 100, (1, 1, 1), [(0, 30), (30, 100)]),
        (0, 30, (1, 1, 1), [(0, 30)]),
        (0, 100, (5, 5, 5, 5), [(0, 20), (20, 40), (40, 100)]),
        (0, 100, (80, 80), [(0, 10), (10, 20), (20, 100)]),
        (5, 18, (80, 80), [(5, 10), (10, 18)]),
        (25, 35, (80, 80), [(25, 35)]),
        (10, 10, (5, 5), [(10, 10)]),
    ],
)
def test_segments_that_are_too_large_for_one_task_are_several(
    start: int, end: int, sizes: tuple[int, ...], pieces: list[tuple[int, int]]
) -> None:
    assert cut(start, end, *sizes) == pieces


def test_a_partition_without_segments_is_left_alone() -> None:
    ranges = [OffsetRange("t", 0, 0, 15), OffsetRange("t", 1, 0, 15)]
    pieces = cut_at_segments(ranges, {PLACE: segments(80, 80)})
    assert pieces == [OffsetRange("t", 0, 0, 10), OffsetRange("t", 0, 10, 15), OffsetRange("t", 1, 0, 15)]


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(0, 130), st.integers(0, 130))
def test_every_offset_is_in_one_piece_and_no_piece_crosses_the_seam(
    sizes: list[int], first: int, second: int
) -> None:
    start, end = sorted((first, second))
    pieces, seam = cut(start, end, *sizes), 10 * len(sizes)
    assert [offset for piece in pieces for offset in range(*piece)] == list(range(start, end))
    assert not any(piece[0] < seam < piece[1] for piece in pieces if seam)
