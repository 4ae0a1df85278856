"""fsync: the records it covers, the operations it does not delay, and its failures (STO-10, STO-11)."""

import errno

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content, open_log, refusal

from ottla.errors import ErrorCode, KafkaError


def test_a_flush_covers_what_was_written_before_it_began() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(3))
    assert (
        log.durability.flushed_offset,
        log.durability.unflushed_messages,
        log.durability.unflushed_bytes,
    ) == (0, 3, len(batch(3)))
    job = log.durability.begin_flush()
    append(log, batch(2))
    job.run()
    log.durability.complete_flush(job)
    assert (
        log.durability.flushed_offset,
        log.durability.unflushed_messages,
        log.durability.unflushed_bytes,
    ) == (3, 2, len(batch(2)))


def test_one_flush_syncs_rolled_segments_oldest_first_and_only_once() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(segment_bytes=300))
    append(log, *(batch() for _ in range(5)))
    disk.history.clear()
    log.durability.flush()
    synced = [line.split()[1] for line in disk.history if line.startswith("sync ")]
    logs = [path for path in synced if path.endswith(".log")]
    assert logs == [segment.path(".log") for segment in log.extent.segments]
    disk.history.clear()
    append(log, batch(value=b""))
    log.durability.flush()
    assert [line for line in disk.history if line.startswith("sync ")] == [
        f"sync {log.extent.segments[-1].path('.log')}"
    ]


def test_only_one_flush_runs_at_a_time_and_only_a_finished_one_counts() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch())
    job = log.durability.begin_flush()
    with pytest.raises(RuntimeError):
        log.durability.begin_flush()
    with pytest.raises(RuntimeError):
        log.durability.complete_flush(job)
    job.run()
    log.durability.complete_flush(job)
    assert log.durability.flushed_offset == 1


def test_after_a_failed_fsync_the_log_refuses_writes_and_still_reads() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch())
    log.durability.flush()
    append(log, batch())
    disk.failing["sync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        log.durability.flush()
    disk.failing.clear()
    disk.history.clear()
    assert refusal(log, batch()).code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        log.append_replicated(memoryview(batch(base_offset=2)), NOW_MS)
    assert log.durability.flushed_offset == 1
    assert log.status.refusal is not None
    assert list(content(log)) == [0, 1]
    # Never again: a second fsync would report success for pages that are gone.
    log.close()
    assert not [line for line in disk.history if line.startswith("sync")]
    assert not log.status.was_closed_cleanly


def test_a_flush_that_runs_while_the_log_is_cut_counts_only_what_is_left() -> None:
    log = open_log(SimulatedDisk())
    append(log, *(batch() for _ in range(10)))
    job = log.durability.begin_flush()
    log.truncate_to(4)
    append(log, *(batch() for _ in range(10)))
    job.run()
    log.durability.complete_flush(job)
    assert log.durability.flushed_offset == 4


def test_a_segment_that_retention_takes_meanwhile_does_not_fail_the_flush() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(segment_bytes=300))
    append(log, *(batch() for _ in range(6)))
    job = log.durability.begin_flush()
    for kind in (".log", ".index", ".timeindex"):
        disk.remove(log.extent.segments[0].path(kind))
    job.run()
    log.durability.complete_flush(job)
    assert log.durability.flushed_offset == 6


def test_the_time_since_which_something_waits_begins_with_the_first_append_after_a_flush() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(), now_ms=NOW_MS + 5)
    append(log, batch(), now_ms=NOW_MS + 9)
    assert log.durability.unflushed_since_ms == NOW_MS + 5
    job = log.durability.begin_flush()
    append(log, batch(), now_ms=NOW_MS + 20)
    job.run()
    log.durability.complete_flush(job)
    assert log.durability.unflushed_since_ms == NOW_MS + 20


def test_leader_epochs_are_durable_with_the_flush() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch(), leader_epoch=4)
    disk.history.clear()
    log.durability.flush()
    assert f"sync {log.directory}/leader-epoch-checkpoint" in disk.history
    disk.history.clear()
    append(log, batch(), leader_epoch=4)
    log.durability.flush()
    assert f"sync {log.directory}/leader-epoch-checkpoint" not in disk.history
