"""JSON values as columns: types, new fields, and values that do not fit."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.lake.values.json_values import JsonDecoder

OPEN, CLOSED = JsonDecoder(is_open=True), JsonDecoder(is_open=False)
NOTHING = pa.schema([])


def decoded(
    values: list[Any], known: pa.Schema = NOTHING, decoder: JsonDecoder = OPEN
) -> tuple[Any, set[int]]:
    texts = [
        each if each is None or isinstance(each, bytes) else json.dumps(each).encode() for each in values
    ]
    columns, reasons = decoder.decode(pa.array(texts, pa.binary()), known)
    return columns, set(reasons)


def test_types_are_inferred_and_texts_that_look_like_times_stay_texts() -> None:
    columns, bad = decoded([{"a": 1, "b": 2.5, "c": "2026-01-01", "d": True, "e": None, "f": {"x": [1]}}])
    assert not bad
    assert columns.schema == pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.float64()),
            ("c", pa.string()),
            ("d", pa.bool_()),
            ("f", pa.struct([("x", pa.list_(pa.int64()))])),
        ]
    )


def test_new_fields_are_new_columns_and_tombstones_are_nulls() -> None:
    columns, bad = decoded([{"a": 1}, None, {"a": 2, "b": "new"}], pa.schema([("a", pa.int64())]))
    assert not bad
    assert columns.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": None}, {"a": 2, "b": "new"}]


def test_declared_columns_are_closed() -> None:
    known = pa.schema([("a", pa.int32()), ("t", pa.timestamp("us", tz="UTC"))])
    columns, bad = decoded([{"a": 1, "t": "2026-01-01T00:00:00Z", "z": 5}], known, CLOSED)
    assert not bad
    assert columns.schema == known


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"junk",
        b"[1]",
        b"1",
        b'"text"',
        b"null",
        b'{"a":1',
        b'{"a":1}{"a":2}',
        b'{"a":1}\n{"a":2}',
        b'{"a":"\xff"}',
        b'{"a":"text"}',
        b'{"a":5.5}',
        b'{"a":1,"a":2}',
        b'{"timestamp":1,"value_timestamp":2}',
    ],
)
def test_a_value_that_does_not_fit_is_a_dead_letter_and_harms_no_other(value: bytes) -> None:
    columns, bad = decoded([{"a": 1}, value, {"a": 3}], pa.schema([("a", pa.int64())]))
    assert bad == {1}
    assert columns.column("a").to_pylist() == [1, None, 3]


def test_values_that_would_make_sense_together_are_judged_alone() -> None:
    assert decoded([b'{"a":', b"1}", b'{"a":2}{"a":3}'])[1] == {0, 1, 2}


def test_line_breaks_and_names_of_record_columns_are_no_trouble() -> None:
    columns, bad = decoded([b'{\n "offset": 5,\r\n "key": "k"}'])
    assert not bad
    assert columns.to_pylist() == [{"value_offset": 5, "value_key": "k"}]


def test_objects_without_fields_are_rows_without_columns() -> None:
    columns, bad = decoded([{}, {}])
    assert (columns.num_columns, bad) == (0, set())


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 9), st.just(b"junk"), st.just(b'{"a":"no"}')), max_size=30)
)
@settings(max_examples=60)
def test_good_values_keep_their_places_among_bad_ones(given_values: list[Any]) -> None:
    values = [{"a": each} if isinstance(each, int) else each for each in given_values]
    columns, bad = decoded(values, pa.schema([("a", pa.int64())]))
    assert bad == {at for at, each in enumerate(values) if isinstance(each, bytes)}
    assert columns.column("a").to_pylist() == [
        each["a"] if isinstance(each, dict) else None for each in values
    ]
