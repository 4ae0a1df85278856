from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.columns import Columns, encode_columns
from ottla.records.record import Header
from ottla.spark.sink.encoding import Rows, encode, encode_headers

FIELD = st.none() | st.binary(max_size=80) | st.binary(min_size=60, max_size=70).map(lambda data: data * 300)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
RECORDS = st.lists(st.tuples(FIELD, FIELD, HEADERS, st.integers(0, 3)), min_size=1, max_size=40)
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BIG = 1 << 30


def header_column(lists: list[list[Header] | None]) -> pa.Array:
    rows = [None if each is None else [{"key": key, "value": value} for key, value in each] for each in lists]
    return pa.array(rows, HEADER_TYPE)


def rows_of(
    values: list[bytes | None],
    keys: list[bytes | None] | None = None,
    headers: list[list[Header] | None] | None = None,
) -> Rows:
    lists = None if headers is None else header_column(headers)
    return Rows(
        pa.array(values, pa.binary()),
        None if keys is None else pa.array(keys, pa.binary()),
        None if lists is None else encode_headers(lists),
        lists,
    )


@settings(deadline=None)
@given(RECORDS, st.booleans(), st.booleans(), st.sampled_from([50, 5_000, BIG]))
def test_blocks_are_the_bytes_that_the_builder_makes(
    records: list[tuple[bytes | None, bytes | None, list[Header] | None, int]],
    has_keys: bool,
    has_headers: bool,
    limit_bytes: int,
) -> None:
    records = sorted(records, key=lambda record: record[3])
    values = [record[0] for record in records]
    keys = [record[1] for record in records] if has_keys else None
    headers = [record[2] for record in records] if has_headers else None
    places = np.array([record[3] for record in records], dtype=np.int32)

    blocks = list(encode(rows_of(values, keys, headers), places, limit_bytes))

    assert [block.start for block in blocks] == [0, *(block.end for block in blocks[:-1])]
    assert blocks[-1].end == len(records)
    for block in blocks:
        assert {int(place) for place in places[block.start : block.end]} == {block.partition}
        span = slice(block.start, block.end)
        kept = {index: each for index, each in enumerate(headers[span]) if each} if headers else {}
        columns = Columns(values[span], keys[span] if keys else None, kept, [(0, 1_000)])
        assert b"".join(block.encoded) == b"".join(encode_columns(columns))
        assert block.end - block.start == 1 or len(b"".join(block.encoded)) <= limit_bytes


def test_a_block_holds_as_many_rows_as_its_limit_allows() -> None:
    blocks = list(encode(rows_of([b"x" * 84] * 10), np.zeros(10, dtype=np.int32), 300))
    assert [(block.start, block.end) for block in blocks] == [(0, 3), (3, 6), (6, 9), (9, 10)]


def test_slices_of_columns_are_encoded_as_what_they_show() -> None:
    lists = header_column([[("a", b"1")], None, [("b", None), ("c", b"3")], []])
    values, keys = (
        pa.array([b"v0", b"v1", b"v2", b"v3"], pa.binary()),
        pa.array([b"k", None, b"q", b"r"], pa.binary()),
    )
    part = lists.slice(1, 3)
    rows = Rows(values.slice(1, 3), keys.slice(1, 3), encode_headers(part), part)
    (block,) = encode(rows, np.zeros(3, dtype=np.int32), BIG)
    columns = Columns(
        [b"v1", b"v2", b"v3"], [None, b"q", b"r"], {1: [("b", None), ("c", b"3")]}, [(0, 1_000)]
    )
    assert b"".join(block.encoded) == b"".join(encode_columns(columns))
    assert rows.fields(1) == (b"v2", b"q", (("b", None), ("c", b"3")))
    assert rows.fields(0) == (b"v1", None, ())


def test_rows_can_be_taken_in_another_order() -> None:
    rows = rows_of([b"a", b"b"], [b"1", None], [[("h", b"x")], None]).take(np.array([1, 0]))
    assert [rows.fields(0), rows.fields(1)] == [(b"b", None, ()), (b"a", b"1", (("h", b"x"),))]


def test_no_rows_make_no_blocks() -> None:
    assert list(encode(rows_of([]), np.zeros(0, dtype=np.int32), BIG)) == []


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="the key of a header must not be null"):
        encode_headers(pa.array([[{"key": None, "value": b"x"}]], HEADER_TYPE))
