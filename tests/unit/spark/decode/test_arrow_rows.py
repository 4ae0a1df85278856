"""Rows of blocks: what is usual goes the fast way."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.records.batch import HEADER_BYTES
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.spark.decode import arrow_rows as decode_rows
from ottla.spark.decode.arrow_rows import Block, Constants, arrow_rows


def test_usual_records_need_no_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the slow way was taken")

    monkeypatch.setattr(decode_rows, "_slow", refuse)
    shapes = [
        [Record(at, 1_000 + at, b"k%d" % at, b"v" * at) for at in range(300)],
        [Record(at, 1_000, None, b"v" * 100) for at in range(9_000)],
        [Record(7 * at, 1_000 - at, b"k", None if at % 3 else b"") for at in range(300)],
        [Record(at, 1_000, None, b"v" * 20_000, (("h", b"1"),)) for at in range(10)],
    ]
    for records in shapes:
        batch = build_batch(records)
        block = Block(read_header(batch), HEADER_BYTES, len(batch))
        rows = arrow_rows(memoryview(batch), [block], Constants("t", 0), include_headers=True)
        assert rows.column("value").to_pylist() == [each.value for each in records]
        assert rows.column("offset").to_pylist() == [each.offset for each in records]


def test_constants_grow_with_what_is_asked_for() -> None:
    constants = Constants("orders", 4)
    for count in (1, 5_000, 20_000, 3):
        topics, partitions = constants.columns(count)
        assert len(topics) == len(partitions) == len(constants.every_second(count)) == count
        assert (topics[count - 1].as_py(), partitions[count - 1].as_py()) == ("orders", 4)
        assert constants.every_second(count)[count - 1].as_py() == 2 * (count - 1)
