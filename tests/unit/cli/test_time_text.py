from __future__ import annotations

import time

import pytest

from ottla.cli.time_text import parse_moment
from ottla.client.admin.checks.durations import duration


def test_a_moment_with_a_zone_is_that_moment_everywhere() -> None:
    assert parse_moment("1970-01-01T00:00:01Z") == 1_000
    assert parse_moment("1970-01-01T01:00:00.5+01:00") == 500


def test_a_moment_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert parse_moment("1970-01-01T02:00:03") == 3_000
        assert parse_moment("1970-01-02") == 22 * 3_600_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_is_no_moment_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match='"yesterday" is not a moment: write it as 2025-01-31T08:30'):
        parse_moment("yesterday")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0 s"),
        (1_234, "1.2 s"),
        (65_000, "1 min 5 s"),
        (2 * 3_600_000 + 60_000, "2 h 1 min"),
        (604_700_000, "6 d 23 h"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
