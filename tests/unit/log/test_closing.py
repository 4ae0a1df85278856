"""Many logs are created and closed at the price of few: what is synced, and what a power loss leaves."""

import errno
from random import Random
from uuid import UUID

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config

from ottla.log.directory import CLEAN_SHUTDOWN, LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log

TOPIC_ID = UUID(int=7)
LATER_TOPIC_ID = UUID(int=8)
LOGS = 5


def opened(disk: SimulatedDisk) -> LogDirectory:
    directory = LogDirectory(disk, "/data", OpenFiles())
    directory.open(1, lambda: UUID(int=1))
    return directory


def log_of(directory: LogDirectory, partition: int = 0, topic_id: UUID = TOPIC_ID) -> Log:
    return directory.open_log("orders", partition, topic_id, config(), NOW_MS)


def syncs(disk: SimulatedDisk) -> list[str]:
    return [line for line in disk.history if line.startswith("sync")]


def test_a_log_is_created_without_waiting_for_the_disk() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    disk.history.clear()
    log_of(directory)
    assert syncs(disk) == []


def test_the_first_flush_makes_the_directory_and_its_topic_id_durable() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    log = log_of(directory)
    append(log, batch())
    log.durability.flush()
    assert "sync /data/orders-0/partition.metadata" in disk.history
    assert "sync_directory /data" in disk.history
    for seed in range(20):
        again = opened(disk.crash(Random(seed)))
        assert again.topic_id_of("orders-0") == TOPIC_ID
        assert log_of(again).log_end_offset == 1


def test_logs_without_records_are_closed_without_a_sync_of_their_files() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    for partition in range(LOGS):
        log_of(directory, partition)
    disk.history.clear()
    directory.close()
    assert [line for line in syncs(disk) if "orders" in line] == []
    for seed in range(20):
        survivor = disk.crash(Random(seed))
        again = opened(survivor)
        assert again.was_closed_cleanly
        log = log_of(again)
        append(log, batch())
        log.durability.flush()
        once_more = opened(survivor.crash(Random(seed)))
        assert once_more.topic_id_of("orders-0") == TOPIC_ID
        assert log_of(once_more).log_end_offset == 1


def test_logs_are_closed_together_and_their_parent_directory_is_synced_once() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    for partition in range(LOGS):
        append(log_of(directory, partition), batch(partition + 1))
    disk.history.clear()
    directory.close_logs()
    assert disk.history.count("sync_directory /data") == 1
    assert sum(line.endswith(".log") for line in syncs(disk)) == LOGS
    directory.close()
    again = opened(disk.crash(Random(1)))
    assert again.was_closed_cleanly
    for partition in range(LOGS):
        assert log_of(again, partition).log_end_offset == partition + 1


@pytest.mark.parametrize("path", ["/data/orders-1/00000000000000000000.log", "/data/orders-1"])
def test_a_log_that_cannot_be_synced_keeps_no_other_from_a_clean_close(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    logs = [log_of(directory, partition) for partition in range(3)]
    for log in logs:
        append(log, batch())
    operation = disk.operation

    def failing(kind: str, where: str) -> None:
        if kind.startswith("sync") and where == path:
            raise OSError(errno.EIO, "Input/output error")
        operation(kind, where)

    monkeypatch.setattr(disk, "operation", failing)
    directory.close()
    assert [log.status.was_closed_cleanly for log in logs] == [True, False, True]
    assert not disk.exists(f"/data/{CLEAN_SHUTDOWN}")


def test_records_that_may_be_another_topics_are_not_served_after_a_power_loss() -> None:
    disk = SimulatedDisk()
    directory = opened(disk)
    append(log_of(directory), batch(3))
    directory.close(clean=False)
    disk.remove("/data/orders-0/partition.metadata")
    again = opened(disk)
    assert log_of(again, topic_id=LATER_TOPIC_ID).log_end_offset == 0
    assert [entry.name for entry in disk.list("/data") if entry.name.endswith("-stray")] == [
        "orders-0.unknown-stray"
    ]
    assert again.topic_id_of("orders-0") == LATER_TOPIC_ID


def test_logs_that_are_set_aside_do_not_stand_in_each_others_way() -> None:
    disk = SimulatedDisk()
    for _ in range(3):
        directory = opened(disk)
        append(log_of(directory), batch())
        directory.close(clean=False)
        disk.remove("/data/orders-0/partition.metadata")
    assert [entry.name for entry in disk.list("/data") if entry.name.endswith("-stray")] == [
        "orders-0.unknown-stray",
        "orders-0.unknown.2-stray",
    ]
