"""Lookups in the bytes of indexes, compared with the lookups in files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.corruption import CorruptRecord
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_INDEX_ENTRY, AbortedEntry
from ottla.records.index_lookup import aborted_entries, offset_before, position_before

RISING = st.lists(st.integers(1, 50), max_size=20).map(
    lambda steps: [sum(steps[: number + 1]) for number in range(len(steps))]
)


@given(RISING, st.integers(0, 1200))
def test_a_position_is_at_or_before_the_offset(lasts: list[int], offset: int) -> None:
    index = b"".join(OFFSET_ENTRY.pack(last, 100 * (number + 1)) for number, last in enumerate(lasts))
    found = [(100 * (number + 1), 1000 + last) for number, last in enumerate(lasts) if last <= offset]
    assert position_before(index, 1000, 1000 + offset) == (found[-1] if found else (0, None))


@given(RISING, st.integers(0, 1200))
def test_records_before_the_found_offset_are_older(times: list[int], wanted: int) -> None:
    index = b"".join(TIME_ENTRY.pack(time, 10 * number) for number, time in enumerate(times))
    expected = max((10 * number for number, time in enumerate(times) if time < wanted), default=0)
    assert offset_before(index, 500, wanted) == 500 + expected


def test_aborted_transactions_are_read_and_nonsense_is_refused() -> None:
    entries = [AbortedEntry(1, 2, 3, 4), AbortedEntry(5, 6, 7, 8)]
    data = b"".join(entry.pack() for entry in entries)
    assert aborted_entries(data) == entries
    with pytest.raises(CorruptRecord):
        aborted_entries(data[:-1])
    with pytest.raises(CorruptRecord):
        aborted_entries(TXN_INDEX_ENTRY.pack(9, 1, 2, 3, 4))
