"""Putting cleaned segments in place, or not (RET-3): what a pass meets when the log has lived on
meanwhile.
"""

from random import Random

import pytest
from tests.simulation.world.disk import SimulatedCrash, SimulatedDisk
from tests.unit.log.batches import NOW_MS
from tests.unit.log.compaction_model import (
    COMPACTED,
    LIMITS,
    append_records,
    compact,
    compacted,
    records,
    unhurried,
)
from tests.unit.log.logs import DIRECTORY, content, open_log, read_all

from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.log_compaction import SegmentGroup
from ottla.log.files.file_names import CLEANED, DELETED, SWAP
from ottla.log.log import Log
from ottla.log.plan.retention import Deletion, Reason, RetentionPlan
from ottla.records.index_entries import TXN_INDEX_ENTRY


def dirty(disk: SimulatedDisk, segments: int = 4) -> Log:
    """Two records a segment, all of the same two keys; an empty active segment."""
    log = open_log(disk, settings=COMPACTED)
    for number in range(segments):
        append_records(log, (b"a", b"%d" % number))
        append_records(log, (b"b", b"%d" % number))
        log.roll(NOW_MS)
    return log


def cleaned(disk: SimulatedDisk, log: Log) -> tuple[SegmentGroup, CleanedSegment]:
    """A pass that has written its one group, and not swapped it in yet."""
    plan = log.compaction.plan(log.log_end_offset, NOW_MS)
    assert plan is not None
    begun = log.compaction.begin(plan, NOW_MS)
    cleaner = Cleaner(disk, LIMITS, unhurried())
    mapped = cleaner.build_map(begun.job)
    (group,) = log.compaction.groups(begun, mapped.end_offset)
    return group, cleaner.clean(group.base_offsets)


def retention(log: Log, count: int) -> None:
    bases = [segment.base_offset for segment in log.extent.segments][:count]
    start = log.extent.segments[count].base_offset
    log.retention.delete_segments(
        RetentionPlan(tuple(Deletion(b, Reason.SIZE) for b in bases), start, False), NOW_MS
    )


def with_suffix(disk: SimulatedDisk, *suffixes: str) -> list[str]:
    return [path for path in disk.paths(DIRECTORY) if path.endswith(suffixes)]


def test_the_cleaned_segment_takes_the_place_of_its_group() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    group, made = cleaned(disk, log)
    assert log.compaction.swap(group, made, NOW_MS)
    assert [(segment.base_offset, segment.next_offset) for segment in log.extent.segments] == [(0, 8), (8, 8)]
    assert [record.value for record in records(log)] == [b"3", b"3"]
    assert not with_suffix(disk, CLEANED, SWAP)
    log.retention.remove_deleted(NOW_MS + log.tail.config.file_delete_delay_ms)
    assert not with_suffix(disk, DELETED)
    assert append_records(log, (b"c", b"1")) == 8


def test_old_files_stay_for_a_while_and_a_reader_in_the_middle_finishes() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    found = log.read(2, 1 << 20, upper_offset=8, at_least_one=True)
    assert found is not None
    before = found.file.read(found.position, found.size)
    compact(disk, log)
    assert found.file.read(found.position, found.size) == before
    log.retention.remove_deleted(NOW_MS + log.tail.config.file_delete_delay_ms - 1)
    assert len([path for path in with_suffix(disk, DELETED) if ".log" in path]) == 4
    log.retention.remove_deleted(NOW_MS + log.tail.config.file_delete_delay_ms)
    assert found.file.read(found.position, found.size) == before
    # And it goes on behind the old segment, where there is a hole now.
    assert found.next_offset == 4
    (batch, *_) = read_all(log, from_offset=4)
    assert batch.base_offset == 6


def test_a_reader_that_stopped_inside_an_old_segment_goes_on_in_the_new_one() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    stopped = [log.read(offset, 1, upper_offset=8, at_least_one=True) for offset in (0, 2, 4)]
    assert [found and found.next_offset for found in stopped] == [1, 3, 5]
    compact(disk, log)
    for offset in (1, 3, 5):
        assert [batch.base_offset for batch in read_all(log, from_offset=offset)] == [6, 7]


