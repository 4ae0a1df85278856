"""Columns of records become the same bytes as records that are appended one by one: in Python, and by the compiled
loop where this installation has it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch import BatchView
from ottla.records.builder import build_batch, seal
from ottla.records.columns import Columns, encode_columns
from ottla.records.compiled import Put, compiled_put
from ottla.records.compression import Compression
from ottla.records.record import Header, Record

LOOPS: list[Put | None] = [None] if compiled_put is None else [None, compiled_put]

Fields = tuple[bytes | None, bytes | None, tuple[Header, ...], int]

_sizes = st.one_of(st.integers(0, 70), st.sampled_from([127, 128, 1024, 4095, 4096, 9000]))
_data = _sizes.map(lambda size: b"x" * size)
_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)


def columns_of(records: Sequence[Fields]) -> Columns:
    """The columns as a producer gathers them."""
    stamps: list[tuple[int, int]] = []
    for index, (*_, timestamp) in enumerate(records):
        if not stamps or stamps[-1][1] != timestamp:
            stamps.append((index, timestamp))
    keys = [key for key, *_ in records]
    return Columns(
        values=[value for _, value, *_ in records],
        keys=keys if any(key is not None for key in keys) else None,
        headers={index: headers for index, (_, _, headers, _) in enumerate(records) if headers},
        stamps=stamps,
    )


def check(records: Sequence[Fields]) -> None:
    numbered = enumerate(records)
    expected = build_batch(
        Record(at, stamp, key, value, heads) for at, (key, value, heads, stamp) in numbered
    )
    columns = columns_of(records)
    for put in LOOPS:
        assert seal(encode_columns(columns, put=put), columns.span) == expected


@given(st.lists(st.tuples(st.none() | _data, st.none() | _data, _headers, st.integers(0, 3)), min_size=1))
def test_any_records_are_written_as_the_builder_writes_them(records: list[Fields]) -> None:
    check(records)


@given(
    st.lists(st.tuples(_data, _data), min_size=1, max_size=40),
    st.booleans(),
    st.lists(st.integers(-(1 << 40), 1 << 40), min_size=1, max_size=2),
)
def test_usual_records_are_written_as_the_builder_writes_them(
    fields: list[tuple[bytes, bytes]], has_keys: bool, timestamps: list[int]
) -> None:
    half = len(fields) // 2
    check(
        [
            (key if has_keys else None, value, (), timestamps[0] if index < half else timestamps[-1])
            for index, (key, value) in enumerate(fields)
        ]
    )


def test_offsets_of_every_width_are_written() -> None:
    check([(None, b"v", (), 1)] * 9_000)
    check([(b"key", b"v", (), 1)] * 9_000)


def test_a_long_timestamp_delta_and_long_fields_reach_the_end_of_the_tables() -> None:
    check([(b"k" * 4095, b"v" * 4095, (), 0)] * 10 + [(b"k" * 4095, b"v" * 4095, (), 1 << 60)] * 10)
    check([(None, b"v" * 4095, (), 0)] * 10 + [(None, b"v" * 4095, (), 1 << 60)] * 10)


def test_names_of_headers_in_every_script_are_written() -> None:
    names = ("", "ascii", "größe", "時間", "\U0001f600", "lone \udc80 surrogate")
    check([(b"k", b"v", tuple((name, content) for name in names), 1) for content in (None, b"", b"x" * 200)])


def test_subclasses_of_bytes_and_of_pairs_are_written_as_what_they_are() -> None:
    class Payload(bytes):
        pass

    class Pair(NamedTuple):
        name: str
        content: bytes

    check([(Payload(b"k"), Payload(b"v"), (Pair("n", b"c"),), 1)])


@pytest.mark.parametrize(
    "columns",
    [
        Columns([b"v"], None, {0: (("n", "text"),)}, [(0, 1)]),  # type: ignore[dict-item]
        Columns([b"v"], None, {0: ((b"n", b"c"),)}, [(0, 1)]),  # type: ignore[dict-item]
        Columns([b"v"], None, {0: [("n", b"c")]}, [(0, 1)]),
        Columns(["v"], None, {}, [(0, 1)]),  # type: ignore[list-item]
        Columns([b"v"], [bytearray(b"k")], {}, [(0, 1)]),  # type: ignore[list-item]
        Columns([b"v"], [], {}, [(0, 1)]),
        Columns([b"v"], None, {}, []),
        Columns([b"v"], None, {}, [(1, 1)]),
        Columns([b"v"] * 9, None, {}, [(0, 1), (5, 2), (3, 3)]),
        Columns([b"v"], None, {}, [(0, 1 << 70)]),
        Columns([b"v"], None, {}, [(0, 1 << 62)]),
        Columns([b"v"], None, {}, [("0", 1)]),  # type: ignore[list-item]
        Columns([b"v"], None, {}, [0]),  # type: ignore[list-item]
    ],
)
def test_the_compiled_loop_leaves_unusual_columns_to_python(columns: Columns) -> None:
    for put in LOOPS:
        assert put is None or put(*columns, 0) is None


def test_a_block_that_does_not_shrink_is_kept_as_it_is_if_wanted() -> None:
    columns = columns_of([(None, b"v", (), 1)])
    parts = encode_columns(columns)
    kept = BatchView(seal(parts, columns.span, compression=Compression.GZIP, only_if_smaller=True))
    assert kept.compression == Compression.NONE
    assert [record.value for record in kept.records()] == [b"v"]
    packed = BatchView(seal(parts, columns.span, compression=Compression.GZIP))
    assert packed.compression == Compression.GZIP
