"""The states of a transactional producer."""

from __future__ import annotations

import pytest
from tests.unit.client.producing import Driven, numbers

from ottla.client.producer.machine.batch_answers import Answer
from ottla.client.producer.machine.delivery_report import Failure
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.transaction import Phase, TransactionalProducer
from ottla.client.producer.machine.transaction_errors import (
    ProducerFencedError,
    Remedy,
    TransactionAbortedError,
    TransactionError,
    TransactionFailure,
    TransactionUncertainError,
    remedy_of_record,
    remedy_of_request,
)
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST = ProducerIdentity(7, 0)


def begun(version: int) -> TransactionalProducer:
    machine = TransactionalProducer()
    machine.initialised(FIRST)
    machine.begin(version)
    return machine


def test_a_partition_is_wanted_until_it_is_added() -> None:
    machine = begun(1)
    assert not machine.admits(T0)
    assert not machine.admits(T1)
    assert machine.take_wanted() == [T0, T1]
    assert not machine.admits(T0)
    assert machine.take_wanted() == []  # while these are being added
    machine.added([T0, T1])
    assert machine.admits(T0)
    assert machine.take_wanted() == []  # the second wish was for one that is there by now
    assert machine.is_known


def test_partitions_that_were_not_added_are_wanted_again_if_a_batch_still_waits() -> None:
    machine = begun(0)
    machine.admits(T0)
    machine.take_wanted()
    machine.not_added()
    assert machine.take_wanted() == []
    machine.admits(T0)
    assert machine.take_wanted() == [T0]


def test_from_version_2_on_every_partition_is_admitted_while_the_transaction_is_open() -> None:
    machine = begun(2)
    assert not machine.is_known
    assert machine.admits(T0)
    assert machine.is_known
    machine.begin_commit()
    assert not machine.admits(T0)


def test_a_partition_belongs_to_one_transaction() -> None:
    machine = begun(1)
    machine.added([T0])
    machine.added_group("g")
    assert not machine.needs_group("g")
    machine.begin_commit()
    assert not machine.ended()
    machine.begin(1)
    assert not machine.admits(T0)
    assert machine.needs_group("g")
    assert not machine.is_known


def test_the_end_raises_the_epoch_or_leaves_it() -> None:
    machine = begun(2)
    machine.begin_commit()
    assert machine.ended(ProducerIdentity(7, 1))
    assert machine.identity == (7, 1)
    machine.begin(2)
    machine.spend_epoch()
    machine.begin_abort()
    assert machine.ended(ProducerIdentity(8, 0))
    assert machine.phase is Phase.READY  # the fate of a batch in an epoch of the past does not matter
    machine.begin(1)
    machine.begin_abort()
    assert not machine.ended()
    assert (machine.identity, machine.phase) == ((8, 0), Phase.READY)


def test_a_spent_epoch_is_raised_before_the_next_transaction() -> None:
    for spend in (TransactionalProducer.spend_epoch, TransactionalProducer.lost):
        machine = begun(1)
        machine.added([T0])
        spend(machine)
        machine.begin_commit()
        machine.ended()
        assert machine.phase is Phase.UNINITIALISED
        machine.initialised(ProducerIdentity(7, 1))
        machine.begin(1)


def test_a_lost_request_may_have_made_the_transaction_known() -> None:
    machine = begun(1)
    machine.lost()
    assert machine.is_known
    assert not machine.is_end_lost
    machine.begin_abort()
    machine.lost()
    assert machine.is_end_lost


def test_the_gravest_failure_counts() -> None:
    machine = begun(2)
    machine.fail(Remedy.ABORT, ErrorCode.INVALID_RECORD, "one")
    assert not machine.is_open
    machine.fail(Remedy.ABORT, ErrorCode.ILLEGAL_GENERATION, "two")
    assert machine.failure == (Remedy.ABORT, ErrorCode.INVALID_RECORD, "one")
    machine.fail(Remedy.RESTART, ErrorCode.PRODUCER_FENCED, "three")
    machine.fail(Remedy.ABORT, ErrorCode.INVALID_RECORD, "four")
    assert machine.failure is not None
    assert machine.failure.message == "three"
    assert machine.phase is Phase.FATAL_ERROR
    assert machine.is_discarded


def test_a_commit_whose_outcome_is_unknown_asks_for_a_decision() -> None:
    machine = begun(1)
    machine.added([T0])
    machine.begin_commit()
    machine.lost()
    machine.fail(Remedy.UNKNOWN, ErrorCode.REQUEST_TIMED_OUT, "no answer")
    assert (machine.phase, machine.is_undecided) == (Phase.UNINITIALISED, True)
    machine.initialised(ProducerIdentity(7, 1))
    assert not machine.is_undecided


def test_a_step_that_the_table_does_not_have_is_a_bug() -> None:
    machine = TransactionalProducer()
    with pytest.raises(AssertionError, match="UNINITIALISED to IN_TRANSACTION"):
        machine.begin(2)


@pytest.mark.parametrize(
    ("code", "of_request", "of_record"),
    [
        (ErrorCode.PRODUCER_FENCED, Remedy.RESTART, Remedy.RESTART),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Remedy.RESTART, Remedy.RESTART),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Remedy.RESTART, Remedy.ABORT),
        (ErrorCode.TRANSACTION_ABORTABLE, Remedy.ABORT, Remedy.ABORT),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Remedy.ABORT, Remedy.ABORT),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Remedy.GIVE_UP, Remedy.ABORT),
        (ErrorCode.UNKNOWN_MEMBER_ID, Remedy.ABORT, Remedy.ABORT),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Remedy.ABORT, Remedy.ABORT),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Remedy.ABORT, Remedy.ABORT),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Remedy.GIVE_UP, Remedy.GIVE_UP),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, Remedy.GIVE_UP, Remedy.ABORT),
    ],
)
def test_the_table_of_remedies(code: ErrorCode, of_request: Remedy, of_record: Remedy) -> None:
    assert (remedy_of_request(code), remedy_of_record(code)) == (of_request, of_record)


def test_each_remedy_has_an_exception() -> None:
    kinds = {
        remedy: type(TransactionFailure(remedy, ErrorCode.PRODUCER_FENCED, "why").error) for remedy in Remedy
    }
    assert kinds == {
        Remedy.ABORT: TransactionAbortedError,
        Remedy.UNKNOWN: TransactionUncertainError,
        Remedy.RESTART: ProducerFencedError,
        Remedy.GIVE_UP: TransactionError,
    }


def test_after_a_refused_batch_nothing_goes_to_the_partition_until_the_coordinator_gives_an_epoch() -> None:
    """The next epoch may be that of another producer with the same transactional id."""
    driven = Driven(transactional_id="x", batch_size=100)
    driven.accumulator.transaction = begun(2)
    refused, later = driven.append(b"x" * 90), driven.append(b"y" * 90)
    driven.now_ms += 5
    assert driven.take() == [refused]
    driven.accumulator.answered(refused, Answer(ErrorCode.INVALID_PRODUCER_EPOCH))
    driven.now_ms += 5
    assert driven.take() == []
    assert not later.is_done
    driven.accumulator.fail_waiting(Failure(ErrorCode.OPERATION_NOT_ATTEMPTED, "discarded"))
    driven.accumulator.restart(ProducerIdentity(7, 3), is_refused_unknown=True)
    again = driven.append()
    driven.now_ms += 5
    assert driven.take() == [again]
    assert numbers(again) == (7, 3, 0)
