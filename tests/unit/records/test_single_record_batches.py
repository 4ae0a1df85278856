"""Batches of one record that are alike: cut out together, or not at all. (Runs inside a batch: see
`test_decoding`.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.decoding import decodable
from ottla.records.header import TimestampType
from ottla.records.record import Record
from ottla.records.single_record_batches import LoneRun, lone_records, lone_run, lone_values

COUNT = 30


def lone(offset: int, value: bytes | None = b"12345", key: bytes | None = None, **options: Any) -> bytes:
    record = Record(offset, 1_000 + offset, key, value, options.pop("headers", ()))
    return bytes(build_batch([record], base_offset=offset, base_sequence=offset, **options))


def run_of(
    batches: list[bytes],
    *,
    most: int = 500,
    end: int | None = None,
    check_crcs: bool = True,
    way: Callable[..., LoneRun | None] = lone_run,
) -> LoneRun | None:
    log = b"".join(batches)
    source = decodable(log, len(log))
    assert isinstance(source, bytes)
    return way(source, 0, len(log) if end is None else end, most, check_crcs=check_crcs)


@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("value", [None, b"", b"v" * 90, b"v" * 300])
def test_batches_that_are_alike_are_cut_out_together(key: bytes | None, value: bytes | None) -> None:
    batches = [lone(7 + at, value, key) for at in range(COUNT)]
    run = run_of(batches)
    assert run is not None
    assert (run.end, run.first_offset) == (len(b"".join(batches)), 7)
    assert list(run.timestamps) == [1_007 + at for at in range(COUNT)]
    assert (list(run.keys), list(run.values)) == ([key] * COUNT, [value] * COUNT)


def test_no_more_are_taken_than_are_wanted_or_begin_before_the_end() -> None:
    batches = [lone(at) for at in range(COUNT)]
    size = len(batches[0])
    wanted, before = run_of(batches, most=20), run_of(batches, end=18 * size + 1)
    assert wanted is not None
    assert before is not None
    assert (len(wanted.values), len(before.values)) == (20, 19)


def test_a_run_ends_where_sizes_change() -> None:
    run = run_of([lone(at) for at in range(COUNT)] + [lone(COUNT, b"longer"), lone(COUNT + 1)])
    assert run is not None
    assert len(run.values) == COUNT


def test_a_few_are_no_run() -> None:
    assert run_of([lone(at) for at in range(8)]) is None


@pytest.mark.parametrize(
    "other",
    [
        lone(21),  # an offset is missing
        lone(20, partition_leader_epoch=9),
        lone(20, b"123", b"k1"),  # as long, and has a key
        lone(20, b"12", headers=(("h", b""),)),
        lone(20, timestamp_type=TimestampType.LOG_APPEND_TIME),
    ],
    ids=["gap", "epoch", "key", "headers", "broker's time"],
)
def test_one_that_differs_sends_all_to_be_looked_at_one_by_one(other: bytes) -> None:
    assert len(other) == len(lone(0))
    assert run_of([lone(at) for at in range(20)] + [other] + [lone(at) for at in range(22, 40)]) is None


@pytest.mark.parametrize(
    "options",
    [
        {"timestamp_type": TimestampType.LOG_APPEND_TIME},
        {"compression": Compression.GZIP},
        {"last_offset_delta": 1},
        {"headers": (("h", b"1"),)},
    ],
)
def test_what_is_not_plain_is_no_run(options: dict[str, Any]) -> None:
    assert run_of([lone(at, **options) for at in range(COUNT)]) is None


def test_a_wrong_checksum_is_no_run_unless_nobody_looks() -> None:
    batches = [lone(at) for at in range(COUNT)]
    batches[11] = batches[11][:-2] + b"?" + batches[11][-1:]
    assert run_of(batches) is None
    run = run_of(batches, check_crcs=False)
    assert run is not None
    assert run.values[11] == b"1234?"


# ---- of any size, without keys


@pytest.mark.parametrize("sizes", [range(30), range(40, 80), range(100, 160), range(8_150, 8_180)])
def test_values_of_any_size_are_taken_without_a_look_at_each_number(sizes: range) -> None:
    batches = [lone(3 + at, b"v" * size) for at, size in enumerate(sizes)]
    run = run_of(batches, way=lone_values)
    assert run is not None
    assert (run.end, run.first_offset, set(run.keys)) == (len(b"".join(batches)), 3, {None})
    assert list(run.values) == [b"v" * size for size in sizes]
    assert list(run.timestamps) == [1_003 + at for at in range(len(sizes))]
    assert run_of(batches, way=lone_records) == run


@pytest.mark.parametrize(
    "other",
    [
        lone(31),
        lone(30, partition_leader_epoch=9),
        lone(30, key=b""),
        lone(30, None),
        lone(30, headers=(("h", b""),)),
        lone(30, timestamp_type=TimestampType.LOG_APPEND_TIME),
        lone(30, compression=Compression.GZIP),
        lone(30, b"v" * 9_000),
        lone(30)[:-2] + b"?\0",
    ],
    ids=["gap", "epoch", "key", "null", "headers", "broker's time", "compressed", "large", "checksum"],
)
def test_values_end_before_one_that_is_not_plain(other: bytes) -> None:
    before = [lone(at, b"v" * at) for at in range(30)]
    run = run_of([*before, other, lone(32)], way=lone_values)
    assert run is not None
    assert run.end == len(b"".join(before))
    assert run_of([other, lone(32)], way=lone_values) is None
