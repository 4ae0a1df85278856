"""Filters as text and as tuples, and what they say about a topic."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ottla.lake.plan.conditions import Comparison, ConditionError, bounds_of, comparisons


def test_a_text_becomes_comparisons() -> None:
    text = "offset >= 100 AND name = 'O''Hara' and amount<-2.5 AND \"order\" in ('a', 'b') AND x IS NOT NULL AND ok = true"
    assert comparisons(text) == [
        Comparison("offset", ">=", 100),
        Comparison("name", "=", "O'Hara"),
        Comparison("amount", "<", -2.5),
        Comparison("order", "in", ["a", "b"]),
        Comparison("x", "is not null"),
        Comparison("ok", "=", True),
    ]


def test_tuples_are_taken_as_they_are() -> None:
    assert comparisons([("a", "==", 1), ("b", "IN", (1, 2)), ("c", "is null")]) == [
        Comparison("a", "=", 1),
        Comparison("b", "in", [1, 2]),
        Comparison("c", "is null"),
    ]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("a = 1 OR b = 2", "expected 'AND' and found OR"),
        ("a LIKE 'x'", "no operator"),
        ("a =", "ends where a value should come"),
        ("a = b", "no value"),
        ("5 = a", "begins with the name of a column"),
        ("a = $", "cannot be read at"),
        ("timestamp > 'yesterday'", "is no time"),
        ([("a", "~", 1)], "none of the operators"),
        ([("a", "in", "text")], "needs a list"),
        ([("a",)], r"a filter is \(column, operator, value\)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(where: object, words: str) -> None:
    with pytest.raises(ConditionError, match=words):
        comparisons(where)  # type: ignore[arg-type]


def test_comparisons_bound_partitions_offsets_and_times() -> None:
    found = bounds_of(
        comparisons(
            "partition in (0, 2) AND partition = 2 AND offset > 9 AND offset <= 20 AND timestamp >= '2026-01-01'"
        )
    )
    assert (found.partitions, found.first_offset, found.end_offset) == (frozenset({2}), 10, 21)
    assert found.since_ms == int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert found.wants_partition(2)
    assert not found.wants_partition(0)


def test_a_time_within_a_millisecond_keeps_that_millisecond() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 500, tzinfo=UTC)
    whole_ms = int(moment.timestamp() * 1000)
    assert bounds_of([Comparison("timestamp", "<", moment)]).until_ms == whole_ms + 1
    assert bounds_of([Comparison("timestamp", ">", moment)]).since_ms == whole_ms


def test_other_columns_bound_nothing() -> None:
    assert bounds_of(comparisons("amount > 5 AND offset != 3")) == bounds_of([])
