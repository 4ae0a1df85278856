"""Two-phase commit at the coordinator (KIP-939): transactions that are kept, and have no timeout (EOS-1, EOS-4)."""

from __future__ import annotations

import pytest
from tests.unit.transaction.shell import ID, T0, T1, Shell

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.protocol.messages.transaction_admin import ListTransactionsRequest
from ottla.transaction.commands import ExpireIds, InitProducer, ProducerAnswer, TransactionKept
from ottla.transaction.metadata import LAST_EPOCH, NO_TIMEOUT_MS
from ottla.transaction.records import TransactionLogValue, transaction_record

DAY_MS = 86_400_000


def two_phase(finalized_version: int = 2) -> Shell:
    return Shell(finalized_version, TransactionConfig(two_phase_commit_enable=True))


def opened(shell: Shell) -> ProducerAnswer:
    """A producer with two-phase commit that has a transaction open in T0."""
    producer: ProducerAnswer = shell.ask(InitProducer(ID, 60_000, is_two_phase=True))
    assert shell.add(producer, T0) == ErrorCode.NONE
    return producer


def test_it_has_to_be_allowed_and_needs_epochs_per_transaction() -> None:
    refused = ProducerAnswer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert Shell().ask(InitProducer(ID, 60_000, is_two_phase=True)) == refused
    unsupported = ProducerAnswer(ErrorCode.UNSUPPORTED_VERSION)
    assert two_phase(1).ask(InitProducer(ID, 60_000, is_two_phase=True)) == unsupported
    assert two_phase(1).keep(is_two_phase=False) == unsupported
    assert two_phase().ask(InitProducer(ID, 0, is_two_phase=True)).error == ErrorCode.NONE


def test_a_transaction_outlives_its_producer_every_timeout_and_its_coordinator() -> None:
    shell = two_phase()
    producer = opened(shell)
    assert shell[ID].timeout_ms == NO_TIMEOUT_MS
    for _ in range(3):
        shell.pass_time(30 * DAY_MS)
        shell.ask(ExpireIds())
        shell.fail_over()
    assert shell.state() == "Ongoing"
    assert shell.end(producer, commit=True) == (0, 1001, 1)


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_producer_ends_what_the_one_before_has_prepared(commit: bool) -> None:
    shell = two_phase()
    producer = opened(shell)
    assert shell.keep() == TransactionKept(ErrorCode.NONE, 1001, 1, 1001, 0)
    shell.fail_over()
    again = shell.keep()
    assert again == TransactionKept(ErrorCode.NONE, 1001, 2, 1001, 0)
    holder = again[1:3]
    assert shell.state() == "Ongoing"
    assert shell.end(producer, commit=commit) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert shell.end((1001, 1), commit=commit) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert shell.end(holder, commit=commit, version=1) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
    after = shell.end(holder, commit=commit)
    assert after == (0, 1001, 3)
    (markers,) = shell.write_markers()
    assert (markers.is_commit, markers.producer_id, markers.producer_epoch) == (commit, 1001, 3)
    assert markers.partitions == {T0}
    assert shell.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert shell.end(holder, commit=commit) == after, "a repeated end has the same answer"
    assert shell.add(after, T1) == ErrorCode.NONE


def test_nothing_joins_a_transaction_that_is_kept() -> None:
    shell = two_phase()
    producer = opened(shell)
    holder = shell.keep()[1:3]
    assert shell.add(producer, T0) == ErrorCode.PRODUCER_FENCED
    assert shell.verify(producer, T0) == {T0: ErrorCode.PRODUCER_FENCED}
    assert shell.add(holder, T1) == ErrorCode.INVALID_TXN_STATE
    assert shell.verify(holder, T0) == {T0: ErrorCode.INVALID_TXN_STATE}
    assert shell[ID].partitions == {T0}


def test_without_a_transaction_there_is_nothing_to_keep() -> None:
    shell = two_phase()
    assert shell.keep() == (0, 1001, 0)
    assert shell.keep() == (0, 1001, 1)
    shell.add((1001, 1), T0)
    shell.end((1001, 1), commit=True)
    assert shell.keep() == ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS), "the decision is made"
    shell.write_markers()
    assert shell.keep() == (0, 1001, 3)


def test_whoever_takes_the_id_over_without_keeping_aborts_what_is_prepared() -> None:
    """The forced end: an administrator fences the id."""
    shell = two_phase()
    opened(shell)
    holder = shell.keep()[1:3]
    assert shell.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = shell.write_markers()
    assert (markers.is_commit, markers.producer_epoch) == (False, 2)
    assert shell.init() == (0, 1001, 3)
    assert shell.end(holder, commit=True).error == ErrorCode.PRODUCER_FENCED
    assert shell[ID].timeout_ms == 60_000


def test_a_producer_that_is_known_names_the_identity_that_it_was_given() -> None:
    shell = two_phase()
    producer = opened(shell)
    holder = shell.keep()[1:3]
    keep = InitProducer(ID, 60_000, *producer[1:], is_two_phase=True, keeps_prepared=True)
    assert shell.ask(keep) == ProducerAnswer(ErrorCode.PRODUCER_FENCED)
    kept = shell.ask(keep._replace(producer_id=holder[0], producer_epoch=holder[1]))
    assert kept == TransactionKept(ErrorCode.NONE, 1001, 2, 1001, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_kept_transaction_whose_epochs_are_used_up_is_ended_under_its_own_producer_id(commit: bool) -> None:
    shell = two_phase()
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=LAST_EPOCH - 2,
        transaction_timeout_ms=NO_TIMEOUT_MS,
        transaction_status=0,
    )
    shell.log.append(transaction_record(ID, value))
    shell.fail_over()
    shell.add((7, LAST_EPOCH - 2), T0)
    assert shell.keep() == TransactionKept(ErrorCode.NONE, 7, LAST_EPOCH - 1, 7, LAST_EPOCH - 2)
    assert shell.keep() == TransactionKept(ErrorCode.NONE, 1001, 0, 7, LAST_EPOCH - 2)
    shell.fail_over()
    assert shell.add((7, LAST_EPOCH - 2), T0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    after = shell.end((1001, 0), commit=commit)
    assert after == (0, 1001, 1)
    (markers,) = shell.write_markers()
    assert (markers.producer_id, markers.producer_epoch) == (7, LAST_EPOCH - 1)
    assert shell.end((1001, 0), commit=commit) == after
    assert shell.add(after, T0) == ErrorCode.NONE


def test_a_producer_without_two_phase_commit_keeps_a_transaction_and_not_its_timeout() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0)
    assert shell.keep(is_two_phase=False) == TransactionKept(ErrorCode.NONE, 1001, 1, 1001, 0)
    shell.pass_time(60_001)
    assert shell.state() == "PrepareAbort"


def test_a_prepared_transaction_does_not_get_a_timeout_from_the_next_producer() -> None:
    shell = two_phase()
    opened(shell)
    shell.keep(is_two_phase=False)
    shell.pass_time(DAY_MS)
    assert shell.state() == "Ongoing"


def test_it_is_described_and_listed_as_an_open_transaction() -> None:
    shell = two_phase()
    opened(shell)
    shell.keep()
    described = shell.machine.describe(ID)
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", NO_TIMEOUT_MS)
    assert (described.producer_id, described.producer_epoch) == (1001, 0)
    (listed,) = shell.machine.list(ListTransactionsRequest(state_filters=["Ongoing"]), shell.now_ms)
    assert listed.transactional_id == ID
