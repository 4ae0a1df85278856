"""From offsets to file ranges (STO-6, STO-7)."""

from bisect import bisect_right
from random import Random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, read_all

from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.log.segments.index import IndexFile
from ottla.records.batch import BatchView, iter_batches
from ottla.records.index_entries import OFFSET_ENTRY

SMALL = config(segment_bytes=2000, index_interval_bytes=300)


def batches_at(
    log: Log, offset: int, max_bytes: int = 1 << 20, *, upper: int | None = None
) -> list[BatchView]:
    upper_offset = log.log_end_offset if upper is None else upper
    found = log.read(offset, max_bytes, upper_offset=upper_offset, at_least_one=True)
    return [] if found is None else list(iter_batches(found.file.read(found.position, found.size)))


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3), batch(4), batch(2))
    assert [found.base_offset for found in batches_at(log, 5)] == [3, 7]


def test_outside_the_log_there_is_an_error_and_at_its_end_there_is_nothing() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3))
    assert batches_at(log, 3) == []
    for offset in (-1, 4):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 100, upper_offset=3, at_least_one=True)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_offsets_before_the_log_start_are_out_of_range() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3), batch(3))
    log.advance_log_start_offset(4)
    with pytest.raises(KafkaError):
        batches_at(log, 3)
    assert [found.base_offset for found in batches_at(log, 4)] == [3]


def test_nothing_above_the_upper_offset_is_served() -> None:
    log = open_log(SimulatedDisk(), settings=SMALL)
    append(log, *(batch(2) for _ in range(40)))
    for upper in range(81):
        for offset in (0, 1, 30, 31, 79):
            found = batches_at(log, offset, upper=upper)
            assert all(each.last_offset < upper for each in found)
            if offset < upper - 1:
                assert found[0].base_offset == offset // 2 * 2


def test_the_first_batch_comes_whole_only_if_asked_for_and_the_rest_within_the_limit() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(), batch(), batch())
    size = len(batch())
    end = log.log_end_offset
    assert log.read(0, size - 1, upper_offset=end, at_least_one=False) is None
    assert log.read(0, 0, upper_offset=end, at_least_one=False) is None
    first = log.read(0, 1, upper_offset=end, at_least_one=True)
    assert first is not None
    assert (first.size, first.next_offset) == (size, 1)
    two = log.read(0, 3 * size - 1, upper_offset=end, at_least_one=False)
    assert two is not None
    assert (two.size, two.next_offset) == (2 * size, 2)


def test_a_read_at_a_hole_answers_the_next_batch_there_is() -> None:
    log = open_log(SimulatedDisk(), settings=SMALL)
    records = b"".join(bytes(batch(2, base_offset=number * 10)) for number in range(30))
    log.append_replicated(memoryview(bytearray(records)), NOW_MS)
    for offset in range(1, 290):
        expected = (offset + 8) // 10 * 10
        assert batches_at(log, offset)[0].base_offset == expected


def test_a_hole_at_the_end_of_a_segment_leads_to_the_next_one() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(2))
    log.append_replicated(memoryview(batch(1, base_offset=5)), NOW_MS)
    log.roll(NOW_MS)
    log.append_replicated(memoryview(batch(1, base_offset=20)), NOW_MS)
    assert [segment.base_offset for segment in log.extent.segments] == [0, 6]
    for offset in (6, 13, 20):
        assert [found.base_offset for found in batches_at(log, offset)] == [20]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_every_read_is_right_whatever_was_read_before(seed: int) -> None:
    random = Random(seed)
    log = open_log(SimulatedDisk(), settings=SMALL)
    bases: list[int] = []
    for _ in range(60):
        if random.random() < 0.5:
            items = [
                batch(random.randint(1, 5), value=bytes(random.choice((0, 50, 300))))
                for _ in range(random.randint(1, 6))
            ]
            bases += [answer.base_offset for answer in append(log, *items)]
        elif bases:
            _check_one_read(random, log, bases)
    offsets = [found.base_offset for found in read_all(log, max_bytes=random.choice((1, 500, 3000)))]
    assert offsets == bases


