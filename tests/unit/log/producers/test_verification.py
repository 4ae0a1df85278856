"""The first batch of a transaction is appended only with a verification that is in force (EOS-1)."""

from collections.abc import Collection

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, is_waiting, open_log
from tests.unit.log.transactional import end, sent

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.log.producers.verification import Verification


def begin(log: Log, *, epoch: int = 0, sequence: int = 0, bumps_epoch: bool = False) -> Verification:
    verifications = log.producers.verifications
    return verifications.begin(7, epoch, sequence, bumps_epoch=bumps_epoch, now_ms=NOW_MS)


def outcome(log: Log, data: bytearray, verified: Collection[Verification] = ()) -> ErrorCode:
    """The answer to a batch, which is sent again while it waits for an earlier one."""
    for _ in range(10):
        (answer,) = log.append([memoryview(data)], leader_epoch=0, now_ms=NOW_MS, verified=verified)
        if not is_waiting(answer):
            return answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
    raise AssertionError("the log still waits for an earlier batch")


def test_a_batch_without_verification_begins_no_transaction() -> None:
    log = open_log(SimulatedDisk())
    assert outcome(log, sent(0)) == ErrorCode.INVALID_TXN_STATE
    verified = [begin(log)]
    assert outcome(log, sent(0)) == ErrorCode.INVALID_TXN_STATE
    assert outcome(log, sent(0), verified) == ErrorCode.NONE
    # The transaction is open: the batches after the first need no verification.
    assert outcome(log, sent(1)) == ErrorCode.NONE
    assert len(log.producers.verifications) == 0


def test_several_batches_of_one_append_need_one_verification() -> None:
    log = open_log(SimulatedDisk())
    verified = [begin(log)]
    views = [memoryview(sent(sequence)) for sequence in range(3)]
    answers = log.append(views, leader_epoch=0, now_ms=NOW_MS, verified=verified)
    assert not any(isinstance(answer, KafkaError) for answer in answers)


def test_a_duplicate_needs_no_verification() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    end(log, commit=True)
    assert outcome(log, sent(0)) == ErrorCode.NONE
    assert log.log_end_offset == 2


@pytest.mark.parametrize("has_records", [False, True])
def test_a_marker_ends_the_verification_of_a_batch_that_comes_late(has_records: bool) -> None:
    log = open_log(SimulatedDisk())
    if has_records:
        append(log, sent(0))
        end(log, commit=True)
    verified = [begin(log, sequence=1)]
    # The coordinator has answered, and then the transaction is aborted before the append.
    end(log, commit=False, epoch=1)
    assert outcome(log, sent(1), verified) != ErrorCode.NONE
    # Even a verification that begins now is not the one that was presented.
    begin(log, epoch=1)
    assert outcome(log, sent(0, epoch=1), verified) == ErrorCode.INVALID_TXN_STATE


def test_a_duplicate_marker_ends_a_verification_too() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    end(log, commit=True)
    verified = [begin(log, sequence=1)]
    assert end(log, commit=True) == 2
    assert outcome(log, sent(1), verified) == ErrorCode.INVALID_TXN_STATE


def test_the_marker_before_a_transaction_does_not_end_its_verification() -> None:
    """With an epoch for each transaction, the marker of the last one has the epoch of the next."""
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    verified = [begin(log, epoch=1, bumps_epoch=True)]
    end(log, commit=True, epoch=1, version=2)
    assert outcome(log, sent(0, epoch=1), verified) == ErrorCode.NONE
    verified = [begin(log, epoch=1, sequence=1, bumps_epoch=False)]
    end(log, commit=True, epoch=2, version=2)
    assert outcome(log, sent(0, epoch=2), verified) == ErrorCode.INVALID_TXN_STATE


def test_markers_and_truncations_of_a_follower_end_verifications() -> None:
    log, leader = open_log(SimulatedDisk()), open_log(SimulatedDisk())
    append(leader, batch(1))
    end(leader, commit=False, epoch=1)
    verified = [begin(log)]
    found = leader.read(0, 1 << 20, upper_offset=2, at_least_one=True)
    assert found is not None
    log.append_replicated(memoryview(bytearray(found.file.read(found.position, found.size))), NOW_MS)
    assert outcome(log, sent(0, epoch=1), verified) == ErrorCode.INVALID_TXN_STATE
    verified = [begin(log, epoch=1)]
    log.truncate_to(1)
    assert outcome(log, sent(0, epoch=1), verified) == ErrorCode.INVALID_TXN_STATE


def test_a_batch_whose_predecessor_waits_for_an_answer_is_refused() -> None:
    log = open_log(SimulatedDisk())
    verified = [begin(log, sequence=5), begin(log, sequence=3), begin(log, sequence=4)]
    assert outcome(log, sent(4), verified) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert outcome(log, sent(3), verified) == ErrorCode.NONE
    # A newer epoch counts from its own beginning.
    end(log, commit=True)
    verified = [begin(log, sequence=9), begin(log, epoch=1, sequence=0)]
    assert outcome(log, sent(0, epoch=1), verified) == ErrorCode.NONE


def test_with_an_epoch_for_each_transaction_an_unknown_producer_begins_with_sequence_0() -> None:
    log = open_log(SimulatedDisk())
    verified = [begin(log, sequence=2, bumps_epoch=True)]
    assert outcome(log, sent(2), verified) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert outcome(log, sent(0), verified) == ErrorCode.NONE


def test_verifications_expire_with_producers() -> None:
    log = open_log(SimulatedDisk())
    begin(log)
    log.producers.expire(NOW_MS + 10, 10)
    assert len(log.producers.verifications) == 1
    log.producers.expire(NOW_MS + 11, 10)
    assert len(log.producers.verifications) == 0
