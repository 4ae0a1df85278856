"""A cut is durable before anything comes in its place (REP-6)."""

import errno

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import DIRECTORY, append, open_log, read_all, refusal

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log

FILE = f"{DIRECTORY}/{0:020d}.log"


def filled(disk: SimulatedDisk) -> Log:
    log = open_log(disk)
    append(log, *(batch() for _ in range(10)))
    return log


def operations(disk: SimulatedDisk) -> list[str]:
    """The operations on the log file since it was truncated."""
    mine = [line.split()[0] for line in disk.history if line.endswith(FILE)]
    return mine[len(mine) - mine[::-1].index("truncate") :]


def test_a_cut_is_seen_at_once_and_made_durable_by_its_job() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.begin_truncate(7)
    assert log.log_end_offset == 7
    assert operations(disk) == []
    assert job is not None
    job.run()
    append(log, batch(), leader_epoch=1)
    assert operations(disk) == ["sync", "append"]


def test_an_append_that_comes_before_the_job_waits_for_the_disk_itself() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    log.begin_truncate(7)
    log.append_replicated(memoryview(batch(base_offset=7, leader_epoch=1)), NOW_MS)
    append(log, batch(), leader_epoch=1)
    assert operations(disk) == ["sync", "append", "append"]


def test_a_cut_that_nobody_hurries_is_durable_when_it_returns() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    log.truncate_to(7)
    assert operations(disk) == ["sync"]


def test_nothing_to_cut_is_nothing_to_make_durable() -> None:
    log = filled(SimulatedDisk())
    assert log.begin_truncate(10) is None
    assert log.begin_truncate(0) is None
    assert log.log_end_offset == 0


def test_a_second_cut_waits_for_the_first() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    first = log.begin_truncate(7)
    second = log.begin_truncate(5)
    assert first is not None
    assert second is not None
    assert (first.is_done, second.is_done) == (True, False)
    # Somebody ran it in a thread meanwhile: that does no harm.
    first.run()
    append(log, batch(), leader_epoch=1)
    assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 3, 4, 5]


def test_a_process_that_dies_leaves_the_sync_to_the_next() -> None:
    disk = SimulatedDisk()
    filled(disk).begin_truncate(7)
    disk = disk.kill()
    log = open_log(disk, clean=False)
    append(log, batch(), leader_epoch=1)
    mine = [line.split()[0] for line in disk.history if line.endswith(FILE)]
    assert mine == ["sync", "append"]
    assert not disk.exists(f"{DIRECTORY}/pending-cut")


@pytest.mark.parametrize("runs", [True, False])
def test_a_cut_that_cannot_be_made_durable_ends_all_writes(runs: bool) -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.begin_truncate(7)
    assert job is not None
    disk.failing["sync"] = errno.EIO
    if runs:
        with pytest.raises(OSError, match="Input/output error"):
            job.run()
        # It is not tried again, though it might succeed.
        disk.failing.clear()
    assert refusal(log, batch()).code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.status.refusal is not None
    with pytest.raises(KafkaError):
        log.append_replicated(memoryview(batch(base_offset=7, leader_epoch=1)), NOW_MS)


def test_a_cut_behind_a_failed_one_fails_too() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.begin_truncate(7)
    assert job is not None
    disk.failing["sync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        job.run()
    disk.failing.clear()
    with pytest.raises(OSError, match="Input/output error"):
        log.truncate_to(3)
    assert log.status.refusal is not None