def _check_one_read(random: Random, log: Log, bases: list[int]) -> None:
    end = log.log_end_offset
    upper = random.choice((end, random.randint(0, end)))
    offset = random.randint(0, end)
    max_bytes = random.choice((0, 1, 400, 1000, 10_000))
    at_least_one = random.random() < 0.5
    found = log.read(offset, max_bytes, upper_offset=upper, at_least_one=at_least_one)
    holding = max((base for base in bases if base <= offset), default=0)
    if found is None:
        return
    got = list(iter_batches(found.file.read(found.position, found.size)))
    assert got[0].base_offset == holding
    assert found.size <= max_bytes or (len(got) == 1 and at_least_one)
    assert got[-1].last_offset < upper
    assert got[-1].next_offset == found.next_offset
    # Dense: no batch is left out.
    start = bases.index(holding)
    assert [each.base_offset for each in got] == bases[start : start + len(got)]


def test_a_reader_that_goes_on_where_it_stopped_touches_no_index_and_reads_no_header() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch() for _ in range(200)))
    log.read(0, 1 << 20, upper_offset=200, at_least_one=True)
    before = disk.counts["read"]
    for offset in range(200, 260):
        append(log, batch())
        found = log.read(offset, 1 << 20, upper_offset=offset + 1, at_least_one=True)
        assert found is not None
        assert found.next_offset == offset + 1
    assert disk.counts["read"] == before


class CountingEntry:
    """An entry format that counts how often an entry is looked at."""

    def __init__(self, entry: Struct) -> None:
        self._entry = entry
        self.size = entry.size
        self.looks = 0

    def unpack_from(self, buffer: Any, offset: int = 0) -> tuple[Any, ...]:
        self.looks += 1
        return self._entry.unpack_from(buffer, offset)


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 30_000])
def test_a_lookup_touches_logarithmically_many_entries(count: int) -> None:
    disk = SimulatedDisk()
    random = Random(count)
    positions = sorted(random.sample(range(1, 10 * count + 10), count))
    disk.put("/data/i", b"".join(OFFSET_ENTRY.pack(2 * n + 1, p) for n, p in enumerate(positions)))
    counting: Any = CountingEntry(OFFSET_ENTRY)
    index = IndexFile(disk, "/data/i", counting, OpenFiles().maps, size_bytes=8 * count)
    limit = 2 * count.bit_length() + 6
    for _ in range(200):
        target = random.randint(0, 2 * count + 2)
        counting.looks = 0
        assert index.floor(target) == min((target - 1) // 2, count - 1)
        assert counting.looks <= limit
        position, guess = random.randint(0, 10 * count + 20), random.randint(-5, count + 5)
        counting.looks = 0
        expected = bisect_right(positions, position) - 1
        entry = (2 * expected + 1, positions[expected]) if expected >= 0 else None
        assert index.floor_near(position, 1, guess) == entry
        assert counting.looks <= limit


def test_a_damaged_index_entry_is_noticed_and_the_index_made_anew() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(index_interval_bytes=300))
    append(log, *(batch() for _ in range(100)))
    log.close()
    index = disk.content(f"{log.directory}/{0:020d}.index")
    for position in range(4, len(index) - 8, 8):
        index[position : position + 4] = (len(batch()) * 90 + 7).to_bytes(4, "big")
    log = open_log(disk, recovery_point=100)
    for offset in range(0, 100, 7):
        assert batches_at(log, offset, 1000)[0].base_offset == offset


def test_an_index_entry_that_points_behind_its_offset_never_hides_records() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(index_interval_bytes=300))
    append(log, *(batch() for _ in range(100)))
    log.close()
    size = len(batch())
    index = disk.content(f"{log.directory}/{0:020d}.index")
    for number in range(len(index) // 8):
        # Positions of whole batches, but of later ones.
        index[number * 8 + 4 : number * 8 + 8] = (size * min(98, number + 60)).to_bytes(4, "big")
    log = open_log(disk, recovery_point=100)
    for offset in range(0, 100, 9):
        assert batches_at(log, offset)[0].base_offset == offset


def test_an_unreadable_file_is_a_storage_error_and_writes_go_on() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(index_interval_bytes=300))
    append(log, *(batch() for _ in range(50)))
    disk.failing["read"] = 5
    with pytest.raises(KafkaError) as refused:
        log.read(20, 100, upper_offset=50, at_least_one=True)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    append(log, batch())
    del disk.failing["read"]
    assert batches_at(log, 50)[0].base_offset == 50
