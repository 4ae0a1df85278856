"""From times to offsets (STO-8)."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, read_all

from ottla.log.log import Log
from ottla.log.reading.timestamps import TimestampOffset

SMALL = config(segment_bytes=2000, index_interval_bytes=300)


def at(log: Log, timestamp_ms: int, *, upper: int | None = None) -> tuple[int, int] | None:
    found = log.timestamps.first_at(timestamp_ms, upper_offset=log.log_end_offset if upper is None else upper)
    return None if found is None else (found.timestamp, found.offset)


def test_the_first_record_at_or_after_a_time_is_found_inside_its_batch() -> None:
    log = open_log(SimulatedDisk())
    append(
        log,
        batch(5, timestamp=NOW_MS, timestamp_step=10),
        batch(5, timestamp=NOW_MS + 100, timestamp_step=10),
    )
    assert at(log, 0) == (NOW_MS, 0)
    assert at(log, NOW_MS + 11) == (NOW_MS + 20, 2)
    assert at(log, NOW_MS + 41) == (NOW_MS + 100, 5)
    assert at(log, NOW_MS + 140) == (NOW_MS + 140, 9)
    assert at(log, NOW_MS + 141) is None


def test_an_empty_log_knows_no_times() -> None:
    log = open_log(SimulatedDisk())
    assert at(log, 0) is None
    assert log.timestamps.largest() == TimestampOffset(-1, -1, -1)


def test_the_answer_carries_the_leader_epoch_of_its_batch() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(), leader_epoch=3)
    append(log, batch(timestamp=NOW_MS + 1), leader_epoch=8)
    assert log.timestamps.first_at(NOW_MS, upper_offset=2) == TimestampOffset(NOW_MS, 0, 3)
    assert log.timestamps.largest() == TimestampOffset(NOW_MS + 1, 1, 8)


def test_the_largest_timestamp_is_found_where_it_first_occurs() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3, timestamp_step=5), batch(3, timestamp_step=5), batch())
    assert log.timestamps.largest()[:2] == (NOW_MS + 10, 2)


def test_records_before_the_log_start_are_not_found() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(4, timestamp_step=10))
    log.advance_log_start_offset(2)
    assert at(log, NOW_MS) == (NOW_MS + 20, 2)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_lookups_agree_with_a_search_through_all_records(seed: int, reopen: bool) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    time = NOW_MS
    for _ in range(random.randint(1, 80)):
        time += random.choice((0, 1, 5, -3, -20))
        append(log, batch(random.randint(1, 4), timestamp=time, timestamp_step=random.choice((0, 1, -2))))
    if reopen:
        log.close()
        log = open_log(disk, settings=SMALL, recovery_point=log.log_end_offset)
    if random.random() < 0.3:
        log.advance_log_start_offset(random.randint(0, log.log_end_offset - 1))
    records = [
        (record.timestamp, record.offset)
        for found in read_all(log)
        for record in found.records()
        if record.offset >= log.log_start_offset
    ]
    for target in range(NOW_MS - 300, NOW_MS + 300, 7):
        upper = random.choice((log.log_end_offset, random.randint(0, log.log_end_offset)))
        expected = next((each for each in records if each[0] >= target), None)
        if expected is not None and expected[1] >= upper:
            expected = None
        assert at(log, target, upper=upper) == expected
    if log.log_start_offset == 0:
        largest = max(timestamp for timestamp, _ in records)
        assert log.timestamps.largest()[:2] == next(each for each in records if each[0] == largest)


def test_a_lookup_by_time_walks_over_one_index_interval_however_long_the_log() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(index_interval_bytes=300))
    append(log, batch(timestamp=NOW_MS))
    # The largest timestamp does not move for a long while: the time index has no entries there.
    append(log, *(batch(timestamp=NOW_MS - 5) for _ in range(2000)))
    append(log, batch(timestamp=NOW_MS + 10))
    before = disk.counts["read"]
    assert at(log, NOW_MS + 5) == (NOW_MS + 10, 2001)
    assert disk.counts["read"] - before <= 4