def test_the_snapshots_of_merged_segments_go_and_the_first_ones_stays() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    snapshots = with_suffix(disk, ".snapshot")
    assert len(snapshots) == 4
    compact(disk, log)
    # There is none at offset 0; those of 2, 4 and 6 are gone.
    assert with_suffix(disk, ".snapshot") == snapshots[-1:]
    append_records(log, (b"a", b"x"))
    log.roll(NOW_MS)
    compact(disk, log)
    assert [path.removeprefix(f"{DIRECTORY}/") for path in with_suffix(disk, ".snapshot")] == [
        f"{9:020d}.snapshot"
    ]


def test_nothing_is_swapped_in_for_segments_that_retention_took() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    group, made = cleaned(disk, log)
    retention(log, 2)
    before = content(log)
    assert not log.compaction.swap(group, made, NOW_MS)
    assert content(log) == before
    assert log.log_start_offset == 4
    assert not with_suffix(disk, CLEANED, SWAP)


def test_nothing_is_swapped_in_after_a_truncation_even_if_all_looks_the_same() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    sizes = [segment.size_bytes for segment in log.extent.segments]
    group, made = cleaned(disk, log)
    log.truncate_to(7)
    append_records(log, (b"b", b"9"))
    log.roll(NOW_MS)
    assert [segment.size_bytes for segment in log.extent.segments] == sizes
    before = content(log)
    assert not log.compaction.swap(group, made, NOW_MS)
    assert content(log) == before
    assert not with_suffix(disk, CLEANED, SWAP)
    compact(disk, log)
    assert [record.value for record in records(log)] == [b"3", b"9"]


def test_nothing_is_swapped_in_after_everything_was_thrown_away() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    group, made = cleaned(disk, log)
    log.truncate_fully(100)
    assert not log.compaction.swap(group, made, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)


@pytest.mark.parametrize("end", [lambda log: log.close(), lambda log: log.begin_delete().run()])
def test_nothing_is_swapped_in_when_the_log_is_closed_or_deleted(end: object) -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    group, made = cleaned(disk, log)
    assert callable(end)
    end(log)
    assert not log.compaction.swap(group, made, NOW_MS)


def test_a_truncation_makes_what_it_cut_off_dirty_again() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    compact(disk, log)
    assert log.compaction.first_dirty_offset == 8
    log.truncate_to(7)
    assert log.compaction.first_dirty_offset == 7
    log.truncate_to(1)
    assert log.compaction.first_dirty_offset == log.log_end_offset


def test_a_pass_goes_on_over_appends_and_rolls() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    group, made = cleaned(disk, log)
    append_records(log, (b"a", b"new"))
    log.roll(NOW_MS)
    append_records(log, (b"a", b"newer"))
    assert log.compaction.swap(group, made, NOW_MS)
    assert [record.value for record in records(log)] == [b"3", b"3", b"new", b"newer"]


def test_leftovers_of_another_pass_do_not_undo_a_swap_at_the_next_opening() -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    compact(disk, log)
    for number in range(3):
        append_records(log, (b"a", b"new%d" % number), (b"b", b"new%d" % number))
        log.roll(NOW_MS)
    # Opening would take the .swap of a later offset for unfinished if this still lay there.
    disk.put(f"{DIRECTORY}/{0:020d}.log.cleaned", b"of a pass that failed")
    log.tail.configure(compacted(segment_bytes=200))
    plan = log.compaction.plan(log.log_end_offset, NOW_MS)
    assert plan is not None
    begun = log.compaction.begin(plan, NOW_MS)
    cleaner = Cleaner(disk, LIMITS, unhurried())
    group = log.compaction.groups(begun, cleaner.build_map(begun.job).end_offset)[-1]
    made = cleaner.clean(group.base_offsets)
    assert made.base_offset > 0
    disk.crash_at = disk.operations + 8
    with pytest.raises(SimulatedCrash):
        log.compaction.swap(group, made, NOW_MS)
    assert with_suffix(disk, ".log.swap", ".log.deleted")
    reopened = open_log(disk.kill(), settings=COMPACTED, clean=False)
    assert reopened.log_end_offset == log.log_end_offset
    assert records(reopened)[-1].value == b"new2"


