"""Sequences of idempotent and transactional producers (PRO-4)."""

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, refusal, replicate

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.log.writing.append import Appended
from ottla.records.control import EndTransactionMarker, build_marker

LAST_SEQUENCE = 2**31 - 1
TRANSACTIONAL = 0x10


def produced(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer: int = 7,
    attributes: int = 0,
    timestamp: int = NOW_MS,
) -> bytearray:
    return batch(
        count,
        producer_id=producer,
        producer_epoch=epoch,
        sequence=sequence,
        attributes=attributes,
        timestamp=timestamp,
    )


def end(log: Log, *, commit: bool, epoch: int = 0, producer: int = 7) -> Appended:
    marker = build_marker(
        EndTransactionMarker(commit, 1), producer_id=producer, producer_epoch=epoch, timestamp=NOW_MS
    )
    appended = log.append_records(memoryview(marker), leader_epoch=0, now_ms=NOW_MS)
    replicate(log)
    return appended


def test_an_exact_retry_is_answered_with_the_original_offset_and_stored_once() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(4), produced(0, 3), produced(3, 2))
    (again,) = append(log, produced(0, 3))
    assert again == Appended(4, 6, -1, 0, True)
    assert log.log_end_offset == 9


def test_the_last_five_batches_are_remembered() -> None:
    log = open_log(SimulatedDisk())
    append(log, *(produced(sequence) for sequence in range(7)))
    for sequence in range(2, 7):
        (answer,) = append(log, produced(sequence))
        assert answer.is_duplicate
        assert answer.base_offset == sequence
    known = log.producers.get(7)
    assert known is not None
    assert [found.first_sequence for found in known.batches] == [2, 3, 4, 5, 6]


def test_the_same_first_sequence_with_another_length_is_no_retry() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0, 3))
    assert refusal(log, produced(0, 2)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_one_producer_in_one_call_see_each_other() -> None:
    log = open_log(SimulatedDisk())
    answers = log.append(
        [memoryview(produced(0)), memoryview(produced(1)), memoryview(produced(0)), memoryview(produced(3))],
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    assert answers[:3] == [
        Appended(0, 0, -1, 0, False),
        Appended(1, 1, -1, 0, False),
        Appended(0, 0, -1, 0, True),
    ]
    assert isinstance(answers[3], KafkaError)
    assert answers[3].code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_unknown_producer_may_begin_anywhere_and_must_then_go_on() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(500, 2))
    assert refusal(log, produced(503)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, produced(502))


def test_an_older_epoch_is_fenced() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0, epoch=3))
    assert refusal(log, produced(1, epoch=2)).code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_sequence_zero_and_forgets_the_old_batches() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0), produced(1))
    assert refusal(log, produced(2, epoch=1)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    (answer,) = append(log, produced(0, epoch=1))
    assert not answer.is_duplicate
    assert refusal(log, produced(1, epoch=0)).code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_refused_batch_leaves_the_producer_as_it_was() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0))
    refusal(log, produced(5))
    refusal(log, produced(3, epoch=1))
    append(log, produced(1))


def test_sequences_wrap_around() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(LAST_SEQUENCE - 1, 4))
    (again,) = append(log, produced(LAST_SEQUENCE - 1, 4))
    assert again.is_duplicate
    append(log, produced(2))
    log.close()
    assert log.producers.items()[0][1].next_sequence == 3


def test_sequences_end_exactly_at_the_largest_and_go_on_with_zero() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(LAST_SEQUENCE), produced(0))


def test_producers_do_not_disturb_each_other() -> None:
    log = open_log(SimulatedDisk())
    append(
        log,
        produced(0, producer=1),
        produced(0, producer=2),
        produced(1, producer=1),
        produced(1, producer=2),
    )
    assert len(log.producers) == 2


