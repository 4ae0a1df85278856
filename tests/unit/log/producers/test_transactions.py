"""Transactions of one log: what holds readers back, and which markers are written (EOS-2)."""

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, refusal, replicate
from tests.unit.log.transactional import end, sent

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.log.plan.retention import Deletion, Reason, RetentionPlan


def refused_marker(log: Log, *, epoch: int, coordinator_epoch: int = 0, version: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        end(log, commit=True, epoch=epoch, coordinator_epoch=coordinator_epoch, version=version)
    return refused.value.code


def test_an_ended_transaction_holds_readers_back_until_its_marker_is_replicated() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(2), sent(0))
    assert end(log, commit=True) == 4
    transactions = log.producers.transactions
    assert log.first_unstable_offset == 2
    assert not transactions.replicated_to(3)
    assert log.first_unstable_offset == 2
    assert transactions.replicated_to(4)
    assert log.first_unstable_offset is None
    assert len(transactions) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_is_opened_knows_the_ended_transactions_whose_markers_are_not_replicated(
    clean: bool,
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, sent(0))
    end(log, commit=True)
    log.close()  # with a snapshot, in which no transaction is open
    opened = open_log(disk, clean=clean, recovery_point=2, high_watermark=1)
    assert opened.first_unstable_offset == 0
    assert opened.producers.transactions.replicated_to(2)
    assert opened.first_unstable_offset is None


def test_transactions_that_end_behind_an_open_one_are_forgotten() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0, producer=1))
    for number in range(100):
        append(log, sent(number, producer=2))
        end(log, commit=True, producer=2)
        assert not log.producers.transactions.replicated_to(log.log_end_offset)
    assert len(log.producers.transactions) == 1
    assert log.first_unstable_offset == 0
    end(log, commit=True, producer=1)
    assert log.producers.transactions.replicated_to(log.log_end_offset)
    assert log.first_unstable_offset is None


def test_batches_and_markers_of_many_producers_in_one_append_are_told_apart() -> None:
    leader, follower = open_log(SimulatedDisk()), open_log(SimulatedDisk())
    append(leader, sent(0, producer=3), sent(0, producer=2), sent(0, producer=1))
    end(leader, commit=False, producer=2)
    append(leader, sent(1, producer=2))
    end(leader, commit=True, producer=3)
    found = leader.read(0, 1 << 20, upper_offset=leader.log_end_offset, at_least_one=True)
    assert found is not None
    follower.append_replicated(memoryview(bytearray(found.file.read(found.position, found.size))), NOW_MS)
    replicate(leader)
    replicate(follower)
    for log in (leader, follower):
        assert log.first_unstable_offset == 2
        assert [each.first_offset for each in log.producers.transactions.open_ones()] == [2, 4]
        assert [tuple(entry) for entry in log.aborted_transactions(0, 2)] == [(2, 1, 3, 0)]


def test_a_marker_without_records_is_written_and_not_indexed() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    assert end(log, commit=False, epoch=3) == 1
    assert log.aborted_transactions(0, 1) == []
    assert not disk.files_named((".txnindex",))
    assert refusal(log, sent(0, epoch=2)).code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_that_the_log_has_is_not_written_again() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    assert end(log, commit=True) == end(log, commit=True) == 2
    assert end(log, commit=True, coordinator_epoch=1) == 3


def test_a_marker_of_an_older_epoch_is_refused() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0, epoch=5))
    assert refused_marker(log, epoch=4) == ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, commit=True, epoch=5)


def test_with_an_epoch_for_each_transaction_an_open_one_is_not_ended_by_its_own_epoch() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0, epoch=5))
    assert refused_marker(log, epoch=5, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, commit=True, epoch=6, version=2) == 2
    # The answer was lost and the coordinator sends the marker again: nothing is open.
    assert end(log, commit=True, epoch=6, version=2) == 2
    append(log, sent(0, epoch=6))
    assert refused_marker(log, epoch=6, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_former_coordinator_is_fenced() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    end(log, commit=True, coordinator_epoch=4)
    append(log, sent(1))
    assert refused_marker(log, epoch=0, coordinator_epoch=3) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    end(log, commit=True, coordinator_epoch=5)


def test_a_batch_of_a_coordinator_with_a_fenced_producer_is_refused() -> None:
    log = open_log(SimulatedDisk())
    offsets = batch(1, producer_id=7, producer_epoch=2, sequence=-1, attributes=0x10)
    log.append_records(memoryview(offsets), leader_epoch=0, now_ms=NOW_MS)
    end(log, commit=True, epoch=3)
    with pytest.raises(KafkaError) as refused:
        log.append_records(memoryview(offsets), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_without_sequences_survive_a_restart(clean: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    offsets = batch(2, producer_id=7, producer_epoch=2, sequence=-1, attributes=0x10)
    log.append_records(memoryview(offsets), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=clean)
    again = open_log(disk, clean=clean, recovery_point=2 if clean else 0)
    entry = again.producers.get(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset, entry.txn_first_offset) == (-1, 1, 0)
    assert again.first_unstable_offset == 0


def test_a_transaction_whose_segment_was_deleted_holds_nothing_back() -> None:
    log = open_log(SimulatedDisk(), settings=config(segment_bytes=300))
    append(log, sent(0, producer=1), sent(0, producer=2), batch(1, value=b"x" * 200))
    append(log, sent(1, producer=2), batch(1, value=b"x" * 200))
    second = log.extent.segments[1].base_offset
    plan = RetentionPlan((Deletion(0, Reason.TIME),), log_start_offset=second, roll_active=False)
    log.retention.delete_segments(plan, NOW_MS)
    # The first producer has no record left, the second one has.
    assert [each.producer_id for each in log.producers.transactions.open_ones()] == [2]
    assert log.first_unstable_offset == log.log_start_offset == second


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    assert log.producers.expire(NOW_MS, 1) == 0
    assert log.producers.expire(NOW_MS + 10**9, 1) == 0
    end(log, commit=True)
    assert log.producers.expire(NOW_MS + 10**9, 1) == 0
    assert log.producers.expire(NOW_MS + 2 * 10**9, 1) == 1


def test_a_full_disk_that_cannot_take_the_first_aborted_transaction_leaves_the_log_as_it_is() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, sent(0))
    disk.failing |= {"append": 28, "create": 28}
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        end(log, commit=False)
    disk.failing.clear()
    assert end(log, commit=False) == 2
    assert log.producers.transactions.replicated_to(2)
    assert log.first_unstable_offset is None