def test_the_later_half_of_a_segment_that_kafka_was_splitting_is_thrown_away() -> None:
    disk = SimulatedDisk()
    log = dirty(disk, segments=1)
    log.close()
    half = bytes(disk.content(f"{DIRECTORY}/{0:020d}.log"))
    disk.put(f"{DIRECTORY}/{0:020d}.log.cleaned", half)
    disk.put(f"{DIRECTORY}/{1:020d}.log.swap", half[len(half) // 2 :])
    reopened = log_of(disk)
    assert [record.value for record in records(reopened)] == [b"0", b"0"]
    assert [segment.base_offset for segment in reopened.extent.segments] == [0, 2]


def log_of(disk: SimulatedDisk) -> Log:
    return open_log(disk, settings=COMPACTED, clean=False)


def test_a_swap_file_that_holds_nothing_replaces_nothing() -> None:
    disk = SimulatedDisk()
    before = content(dirty(disk))
    disk.put(f"{DIRECTORY}/{2:020d}.log.swap", b"damaged")
    assert content(log_of(disk)) == before


def operations_of_a_swap() -> int:
    disk = SimulatedDisk()
    log = dirty(disk)
    group, made = cleaned(disk, log)
    before = disk.operations
    log.compaction.swap(group, made, NOW_MS)
    return disk.operations - before


@pytest.mark.parametrize("number", range(1, operations_of_a_swap() + 1))
def test_a_rename_that_fails_leaves_a_log_that_opens_to_the_old_or_the_new(number: int) -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    old = records(log)
    group, made = cleaned(disk, log)
    disk.failures[disk.operations + number] = 5
    with pytest.raises(OSError, match="Input/output error"):
        log.compaction.swap(group, made, NOW_MS)
    log.compaction.drop_cleaned()
    new = [record for record in old if record.value == b"3"]
    reopened = open_log(disk.kill(), settings=COMPACTED, clean=False, recovery_point=8)
    assert records(reopened) == (old if log.status.refusal is None else new)
    if log.status.refusal is None:
        assert records(log) == old
        compact(disk, log)
        assert records(log) == new


@pytest.mark.parametrize("number", range(1, operations_of_a_swap() + 4))
@pytest.mark.parametrize("has_txn_index", [False, True])
def test_a_stale_transaction_index_never_survives_a_crash(number: int, has_txn_index: bool) -> None:
    disk = SimulatedDisk()
    log = dirty(disk)
    log.durability.flush()
    old_entries, new_entries = TXN_INDEX_ENTRY.pack(0, 7, 0, 1, 1), TXN_INDEX_ENTRY.pack(0, 8, 0, 1, 1)
    disk.put(f"{DIRECTORY}/{0:020d}.txnindex", old_entries)
    group, made = cleaned(disk, log)
    if has_txn_index:
        disk.put(f"{DIRECTORY}/{0:020d}.txnindex.cleaned", new_entries)
        made = CleanedSegment(0, made.size_bytes, True, 8, 2, None)
    disk.crash_at = disk.operations + number
    is_crashed = False
    try:
        log.compaction.swap(group, made, NOW_MS)
    except SimulatedCrash:
        is_crashed = True
    disk.crash_at = None
    for random in (Random(number), None):
        survivor = disk.kill() if random is None else disk.crash(random)
        survivor.crash_at = number if is_crashed else None
        try:
            reopened = open_log(survivor, settings=COMPACTED, clean=False, recovery_point=8)
        except SimulatedCrash:
            survivor = survivor.kill()
            reopened = open_log(survivor, settings=COMPACTED, clean=False, recovery_point=8)
        path = f"{DIRECTORY}/{0:020d}.txnindex"
        found = bytes(survivor.content(path)) if survivor.exists(path) else b""
        is_new = len(records(reopened)) == 2
        assert found == ((new_entries if has_txn_index else b"") if is_new else old_entries)
