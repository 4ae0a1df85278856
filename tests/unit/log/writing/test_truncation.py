"""Cutting a log's end off, as followers do (REP-6)."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content, open_log, read_all

SMALL = config(segment_bytes=1000, index_interval_bytes=200)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_what_ends_before_the_cut_stays_and_the_log_goes_on_from_there(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    for number in range(random.randint(1, 40)):
        append(log, batch(random.randint(1, 3), timestamp=NOW_MS + number), leader_epoch=number // 5)
    ends = {found.base_offset: found.next_offset for found in read_all(log)}
    before = content(log)
    cut = random.randint(0, log.log_end_offset)
    log.truncate_to(cut)
    kept = {offset: data for offset, data in before.items() if ends[offset] <= cut}
    assert content(log) == kept
    assert log.log_end_offset == max((ends[offset] for offset in kept), default=0)
    assert all(start < max(1, log.log_end_offset) for _, start in log.extent.leader_epochs.entries)
    append(log, *(batch(timestamp=NOW_MS + 99) for _ in range(10)), leader_epoch=99)
    found = log.timestamps.first_at(NOW_MS + 99, upper_offset=log.log_end_offset)
    assert found is not None
    assert found.offset == log.log_end_offset - 10
    for offset in range(log.log_end_offset):
        assert log.read(offset, 1, upper_offset=log.log_end_offset, at_least_one=True) is not None
    expected = content(log)
    log.close()
    assert content(open_log(disk, settings=SMALL, recovery_point=log.log_end_offset)) == expected


def test_producers_go_back_to_what_is_left() -> None:
    log = open_log(SimulatedDisk(), settings=SMALL)
    append(log, *(batch(producer_id=1, producer_epoch=0, sequence=number) for number in range(20)))
    log.truncate_to(12)
    (again,) = append(log, batch(producer_id=1, producer_epoch=0, sequence=11))
    assert again.is_duplicate
    append(log, batch(producer_id=1, producer_epoch=0, sequence=12))


def test_cutting_at_or_behind_the_end_changes_nothing() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3))
    log.truncate_to(3)
    log.truncate_to(17)
    assert log.log_end_offset == 3


def test_a_log_can_begin_anew_anywhere() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, *(batch(producer_id=1, producer_epoch=0, sequence=number) for number in range(20)))
    log.truncate_fully(500)
    assert (log.log_start_offset, log.log_end_offset, log.extent.segments.size_bytes) == (500, 500, 0)
    assert len(log.producers) == 0
    assert log.extent.leader_epochs.entries == []
    append(log, batch(), leader_epoch=7)
    assert log.extent.leader_epochs.entries == [(7, 500)]
    assert [found.base_offset for found in read_all(log)] == [500]
    log.close()
    again = open_log(disk, settings=SMALL, recovery_point=501, log_start_offset=500)
    assert [found.base_offset for found in read_all(again)] == [500]


@pytest.mark.parametrize(("next_offset", "segments"), [(50, [0, 5]), (3 << 31, [0, 3 << 31])])
def test_a_cut_in_the_hole_at_a_segments_end_ends_the_log_there(
    next_offset: int, segments: list[int]
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, *(batch() for _ in range(5)))
    # What lies between was compacted away before it came here. The next segment begins with the hole, or after a
    # hole that is longer than a segment can be.
    log.append_replicated(memoryview(batch(base_offset=next_offset, value=b"v" * 800)), NOW_MS)
    assert [segment.base_offset for segment in log.extent.segments] == segments
    log.truncate_to(30)
    assert log.log_end_offset == 30
    assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 3, 4]
    log.append_replicated(memoryview(batch(base_offset=30, leader_epoch=1)), NOW_MS)
    assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 3, 4, 30]
    assert log.extent.leader_epochs.entries == [(0, 0), (1, 30)]
    log.close()
    again = open_log(disk, settings=SMALL, recovery_point=31)
    assert [found.base_offset for found in read_all(again)] == [0, 1, 2, 3, 4, 30]


def test_a_cut_in_the_hole_before_a_batch_ends_the_log_there() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch())
    log.append_replicated(memoryview(batch(base_offset=50)), NOW_MS)
    log.truncate_to(30)
    assert log.log_end_offset == 30


def test_a_damaged_index_does_not_keep_a_log_from_being_cut() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(index_interval_bytes=200))
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(30)))
    log.durability.flush()
    disk = disk.kill()
    log = open_log(disk, settings=config(index_interval_bytes=200), clean=False)
    index = log.extent.segments.active.index.file
    # The entries behind the cut point into the middle of the first batch.
    for number in range(6, index.count):
        disk.content(index.path)[8 * number + 4 : 8 * number + 8] = (5).to_bytes(4, "big")
    log.truncate_to(8)
    assert log.log_end_offset == 8
    append(log, batch(timestamp=NOW_MS + 99))
    found = log.timestamps.first_at(NOW_MS + 99, upper_offset=9)
    assert found is not None
    assert found.offset == 8


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_after_a_power_loss_nothing_that_was_cut_off_comes_back(seed: int) -> None:
    """Leaders change, the follower cuts and appends what the next one wrote: its log is a beginning of
    that.
    """
    random = Random(seed)
    disk, epoch, recovery_point = SimulatedDisk(), 0, 0
    log = open_log(disk, settings=SMALL)
    undone: list[tuple[int, bytes]] = []  # what was there before a cut that is not durable yet
    for number in range(random.randint(1, 60)):
        match random.randrange(10):
            case 0:
                epoch += 1
                undone = undone or list(content(log).items())
                cut = random.choice([found.base_offset for found in read_all(log)] or [0])
                # As the broker does: the checkpoint is lowered first.
                recovery_point = min(recovery_point, cut)
                job = log.begin_truncate(cut)
                if job is not None and random.random() < 0.5:
                    job.run()
                    undone = []
            case 1:
                log.durability.flush()
                undone = []
                recovery_point = random.choice((recovery_point, log.durability.flushed_offset))
            case 2:
                before, flushed = list(content(log).items()), log.durability.flushed_offset
                is_killed = random.random() < 0.3
                disk = disk.kill() if is_killed else disk.crash(random)
                log = open_log(disk, settings=SMALL, clean=False, recovery_point=recovery_point)
                if log.extent.first_lost_offset is not None:
                    log.truncate_to(log.extent.first_lost_offset)
                after = list(content(log).items())
                assert after in (before[: len(after)], undone[: len(after)])
                assert log.log_end_offset >= flushed
                undone = undone if is_killed else []
            case _:
                undone = []
                data = batch(random.randint(1, 3), timestamp=NOW_MS + number, value=random.randbytes(60))
                append(log, data, leader_epoch=epoch)
