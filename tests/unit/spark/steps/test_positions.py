"""Where a read begins and ends, as options of the source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ottla.spark.steps.arguments import StepError
from ottla.spark.steps.positions import moment_ms, position_options

MOMENT = 1_767_225_600_000  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("earliest", {"startingOffsets": "earliest"}),
        ("latest", {"startingOffsets": "latest"}),
        ({0: 23, "1": 42}, {"startingOffsets": '{"t": {"0": 23, "1": 42}}'}),
        ("2026-01-01T00:00:00Z", {"startingTimestamp": str(MOMENT)}),
        ("2026-01-01", {"startingTimestamp": str(MOMENT)}),
        (MOMENT, {"startingTimestamp": str(MOMENT)}),
        (datetime(2026, 1, 1, tzinfo=UTC), {"startingTimestamp": str(MOMENT)}),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), {"startingTimestamp": str(MOMENT)}),
    ],
)
def test_positions(value: Any, options: dict[str, str]) -> None:
    assert position_options("start", "starting", value, "t") == options


@pytest.mark.parametrize("value", ["soon", -1, None, {}, {"a": 1}, {0: "x"}, {0: -3}, {0: True}, True])
def test_what_is_no_position_is_refused(value: Any) -> None:
    with pytest.raises(StepError, match=r"since .* takes 'earliest', 'latest', a time"):
        position_options("since", "starting", value, "t")


def test_a_read_does_not_end_at_its_start() -> None:
    with pytest.raises(StepError, match="would end before its first record"):
        position_options("until", "ending", "earliest", "t")


def test_milliseconds_may_be_text() -> None:
    assert moment_ms("--since", str(MOMENT)) == MOMENT
