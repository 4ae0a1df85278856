"""Records that a crash took out of the middle of a log, and the decision about them (STO-9, REP-2, REP-9)."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import DIRECTORY, append, config, content, open_log, read_all

from ottla.log.log import Log

SMALL = config(segment_bytes=1000, index_interval_bytes=200)
MARK = f"{DIRECTORY}/first-lost-offset"


def damaged(disk: SimulatedDisk, *, count: int = 6, number: int = 2) -> Log:
    """A log whose batch of this number is damaged, opened after a crash."""
    log = open_log(disk)
    append(log, *(batch() for _ in range(count)))
    disk.content(f"{DIRECTORY}/{0:020d}.log")[number * len(batch()) + 70] ^= 1
    return open_log(disk, clean=False)


def facts(log: Log) -> tuple[int, int | None]:
    return log.log_end_offset, log.extent.first_lost_offset


def test_nothing_is_lost_in_a_log_that_is_whole() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, *(batch() for _ in range(30)))
    assert log.extent.first_lost_offset is None
    assert open_log(disk.kill(), settings=SMALL, clean=False).extent.first_lost_offset is None


def test_a_torn_end_is_no_loss_the_log_just_ends_earlier() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch(), batch())
    del disk.content(f"{DIRECTORY}/{0:020d}.log")[-5:]
    log = open_log(disk, clean=False)
    assert facts(log) == (1, None)


def test_a_last_batch_that_was_whole_and_is_damaged_is_noticed() -> None:
    for position, is_damaged in ((-1, True), (-len(batch()) + 20, True), (None, False)):
        disk = SimulatedDisk()
        append(open_log(disk), batch(), batch())
        written = disk.content(f"{DIRECTORY}/{0:020d}.log")
        if position is None:
            del written[-5:]
        else:
            written[position] ^= 1
        log = open_log(disk, clean=False)
        assert facts(log) == (1, None)
        assert log.extent.has_damaged_tail is is_damaged


def test_damage_with_records_behind_it_is_a_loss_from_its_first_offset_on() -> None:
    log = damaged(SimulatedDisk())
    assert log.extent.first_lost_offset == 2
    assert [found.base_offset for found in read_all(log)] == [0, 1, 3, 4, 5]


def test_a_loss_is_remembered_over_restarts() -> None:
    disk = SimulatedDisk()
    log = damaged(disk)
    log.durability.flush()
    log.close()
    assert open_log(disk, recovery_point=6).extent.first_lost_offset == 2
    assert open_log(disk.crash(Random(1)), recovery_point=6, clean=False).extent.first_lost_offset == 2


def test_a_follower_cuts_there_and_fetches_again_what_it_lost() -> None:
    disk = SimulatedDisk()
    log = damaged(disk)
    log.truncate_to(3)
    assert log.extent.first_lost_offset == 2
    log.truncate_to(2)
    assert facts(log) == (2, None)
    assert not disk.exists(MARK)
    log.append_replicated(memoryview(batch(4, base_offset=2, leader_epoch=1)), NOW_MS)
    log.durability.flush()
    assert open_log(disk.crash(Random(1)), recovery_point=6, clean=False).extent.first_lost_offset is None


def test_a_mark_that_a_crash_brought_back_behind_the_end_means_nothing() -> None:
    disk = SimulatedDisk()
    append(open_log(disk), batch(), batch())
    disk.put(MARK, b"2\n")
    log = open_log(disk, clean=False)
    assert facts(log) == (2, 2)
    log.truncate_to(2)
    assert facts(log) == (2, None)
    assert not disk.exists(MARK)


def test_who_begins_anew_has_lost_nothing() -> None:
    log = damaged(SimulatedDisk())
    log.truncate_fully(100)
    assert log.extent.first_lost_offset is None


def test_a_leader_has_to_live_with_it() -> None:
    disk = SimulatedDisk()
    log = damaged(disk)
    log.accept_loss()
    log.accept_loss()
    assert log.extent.first_lost_offset is None
    log.durability.flush()
    again = open_log(disk.crash(Random(1)), recovery_point=6, clean=False)
    assert again.extent.first_lost_offset is None
    assert [found.base_offset for found in read_all(again)] == [0, 1, 3, 4, 5]


def test_a_log_that_ends_before_what_was_flushed_lost_its_end() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch() for _ in range(5)))
    log.close()
    del disk.content(f"{DIRECTORY}/{0:020d}.log")[len(batch()) * 3 :]
    log = open_log(disk, clean=False, recovery_point=5)
    assert facts(log) == (5, 3)
    log.truncate_to(3)
    assert facts(log) == (3, None)


def test_a_log_without_files_lost_everything_behind_its_start() -> None:
    log = open_log(SimulatedDisk(), clean=False, recovery_point=40, log_start_offset=30)
    assert facts(log) == (40, 30)
    log.truncate_to(30)
    assert (log.log_start_offset, log.log_end_offset, log.extent.first_lost_offset) == (30, 30, None)


def test_a_full_segment_that_lost_its_last_batch_is_noticed_by_where_the_next_begins() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, *(batch() for _ in range(20)))
    second = log.extent.segments[1].base_offset
    del disk.content(log.extent.segments[0].path(".log"))[-len(batch()) :]
    log = open_log(disk, settings=SMALL, clean=False)
    assert log.extent.first_lost_offset == second - 1
    log.truncate_to(second - 1)
    assert facts(log) == (second - 1, None)


def test_a_full_segment_that_lost_everything_is_noticed_too() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, *(batch() for _ in range(20)))
    disk.content(log.extent.segments[0].path(".log")).clear()
    log = open_log(disk, settings=SMALL, clean=False)
    assert log.extent.first_lost_offset == 0
    log.truncate_to(0)
    assert facts(log) == (0, None)


def test_what_compaction_took_is_not_lost() -> None:
    compacted = config(segment_bytes=1000, cleanup_policy=("compact",))
    disk = SimulatedDisk()
    log = open_log(disk, settings=compacted)
    log.append_replicated(memoryview(batch(base_offset=0, key=b"a")), NOW_MS)
    log.append_replicated(memoryview(batch(base_offset=7, key=b"b")), NOW_MS)
    log.durability.flush()
    log = open_log(disk.kill(), settings=compacted, recovery_point=8, clean=False)
    assert facts(log) == (8, None)


def test_a_mark_that_cannot_be_read_says_that_anything_may_be_lost() -> None:
    disk = SimulatedDisk()
    append(open_log(disk), batch())
    disk.put(MARK, b"?")
    assert open_log(disk, clean=False).extent.first_lost_offset == 0


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_after_a_power_loss_a_log_cut_at_its_loss_is_a_beginning_of_what_was_written(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    flushed = 0
    for number in range(random.randint(1, 40)):
        append(log, batch(random.randint(1, 3), timestamp=NOW_MS + number))
        if random.random() < 0.1:
            log.durability.flush()
            flushed = log.durability.flushed_offset
    written = content(log)
    # Twice: the second crash may come before any truncation.
    disk = disk.crash(random)
    if random.random() < 0.5:
        open_log(disk, settings=SMALL, recovery_point=flushed, clean=False)
        disk = disk.crash(random)
    log = open_log(disk, settings=SMALL, recovery_point=flushed, clean=False)
    if log.extent.first_lost_offset is not None:
        log.truncate_to(log.extent.first_lost_offset)
    assert log.log_end_offset >= flushed
    assert list(content(log).items()) == list(written.items())[: len(content(log))]
