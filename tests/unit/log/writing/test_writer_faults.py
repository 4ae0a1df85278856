"""Disks that are full, broken or pulled out at the worst moment (STO-4, STO-11)."""

import errno
from collections.abc import Callable
from random import Random

import pytest
from tests.simulation.world.disk import SimulatedCrash, SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content, open_log

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.log.plan.retention import Deletion, Reason, RetentionPlan
from ottla.log.writing.append import Appended

SMALL = config(segment_bytes=700, index_interval_bytes=200, segment_index_bytes=120)


def run_appends(log: Log, calls: int) -> dict[int, bytes]:
    """Append in runs of three and collect what was acknowledged; every failure must be a storage error."""
    acknowledged: dict[int, bytes] = {}
    for number in range(calls):
        items = [batch(2, value=b"%d-%d" % (number, item)) for item in range(3)]
        answers = log.append([memoryview(data) for data in items], leader_epoch=number // 4, now_ms=NOW_MS)
        for answer, data in zip(answers, items, strict=True):
            if isinstance(answer, Appended):
                acknowledged[answer.base_offset] = bytes(data)
            else:
                assert answer.code == ErrorCode.KAFKA_STORAGE_ERROR
    return acknowledged


def operations_of(work: Callable[[SimulatedDisk], object]) -> int:
    disk = SimulatedDisk()
    work(disk)
    return disk.operations


def fill(disk: SimulatedDisk) -> dict[int, bytes]:
    return run_appends(open_log(disk, settings=SMALL), 12)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_one_failing_operation_costs_at_most_its_own_batches(code: int) -> None:
    setup = operations_of(lambda disk: open_log(disk, settings=SMALL))
    for number in range(setup + 1, operations_of(fill) + 1):
        disk = SimulatedDisk()
        log = open_log(disk, settings=SMALL)
        disk.failures = {number: code}
        acknowledged = run_appends(log, 12)
        assert content(log) == acknowledged, f"operation {number}: {disk.history[number - 1]}"
        assert len(acknowledged) >= 36 - 3
        survivor = open_log(disk.kill(), settings=SMALL, clean=False)
        assert content(survivor) == acknowledged, f"operation {number}: {disk.history[number - 1]}"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_for_good_loses_nothing_it_acknowledged_and_serves_it(code: int) -> None:
    for kinds in (
        ("append",),
        ("append", "truncate"),
        ("create",),
        ("append", "truncate", "create", "rename"),
    ):
        disk = SimulatedDisk()
        log = open_log(disk, settings=SMALL)
        acknowledged = run_appends(log, 5)
        disk.failing = dict.fromkeys(kinds, code)
        acknowledged |= run_appends(log, 5)
        assert content(log) == acknowledged
        disk.failing = {}
        later = run_appends(log, 2)
        # A file that could not be cut back is not written to again.
        assert bool(later) == (kinds[:2] != ("append", "truncate"))
        assert (log.status.refusal is not None) == (kinds[:2] == ("append", "truncate"))
        assert content(open_log(disk.kill(), settings=SMALL, clean=False)) == acknowledged | later


def test_a_full_disk_is_said_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    disk.failing["append"] = errno.ENOSPC
    run_appends(log, 10)
    disk.failing.clear()
    run_appends(log, 10)
    told = [record.message for record in caplog.records]
    assert len([text for text in told if "No space left" in text]) == 1
    assert len([text for text in told if "written to again" in text]) == 1


def test_a_sequence_whose_write_failed_can_be_sent_again() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)

    def produced(sequence: int) -> bytearray:
        return batch(producer_id=1, producer_epoch=0, sequence=sequence)

    append(log, produced(0))
    disk.failing["append"] = errno.ENOSPC
    answers = log.append([memoryview(produced(1)), memoryview(produced(1))], leader_epoch=0, now_ms=NOW_MS)
    assert [isinstance(answer, KafkaError) for answer in answers] == [True, True]
    disk.failing.clear()
    (again,) = append(log, produced(1))
    assert again == Appended(1, 1, -1, 0, False)


def test_a_full_disk_under_the_index_costs_index_entries_only() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(index_interval_bytes=200))
    disk.failing["reserve"] = errno.ENOSPC
    append(log, *(batch() for _ in range(20)))
    assert log.extent.segments[-1].index.file.count == 0
    disk.failing.clear()
    append(log, *(batch() for _ in range(20)))
    assert log.extent.segments[-1].index.file.count > 0
    assert len(content(log)) == 40
    assert log.timestamps.largest().offset == 0


@pytest.mark.parametrize("number", range(1, 8))
def test_a_flush_that_fails_anywhere_is_not_tried_again(number: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    run_appends(log, 4)
    disk.failures = {disk.operations + number: errno.EIO}
    with pytest.raises(OSError, match="Input/output"):
        log.durability.flush()
    assert log.status.refusal is not None
    assert log.durability.flushed_offset == 0
    assert run_appends(log, 1) == {}


def _prepared(disk: SimulatedDisk) -> tuple[Log, dict[int, bytes]]:
    log = open_log(disk, settings=SMALL)
    acknowledged = run_appends(log, 8)
    log.durability.flush()
    return log, acknowledged


def _roll(log: Log) -> None:
    log.roll(NOW_MS)
    append(log, batch(2, value=b"after"))
    log.durability.flush()


def _truncate(log: Log) -> None:
    log.truncate_to(18)
    append(log, batch(2, value=b"after"))
    log.durability.flush()


def _truncate_fully(log: Log) -> None:
    log.truncate_fully(100)
    append(log, batch(2, value=b"after"))
    log.durability.flush()


def _delete(log: Log) -> None:
    bases = [segment.base_offset for segment in log.extent.segments][:2]
    start = log.extent.segments[2].base_offset
    plan = RetentionPlan(tuple(Deletion(base, Reason.TIME) for base in bases), start, False)
    log.retention.delete_segments(plan, NOW_MS)
    log.retention.remove_deleted(NOW_MS + log.tail.config.file_delete_delay_ms)
    log.durability.flush()


def _close(log: Log) -> None:
    log.close()


@pytest.mark.parametrize("work", [_roll, _truncate, _truncate_fully, _delete, _close])
@pytest.mark.parametrize("power_loss", [True, False])
def test_a_crash_at_every_operation_leaves_a_log_that_opens_to_one_piece_of_the_truth(
    work: Callable[[Log], None], power_loss: bool
) -> None:
    disk = SimulatedDisk()
    log, before = _prepared(disk)
    begun = disk.operations
    work(log)
    total = disk.operations - begun
    after = content(log)
    for number in range(1, total + 1):
        for seed in range(4 if power_loss else 1):
            disk = SimulatedDisk()
            log, _ = _prepared(disk)
            disk.crash_at = begun + number
            with pytest.raises(SimulatedCrash):
                work(log)
            survived = disk.crash(Random(seed)) if power_loss else disk.kill()
            point = (
                18 if work is _truncate else 0 if work is _truncate_fully else log.durability.flushed_offset
            )
            _check_one_piece(survived, point, before, after, f"{disk.history[-1]}, seed {seed}")


def _check_one_piece(
    disk: SimulatedDisk, point: int, before: dict[int, bytes], after: dict[int, bytes], story: str
) -> None:
    log = open_log(disk, settings=SMALL, clean=False, recovery_point=point)
    served = content(log)
    for offset, data in served.items():
        assert data in (before.get(offset), after.get(offset)), story
    # The records of both possible logs are there. (Of the truncated part, a power loss may leave any part.)
    for offset, data in before.items():
        if after.get(offset) == data:
            assert served.get(offset) == data, story
    append(log, batch())
