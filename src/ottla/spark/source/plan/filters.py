"""Filters that Spark pushes down, as far as they say which part of a topic need not be read.

Rules
- Topic and partition are the same for a whole partition, so any filter on them is decided exactly, before
  anything is read.
- Offsets become intervals, exactly.
- Timestamps of a partition may go back and forth. A lower bound becomes the offset of the first record that
  is as late, which leaves nothing out; Spark still filters what comes after. So those filters stay with
  Spark.
- A comparison with NULL is neither true nor false, as in SQL: a row is kept only if all filters are true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

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
from ottla.spark.source.plan.intervals import EVERYTHING, NOTHING, Intervals, between, points

# More pieces than this would make more tasks than they save; Spark filters then.
_MOST_INTERVALS: Final = 100
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_COMPARE: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The offsets and times of a topic that the filters leave."""

    of_partitions: tuple[Filter, ...] = ()  # on topic and partition
    offsets: Intervals = EVERYTHING
    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, partition: TopicPartition) -> bool:
        values = {"topic": partition.topic, "partition": partition.partition}
        return all(_truth(each, values[_column(each)]) is True for each in self.of_partitions)


def wanted(filters: Sequence[Filter]) -> tuple[Wanted, list[Filter]]:
    """The ranges that remain to be read, and the filters that Spark must still apply."""
    left, kept = Wanted(), []
    for each in filters:
        narrowed = _narrowed(left, each)
        if narrowed is None or _column(each) == "timestamp":
            kept.append(each)
        left = narrowed or left
    return left, kept


def _narrowed(left: Wanted, condition: Filter) -> Wanted | None:
    """None if the filter says nothing that we understand."""
    match _column(condition):
        case "topic" if _is_about(condition, str):
            return replace(left, of_partitions=(*left.of_partitions, condition))
        case "partition" if _is_about(condition, int):
            return replace(left, of_partitions=(*left.of_partitions, condition))
        case "offset" if _is_about(condition, int):
            offsets = left.offsets & _intervals(condition)
            return replace(left, offsets=offsets) if len(offsets.spans) <= _MOST_INTERVALS else None
        case "timestamp" if _is_about(condition, datetime):
            return _narrowed_in_time(left, condition)
    return None


def _column(condition: Filter) -> str:
    inner = condition.child if isinstance(condition, Not) else condition
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _is_about(condition: Filter, kind: type) -> bool:
    inner = condition.child if isinstance(condition, Not) else condition
    if isinstance(inner, IsNull | IsNotNull):
        return True
    if not isinstance(inner, (EqualNullSafe, In, *_COMPARE)):
        return False
    values = inner.value if isinstance(inner, In) else [getattr(inner, "value", None)]
    return all(each is None or (isinstance(each, kind) and not isinstance(each, bool)) for each in values)


# ---- topic and partition


def _truth(condition: Filter, value: Any) -> bool | None:
    """SQL's answer about a value that is not null; None is its NULL."""
    match condition:
        case Not(child):
            truth = _truth(child, value)
            return None if truth is None else not truth
        case IsNull():
            return False
        case IsNotNull():
            return True
        case EqualNullSafe(_, other):
            return bool(value == other)
        case In(_, others):
            return _truth_of_any([_compared(operator.eq, value, other) for other in others])
    return _compared(_COMPARE[type(condition)], value, getattr(condition, "value", None))


def _compared(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool | None:
    return None if other is None else compare(value, other)


def _truth_of_any(truths: Iterable[bool | None]) -> bool | None:
    truths = list(truths)
    if True in truths:
        return True
    return None if None in truths else False


# ---- offset


def _intervals(condition: Filter) -> Intervals:
    """The offsets for which the filter is true."""
    match condition:
        case Not(EqualNullSafe(_, None)) | IsNotNull():
            return EVERYTHING
        case Not(child):
            return NOTHING if _has_null(child) else ~_intervals(child)
        case EqualTo(_, int(value)) | EqualNullSafe(_, int(value)):
            return points([value])
        case In(_, values):
            return points([each for each in values if each is not None])
        case GreaterThan(_, int(value)):
            return between(start=value + 1)
        case GreaterThanOrEqual(_, int(value)):
            return between(start=value)
        case LessThan(_, int(value)):
            return between(end=value)
        case LessThanOrEqual(_, int(value)):
            return between(end=value + 1)
    return NOTHING  # a comparison with NULL, or IS NULL


def _has_null(condition: Filter) -> bool:
    """Whether its negation is not true of any value, because it compares with NULL."""
    if isinstance(condition, IsNull | EqualNullSafe):
        return False
    if isinstance(condition, In):
        return None in condition.value
    return getattr(condition, "value", 0) is None


# ---- timestamp


def _narrowed_in_time(left: Wanted, condition: Filter) -> Wanted | None:
    match condition:
        case EqualTo(_, datetime() as time) | EqualNullSafe(_, datetime() as time):
            return _between(left, _up_ms(time), _down_ms(time))
        case In(_, values) if times := [each for each in values if each is not None]:
            return _between(left, _up_ms(min(times)), _down_ms(max(times)))
        case GreaterThan(_, datetime() as time):
            return _between(left, _down_ms(time) + 1, None)
        case GreaterThanOrEqual(_, datetime() as time):
            return _between(left, _up_ms(time), None)
        case LessThan(_, datetime() as time):
            return _between(left, None, _up_ms(time) - 1)
        case LessThanOrEqual(_, datetime() as time):
            return _between(left, None, _down_ms(time))
    return None


def _between(left: Wanted, since_ms: int | None, until_ms: int | None) -> Wanted:
    since = [each for each in (left.since_ms, since_ms) if each is not None]
    until = [each for each in (left.until_ms, until_ms) if each is not None]
    return replace(left, since_ms=max(since, default=None), until_ms=min(until, default=None))


def _ms(time: datetime) -> Fraction:
    # Spark's timestamps without a zone are times in UTC when they come through here.
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    elapsed = aware - _EPOCH
    return Fraction((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds, 1_000)


def _up_ms(time: datetime) -> int:
    return -(-_ms(time) // 1)


def _down_ms(time: datetime) -> int:
    return _ms(time) // 1
