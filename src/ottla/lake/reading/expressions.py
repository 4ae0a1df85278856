"""Comparisons as filters of Arrow, with values in the types of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.plan.conditions import Comparison, ConditionError, moment


def filter_of(wanted: Iterable[Comparison], schema: pa.Schema) -> Any:
    """All comparisons together; None if there are none. ConditionError for an unknown column or a value of
    another type.
    """
    parts = [_expression(each, schema) for each in wanted]
    return reduce(lambda left, right: left & right, parts) if parts else None


def both(left: Any, right: Any) -> Any:
    """The filter that two filters make; None is no filter."""
    return right if left is None else left if right is None else left & right


def travel_filter(at: datetime | Mapping[int, int] | None) -> Any:
    """What a journey in time leaves: records before a moment, or before an offset of their partition."""
    if at is None:
        return None
    if isinstance(at, datetime):
        return pc.field("timestamp") < pa.scalar(at, pa.timestamp("us", tz="UTC"))
    parts = [
        (pc.field("partition") != partition) | (pc.field("offset") < end) for partition, end in at.items()
    ]
    return reduce(lambda left, right: left & right, parts) if parts else None


def _expression(wanted: Comparison, schema: pa.Schema) -> Any:
    if wanted.column not in schema.names:
        raise ConditionError(f"there is no column {wanted.column}; there are {', '.join(schema.names)}")
    column, kind = pc.field(wanted.column), schema.field(wanted.column).type
    match wanted.operator:
        case "is null":
            return column.is_null()
        case "is not null":
            return column.is_valid()
        case "in":
            return column.isin(
                pa.array([_typed(each, kind, wanted.column).as_py() for each in wanted.value], kind)
            )
        case "not in":
            found = column.isin(
                pa.array([_typed(each, kind, wanted.column).as_py() for each in wanted.value], kind)
            )
            return ~found & column.is_valid()
    value = _typed(wanted.value, kind, wanted.column)
    return {
        "=": column == value,
        "!=": column != value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }[wanted.operator]


def _typed(value: Any, kind: pa.DataType, column: str) -> Any:
    try:
        if pa.types.is_timestamp(kind) and isinstance(value, str):
            value = moment(value)
        if pa.types.is_binary(kind) and isinstance(value, str):
            value = value.encode()
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise ConditionError(f"{value!r} cannot be compared with the column {column} ({kind})") from error