def test_a_retry_on_a_log_append_time_topic_is_answered_with_the_original_time() -> None:
    log = open_log(SimulatedDisk(), settings=config(message_timestamp_type="LogAppendTime"))
    append(log, produced(0), now_ms=NOW_MS)
    (again,) = append(log, produced(0), now_ms=NOW_MS + 99)
    assert again.log_append_time_ms == NOW_MS


@pytest.mark.parametrize("clean", [True, False])
def test_a_retry_is_recognised_after_a_restart(clean: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, produced(0, 2), produced(2, 3))
    log.close(clean=clean)
    log = open_log(disk, clean=clean, recovery_point=log.log_end_offset if clean else 0)
    (again,) = append(log, produced(2, 3))
    assert again == Appended(2, 4, -1, 0, True)
    append(log, produced(5))


def test_a_producer_that_was_silent_for_long_is_forgotten_and_may_go_on_as_a_new_one() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0))
    assert log.producers.expire(NOW_MS, 1000) == 0
    assert log.producers.expire(NOW_MS + 1000, 1000) == 0
    assert log.producers.expire(NOW_MS + 1001, 1000) == 1
    append(log, produced(17))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_producer_of_old_records_is_not_silent(restarts: bool) -> None:
    """Otherwise a batch that it sends again is appended again, if producers are looked through in between."""
    disk = SimulatedDisk()
    log = open_log(disk)
    years_ago = NOW_MS - 10**11
    for sequence in range(3):
        (first,) = append(log, produced(sequence, timestamp=years_ago))
        if restarts:
            log.close()
            log = open_log(disk)
        assert log.producers.expire(NOW_MS + sequence, 1000) == 0
        (again,) = append(log, produced(sequence, timestamp=years_ago))
        assert (again.is_duplicate, again.base_offset) == (True, first.base_offset)
    assert log.producers.expire(NOW_MS + 1003, 1000) == 1


def test_an_open_transaction_bounds_what_is_stable_until_its_marker() -> None:
    log = open_log(SimulatedDisk())
    append(log, batch(2))
    assert log.first_unstable_offset is None
    append(log, produced(0, 2, attributes=TRANSACTIONAL), produced(2, 1, attributes=TRANSACTIONAL))
    append(log, produced(0, 1, attributes=TRANSACTIONAL, producer=8))
    assert log.first_unstable_offset == 2
    end(log, commit=True)
    assert log.first_unstable_offset == 5
    end(log, commit=False, producer=8)
    assert log.first_unstable_offset is None


def test_a_batch_outside_the_open_transaction_of_its_producer_is_refused() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0, attributes=TRANSACTIONAL))
    assert refusal(log, produced(1)).code == ErrorCode.INVALID_TXN_STATE
    append(log, produced(1, attributes=TRANSACTIONAL))
    end(log, commit=True)
    append(log, produced(2))


def test_a_marker_of_a_newer_epoch_fences_the_producer() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0, attributes=TRANSACTIONAL))
    end(log, commit=False, epoch=1)
    assert refusal(log, produced(1, attributes=TRANSACTIONAL)).code == ErrorCode.INVALID_PRODUCER_EPOCH
    append(log, produced(0, epoch=1, attributes=TRANSACTIONAL))


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_survive_a_restart(clean: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, produced(0, attributes=TRANSACTIONAL), produced(0, producer=8, attributes=TRANSACTIONAL))
    end(log, commit=True)
    log.close(clean=clean)
    log = open_log(disk, clean=clean, recovery_point=log.log_end_offset if clean else 0)
    replicate(log)
    assert log.first_unstable_offset == 1
    entry = log.producers.get(7)
    assert entry is not None
    assert entry.coordinator_epoch == 1
    end(log, commit=True, producer=8)
    assert log.first_unstable_offset is None


def test_a_transaction_whose_records_were_deleted_holds_nothing_back() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0, attributes=TRANSACTIONAL), batch(5))
    log.advance_log_start_offset(3)
    assert log.first_unstable_offset is None
