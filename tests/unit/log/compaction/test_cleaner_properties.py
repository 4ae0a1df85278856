"""Compaction against a simple model, also with a crash at every file operation (RET-3, RET-4, RET-5, RET-7).

Every test draws its scenario from a seed that hypothesis prints when it fails.
"""

from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedCrash, SimulatedDisk
from tests.unit.log.batches import NOW_MS
from tests.unit.log.compaction_model import (
    COMPACTED,
    LIMITS,
    RETENTION_MS,
    Model,
    compact,
    last_stable_offset,
    records,
    run_pass,
)
from tests.unit.log.logs import DIRECTORY, open_log, read_all, replicate

from ottla.log.compaction.cleaner import CleanerLimits
from ottla.log.log import Log
from ottla.records.record import Record

SEEDS = st.integers(min_value=0, max_value=2**32)
SMALL_MAP = CleanerLimits(map_bytes=16 * 7, io_bytes=300, bytes_per_second=1e12)


def producers(log: Log) -> dict[int, tuple[int, int, int]]:
    return {
        producer_id: (entry.epoch, entry.last_sequence, entry.last_offset)
        for producer_id, entry in log.producers.items()
    }


def reopened(disk: SimulatedDisk, *, recovery_point: int = 0) -> Log:
    return open_log(disk, settings=COMPACTED, clean=False, recovery_point=recovery_point)


def forget_snapshots(disk: SimulatedDisk) -> None:
    for path in disk.paths(DIRECTORY):
        if path.endswith(".snapshot"):
            disk.remove(path)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_rounds_of_compaction_leave_what_the_model_leaves(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    model = Model(random)
    limits = random.choice((LIMITS, SMALL_MAP))
    now_ms = NOW_MS
    for _ in range(random.randint(1, 6)):
        for _ in range(random.randint(1, 25)):
            model.append(log)
        if random.random() < 0.5:
            log.roll(NOW_MS)
        mapped = compact(disk, log, now_ms, limits)
        if mapped is not None:
            model.compact(mapped.end_offset, now_ms)
        assert records(log) == model.records
        assert log.compaction.first_dirty_offset <= last_stable_offset(log)
        now_ms += random.choice((1, RETENTION_MS // 2, RETENTION_MS + 1))
    known = producers(log)
    end = log.log_end_offset
    assert log.log_start_offset == 0
    copy = disk.kill()
    forget_snapshots(copy)
    again = reopened(copy)
    assert records(again) == model.records
    assert again.log_end_offset == end
    assert producers(again) == known
    replicate(again)
    assert again.first_unstable_offset == log.first_unstable_offset


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_in_the_end_each_key_has_its_newest_value_and_deleted_keys_are_gone(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    model = Model(random)
    for _ in range(random.randint(5, 60)):
        model.append(log)
    model.end_transactions(log)
    newest: dict[bytes, Record] = {}
    for batch in model.batches:
        for record in batch.records if not batch.is_aborted else ():
            if record.key is not None:
                newest[record.key] = record
    log.roll(NOW_MS)
    limits = random.choice((LIMITS, SMALL_MAP))
    while log.compaction.is_unfinished or log.compaction.first_dirty_offset < log.log_end_offset:
        assert compact(disk, log, NOW_MS, limits) is not None
    assert records(log) == sorted(newest.values())
    # Nothing more is written: the tombstones' time alone brings a pass about.
    compact(disk, log, NOW_MS + RETENTION_MS)
    assert records(log) == sorted(record for record in newest.values() if record.value is not None)
    # Then go the markers of transactions that left nothing, some passes later, and then there is nothing to
    # do any more.
    passes = [compact(disk, log, NOW_MS + number * RETENTION_MS) for number in range(2, 10)]
    assert passes[-1] is None
    assert records(log) == sorted(record for record in newest.values() if record.value is not None)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_every_offset_can_be_fetched_and_leads_to_the_next_record(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    model = Model(random)
    for _ in range(random.randint(5, 50)):
        model.append(log)
    log.roll(NOW_MS)
    compact(disk, log)
    left = records(log)
    max_bytes = random.choice((1, 200, 1 << 20))
    for offset in range(log.log_end_offset):
        batches = read_all(log, from_offset=offset, max_bytes=max_bytes)
        found = [record for batch in batches if not batch.is_control for record in batch.records()]
        assert [record for record in found if record.offset >= offset] == [
            record for record in left if record.offset >= offset
        ]
        assert batches[-1].next_offset == log.log_end_offset


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_the_indexes_of_cleaned_segments_are_those_that_appending_would_have_made(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    model = Model(random)
    for _ in range(random.randint(20, 80)):
        model.append(log)
    compact(disk, log)
    for segment in list(log.extent.segments)[:-1]:
        written = [bytes(disk.content(segment.path(kind))) for kind in (".index", ".timeindex")]
        segment.rebuild_indexes(COMPACTED.index_interval_bytes, COMPACTED.segment_index_bytes)
        assert written == [bytes(disk.content(segment.path(kind))) for kind in (".index", ".timeindex")]


def dirty_log(random: Random) -> tuple[SimulatedDisk, int]:
    """A disk with a log that was flushed, perhaps compacted before, and is worth compacting now; and its
    end.
    """
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    model = Model(random)
    for _ in range(random.randint(5, 30)):
        model.append(log)
    if random.random() < 0.5:
        compact(disk, log, NOW_MS - RETENTION_MS)
        for _ in range(random.randint(1, 20)):
            model.append(log)
    log.roll(NOW_MS)
    log.durability.flush()
    log.retention.remove_deleted(NOW_MS + 10**9)
    return disk, log.log_end_offset


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_a_crash_at_any_file_operation_leaves_the_log_before_or_after_a_swap(seed: int) -> None:
    random = Random(seed)
    disk, end = dirty_log(random)
    whole = disk.kill()
    log = reopened(whole, recovery_point=end)
    states = [records(log)]
    states += [records(log) for _ in run_pass(whole, log, NOW_MS)]
    after, known = records(log), producers(log)
    log.retention.remove_deleted(NOW_MS + 10**9)
    operations = whole.operations
    for number in range(1, operations + 1):
        victim = disk.kill()
        with suppress(SimulatedCrash):
            log = reopened(victim, recovery_point=end)
            victim.crash_at = number
            compact(victim, log, NOW_MS)
            log.retention.remove_deleted(NOW_MS + 10**9)
        victim.crash_at = None
        lost_power = random.random() < 0.5
        survivor = victim.crash(random) if lost_power else victim.kill()
        if random.random() < 0.3:
            # And once more while it is being put in order.
            survivor.crash_at = random.randint(1, 12)
            with suppress(SimulatedCrash):
                reopened(survivor, recovery_point=end)
            survivor.crash_at = None
            survivor = survivor.crash(random) if lost_power else survivor.kill()
        log = reopened(survivor, recovery_point=random.choice((0, end)))
        assert records(log) in states, f"crash at {number}: {victim.history[-3:]}"
        assert producers(log) == known
        assert log.log_end_offset == end
        compact(survivor, log, NOW_MS)
        assert records(log) == after
