"""Arguments of steps, and what is said about those that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.spark.steps.arguments import (
    StepError,
    choice,
    duration,
    duration_above_zero,
    name,
    names,
    quoted,
    quoted_part,
)


@pytest.mark.parametrize(
    ("given", "spark"),
    [
        ("30 seconds", "30 seconds"),
        ("10s", "10 seconds"),
        ("1 minute", "1 minutes"),
        ("2h", "2 hours"),
        (" 5 ms ", "5 milliseconds"),
        ("1d", "1 days"),
        ("0 s", "0 seconds"),
    ],
)
def test_durations(given: str, spark: str) -> None:
    assert duration("late", given) == spark


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (duration, "soon", "late is 'soon', but takes a duration such as"),
        (duration, 7, "late is 7, but takes a duration"),
        (duration_above_zero, "0s", "longer than zero"),
        (names, [], "late is empty"),
        (names, ["a", "a"], "names a column twice"),
        (names, 7, "takes a column's name, or a list"),
        (names, ["a", 7], "takes a column's name, or a list"),
        (name, " ", "takes a name"),
    ],
)
def test_what_is_wrong_is_said(check: Callable[[str, Any], Any], value: Any, message: str) -> None:
    with pytest.raises(StepError, match=message):
        check("late", value)


def test_names_and_choices() -> None:
    assert names("by", "a") == ["a"]
    assert names("by", ("a", "b")) == ["a", "b"]
    assert names("by", [], empty=True) == []
    assert choice("how", "left", ("inner", "left")) == "left"
    with pytest.raises(StepError, match="how is 'right', but takes inner or left"):
        choice("how", "right", ("inner", "left"))
    assert quoted("a.b c") == "`a`.`b c`"
    assert quoted_part("a`b") == "`a``b`"
