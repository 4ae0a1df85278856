"""Batches that an object store gives: whole ones, right ones, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.batches import NOW_MS, batch

from ottla.log.status import Status
from ottla.log.tiers.batch_run import BatchRun, Bounds, parse_run, run_that_covers
from ottla.records.batch import CorruptRecord, iter_batches

STATUS = Status("orders-0")
SEGMENT = b"".join(
    bytes(
        batch(
            3,
            base_offset=3 * number,
            leader_epoch=2,
            timestamp=NOW_MS + number,
            value=b"v" * (20 * number + 1),
        )
    )
    for number in range(10)
)
ENDS = [each.position + each.size_bytes for each in iter_batches(SEGMENT)]
EPOCHS = ((2, 0),)
BOUNDS = Bounds(len(SEGMENT), 0, 30, EPOCHS)


def run_from(position: int, size: int, offset: int) -> BatchRun:
    found = parse_run(SEGMENT[position : position + size], position, BOUNDS, offset)
    assert isinstance(found, BatchRun)
    return found


@given(st.integers(0, 9), st.integers(0, 29), st.integers(1, len(SEGMENT)))
def test_a_run_begins_with_the_wanted_batch_and_ends_with_a_whole_one(
    first: int, offset: int, size: int
) -> None:
    position = ENDS[first - 1] if first else 0
    found = parse_run(SEGMENT[position : position + size], position, BOUNDS, offset)
    if isinstance(found, int):
        assert found > min(size, len(SEGMENT) - position)
        return
    whole = [each for each in iter_batches(SEGMENT) if each.position >= position]
    wanted = [
        each
        for each in whole
        if each.last_offset >= offset and each.position + each.size_bytes <= position + size
    ]
    if not wanted:
        assert found is None
        return
    assert found is not None
    assert bytes(found.data) == b"".join(bytes(each.view()) for each in wanted)
    assert found.next_offset == wanted[-1].next_offset
    assert found.next_position == wanted[-1].position + wanted[-1].size_bytes


@given(st.integers(0, len(SEGMENT) - 1), st.integers(1, 255))
def test_a_changed_byte_is_never_served(position: int, change: int) -> None:
    data = bytearray(SEGMENT)
    data[position] ^= change
    with pytest.raises(CorruptRecord):
        parse_run(bytes(data), 0, BOUNDS, 0)


@given(st.integers(0, 7), st.integers(1, 255))
def test_the_first_base_offset_of_a_later_piece_is_known_from_the_index(position: int, change: int) -> None:
    piece = bytearray(SEGMENT[ENDS[2] :])
    assert isinstance(parse_run(bytes(piece), ENDS[2], BOUNDS, 9, 11), BatchRun)
    piece[position] ^= change
    with pytest.raises(CorruptRecord):
        parse_run(bytes(piece), ENDS[2], BOUNDS, 9, 11)


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_segment_that_ends_within_a_batch_is_refused(cut: int) -> None:
    data = SEGMENT[:-cut]
    with pytest.raises(CorruptRecord):
        parse_run(data, 0, Bounds(len(data), 0, 30, EPOCHS), 27)


def test_batches_beyond_the_end_of_what_counts_are_not_given() -> None:
    found = parse_run(SEGMENT, 0, Bounds(len(SEGMENT), 0, 9, EPOCHS), 3)
    assert isinstance(found, BatchRun)
    assert (found.first_offset, found.next_offset) == (3, 9)
    assert parse_run(SEGMENT, 0, Bounds(len(SEGMENT), 0, 9, EPOCHS), 9) is None


def test_a_read_keeps_to_its_limits() -> None:
    run = run_from(0, len(SEGMENT), 0)
    first = run.read(4, 1, 30, True, STATUS)
    assert first is not None
    assert (first.position, first.size, first.next_offset) == (ENDS[0], ENDS[1] - ENDS[0], 6)
    assert run.read(4, 1, 30, False, STATUS) is None
    bounded = run.read(0, 1 << 20, 7, True, STATUS)
    assert bounded is not None
    assert bounded.next_offset == 9
    assert bounded.file.read(bounded.position, bounded.size) == SEGMENT[: ENDS[2]]


def test_offsets_that_are_missing_are_refused() -> None:
    data = bytes(batch(1, base_offset=0, leader_epoch=2)) + bytes(batch(1, base_offset=7, leader_epoch=2))
    with pytest.raises(CorruptRecord, match="follow offset 0"):
        parse_run(data, 0, Bounds(len(data), 0, 10, EPOCHS), 3)


def test_runs_are_found_by_any_of_their_offsets() -> None:
    runs = [run_from(0, ENDS[2], 0), run_from(ENDS[4], 10_000, 15)]
    assert run_that_covers(runs, 0) is run_that_covers(runs, 8) is runs[0]
    assert run_that_covers(runs, 9) is None
    assert run_that_covers(runs, 29) is runs[1]
    assert run_that_covers([], 0) is None


def test_a_timestamp_leads_to_its_record() -> None:
    run = run_from(0, len(SEGMENT), 0)
    assert run.first_at(NOW_MS + 4, 0) == (NOW_MS + 4, 12)
    assert run.first_at(NOW_MS, 5) == (NOW_MS + 1, 5)
    assert run.first_at(NOW_MS + 100, 0) is None


def test_what_was_read_is_not_written() -> None:
    found = run_from(0, len(SEGMENT), 0).read(0, 100, 30, True, STATUS)
    assert found is not None
    assert found.file.fileno() is None
    assert found.file.size == len(SEGMENT)
    for change in (lambda: found.file.append([b""]), found.file.sync, lambda: found.file.truncate(0)):
        with pytest.raises(OSError, match="object store"):
            change()
