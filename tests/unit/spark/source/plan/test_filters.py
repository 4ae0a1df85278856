"""Filters decide as SQL does, and only what is certain is left out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from ottla.model import TopicPartition
from ottla.spark.source.plan.filters import Wanted, wanted
from ottla.spark.source.plan.intervals import EVERYTHING, NOTHING, points

TOPIC, PARTITION, OFFSET, TIMESTAMP = ("topic",), ("partition",), ("offset",), ("timestamp",)
PARTITIONS = [TopicPartition(topic, index) for topic in ("orders", "payments") for index in range(3)]


def left(*filters: Filter) -> list[str]:
    found, kept = wanted(filters)
    assert kept == []
    return [str(each) for each in PARTITIONS if found.has(each)]


@pytest.mark.parametrize(
    ("condition", "partitions"),
    [
        (EqualTo(PARTITION, 1), "orders-1 payments-1"),
        (EqualTo(PARTITION, None), ""),
        (EqualNullSafe(PARTITION, 1), "orders-1 payments-1"),
        (EqualNullSafe(PARTITION, None), ""),
        (Not(EqualNullSafe(PARTITION, None)), "orders-0 orders-1 orders-2 payments-0 payments-1 payments-2"),
        (GreaterThan(PARTITION, 1), "orders-2 payments-2"),
        (GreaterThanOrEqual(PARTITION, 2), "orders-2 payments-2"),
        (LessThan(PARTITION, 1), "orders-0 payments-0"),
        (LessThanOrEqual(PARTITION, 0), "orders-0 payments-0"),
        (In(PARTITION, (0, 2, None)), "orders-0 orders-2 payments-0 payments-2"),
        (Not(In(PARTITION, (0, 2))), "orders-1 payments-1"),
        (Not(In(PARTITION, (0, None))), ""),  # NOT IN with a NULL is true of nothing
        (Not(EqualTo(PARTITION, 1)), "orders-0 orders-2 payments-0 payments-2"),
        (IsNull(PARTITION), ""),
        (EqualTo(TOPIC, "orders"), "orders-0 orders-1 orders-2"),
        (Not(EqualTo(TOPIC, "orders")), "payments-0 payments-1 payments-2"),
        (In(TOPIC, ("orders", "none")), "orders-0 orders-1 orders-2"),
        (StringStartsWith(TOPIC, "pay"), "payments-0 payments-1 payments-2"),
        (StringEndsWith(TOPIC, "ders"), "orders-0 orders-1 orders-2"),
        (StringContains(TOPIC, "ment"), "payments-0 payments-1 payments-2"),
        (GreaterThan(TOPIC, "p"), "payments-0 payments-1 payments-2"),
    ],
)
def test_topics_and_partitions_are_decided_exactly(condition: Filter, partitions: str) -> None:
    assert left(condition) == partitions.split()


def test_filters_hold_together() -> None:
    assert left(
        IsNotNull(TOPIC), EqualTo(TOPIC, "orders"), GreaterThan(PARTITION, 0), LessThan(PARTITION, 2)
    ) == ["orders-1"]


values = st.none() | st.integers(-2, 12)
comparisons = st.builds(
    lambda kind, value: kind(OFFSET, value),
    st.sampled_from([EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
    values,
) | st.builds(lambda several: In(OFFSET, tuple(several)), st.lists(values, max_size=4))
conditions = comparisons | st.builds(Not, comparisons) | st.sampled_from([IsNull(OFFSET), IsNotNull(OFFSET)])


@given(st.lists(conditions, max_size=4))
def test_intervals_of_offsets_are_what_the_same_filters_say_of_each_number(filters: list[Filter]) -> None:
    """The filters on partitions are decided one by one: they are the model for those on offsets."""
    found, kept = wanted(filters)
    assert kept == []
    as_partitions, _ = wanted([_on_partition(each) for each in filters])
    for number in range(15):
        is_in = any(start <= number < end for start, end in found.offsets.spans)
        assert is_in == as_partitions.has(TopicPartition("t", number))


def _on_partition(condition: Any) -> Filter:
    if isinstance(condition, Not):
        return Not(_on_partition(condition.child))
    more = () if isinstance(condition, IsNull | IsNotNull) else (condition.value,)
    same: Filter = type(condition)(PARTITION, *more)
    return same


def test_offsets_become_intervals() -> None:
    found, _ = wanted([GreaterThanOrEqual(OFFSET, 10), LessThan(OFFSET, 20), Not(EqualTo(OFFSET, 15))])
    assert found.offsets.spans == ((10, 15), (16, 20))
    assert wanted([In(OFFSET, (5, 3, 4, 9))])[0].offsets == points([3, 4, 5, 9])
    assert wanted([EqualTo(OFFSET, -5)])[0].offsets == NOTHING


def test_too_many_pieces_are_left_to_spark() -> None:
    many = In(OFFSET, tuple(range(0, 1000, 2)))
    found, kept = wanted([many])
    assert (found, kept) == (Wanted(), [many])


T = datetime(2026, 11, 15, 12, 0, 0, 1500, tzinfo=UTC)  # 1.5 ms after noon
NOON_MS = 1_794_744_000_000


@pytest.mark.parametrize(
    ("condition", "since_ms", "until_ms"),
    [
        (GreaterThanOrEqual(TIMESTAMP, T), NOON_MS + 2, None),
        (GreaterThan(TIMESTAMP, T), NOON_MS + 2, None),
        (LessThanOrEqual(TIMESTAMP, T), None, NOON_MS + 1),
        (LessThan(TIMESTAMP, T), None, NOON_MS + 1),
        (GreaterThan(TIMESTAMP, T - timedelta(microseconds=500)), NOON_MS + 2, None),
        (GreaterThanOrEqual(TIMESTAMP, T - timedelta(microseconds=500)), NOON_MS + 1, None),
        (LessThan(TIMESTAMP, T - timedelta(microseconds=500)), None, NOON_MS),
        (EqualTo(TIMESTAMP, T - timedelta(microseconds=500)), NOON_MS + 1, NOON_MS + 1),
        (In(TIMESTAMP, (T + timedelta(seconds=1), T, None)), NOON_MS + 2, NOON_MS + 1001),
        (GreaterThan(TIMESTAMP, T.replace(tzinfo=None)), NOON_MS + 2, None),
    ],
)
def test_times_become_milliseconds_and_stay_with_spark(
    condition: Filter, since_ms: int | None, until_ms: int | None
) -> None:
    found, kept = wanted([condition])
    assert (found.since_ms, found.until_ms) == (since_ms, until_ms)
    assert kept == [condition]
    assert found.offsets == EVERYTHING


def test_of_several_times_the_narrowest_count() -> None:
    second = timedelta(seconds=1)
    found, _ = wanted(
        [GreaterThan(TIMESTAMP, T), GreaterThan(TIMESTAMP, T + second), LessThan(TIMESTAMP, T + 2 * second)]
    )
    assert (found.since_ms, found.until_ms) == (NOON_MS + 1002, NOON_MS + 2001)


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("timestampType",), 0),
        EqualTo(("headers", "key"), "x"),
        EqualTo(PARTITION, "1"),
        EqualTo(PARTITION, True),
        EqualTo(OFFSET, 1.5),
        EqualTo(TOPIC, 5),
        GreaterThan(TIMESTAMP, 5),
        Not(GreaterThan(TIMESTAMP, T)),
        Not(EqualTo(TIMESTAMP, T)),
        IsNotNull(TIMESTAMP),
        EqualTo(TIMESTAMP, None),
    ],
)
def test_what_is_not_understood_is_left_to_spark(condition: Filter) -> None:
    assert wanted([condition]) == (Wanted(), [condition])
