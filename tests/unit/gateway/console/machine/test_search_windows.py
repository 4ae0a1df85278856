"""A search shows every record once, in order of time, whatever the windows and limits are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.console.machine.search_windows import Bounds, Search, Window, parse_cursor


def record(partition: int, offset: int, timestamp_ms: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, timestamp_ms, None, b"v", ())


def test_forwards_a_window_begins_at_the_place_and_ends_at_the_bound() -> None:
    search = Search({0: Bounds(5, 20), 1: Bounds(0, 0)}, {0: 18}, is_backwards=False)
    assert search.windows(10) == {0: Window(18, 20)}


def test_backwards_a_window_ends_at_the_place() -> None:
    search = Search({0: Bounds(5, 20)}, {}, is_backwards=True)
    assert search.windows(10) == {0: Window(10, 20)}


def test_a_place_outside_the_log_is_moved_to_its_nearest_end() -> None:
    bounds = {0: Bounds(5, 20)}
    assert Search(bounds, {0: 1}, is_backwards=False).places == {0: 5}
    assert Search(bounds, {0: 99}, is_backwards=False).places == {0: 20}


def test_what_is_cut_off_is_found_by_the_next_request() -> None:
    search = Search({0: Bounds(0, 4), 1: Bounds(0, 2)}, {}, is_backwards=True)
    windows = search.windows(10)
    found = {0: [record(0, n, 10 * n) for n in range(4)], 1: [record(1, n, 10 * n + 5) for n in range(2)]}
    shown = search.read(windows, found, 3)
    assert [(each.partition, each.offset) for each in shown] == [(0, 3), (0, 2), (1, 1)]
    assert search.cursor == "0:2,1:1"
    assert search.remaining == 3


@given(
    ends=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    times=st.randoms(use_true_random=False),
    width=st.integers(1, 15),
    limit=st.integers(1, 12),
    is_backwards=st.booleans(),
)
def test_every_record_is_shown_once(
    ends: list[int], times: object, width: int, limit: int, is_backwards: bool
) -> None:
    logs = {p: [record(p, n, times.randrange(50)) for n in range(end)] for p, end in enumerate(ends)}  # type: ignore[attr-defined]
    bounds = {p: Bounds(0, end) for p, end in enumerate(ends)}
    shown: list[ConsumerRecord] = []
    cursor: str | None = ""
    while cursor is not None:
        search = Search(bounds, parse_cursor(cursor), is_backwards=is_backwards)
        windows = search.windows(width)
        found = {p: logs[p][window.first : window.last] for p, window in windows.items()}
        shown += search.read(windows, found, limit)
        cursor = search.cursor
    places = [(each.partition, each.offset) for each in shown]
    assert sorted(places) == sorted((p, n) for p, end in enumerate(ends) for n in range(end))
    for partition in bounds:  # the order of each partition is kept
        offsets = [each.offset for each in shown if each.partition == partition]
        assert offsets == sorted(offsets, reverse=is_backwards)


def test_a_cursor_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="the cursor cannot be"):
        parse_cursor("0:x")
    assert parse_cursor("") == {}
