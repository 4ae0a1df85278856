"""The transaction coordinator: one transactional id after the other, in both transaction versions (EOS-1)."""

from __future__ import annotations

import pytest
from tests.unit.transaction.shell import ID, T0, T1, Shell

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.protocol.codec import DecodeError
from ottla.protocol.messages.transaction_admin import ListTransactionsRequest
from ottla.transaction.commands import ExpireIds, MarkersWritten, ProducerAnswer
from ottla.transaction.metadata import LAST_EPOCH
from ottla.transaction.records import TransactionLogValue, transaction_record

FENCED = ProducerAnswer(ErrorCode.PRODUCER_FENCED)
AGAIN = ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
INVALID = ProducerAnswer(ErrorCode.INVALID_TXN_STATE)


def test_a_new_transactional_id_gets_a_new_producer_id() -> None:
    shell = Shell()
    assert shell.init() == (0, 1001, 0)
    assert shell.init("other") == (0, 1002, 0)
    assert shell.state() == "Empty"


def test_every_initialisation_fences_the_producer_before() -> None:
    shell = Shell()
    first = shell.init()
    second = shell.init()
    assert second == (0, 1001, 1)
    assert shell.add(first, T0) == ErrorCode.PRODUCER_FENCED
    assert shell.end(first, commit=False, version=1) == FENCED
    assert shell.add(second, T0) == ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_decided_marked_and_complete(version: int, commit: bool) -> None:
    shell = Shell(version)
    producer = shell.init()
    assert shell.add(producer, T0, version=version) == ErrorCode.NONE
    assert shell.add(producer, T1, version=version) == ErrorCode.NONE
    assert shell.state() == "Ongoing"
    ended = shell.end(producer, commit=commit, version=version)
    assert ended == ((0, 1001, 1) if version == 2 else (0, -1, -1))
    assert shell.state() == ("PrepareCommit" if commit else "PrepareAbort")
    (markers,) = shell.write_markers()
    assert markers.partitions == {T0, T1}
    assert (markers.is_commit, markers.producer_epoch) == (commit, 1 if version == 2 else 0)
    assert shell.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert not shell[ID].partitions
    assert shell.add(ended if version == 2 else producer, T0, version=version) == ErrorCode.NONE


def test_partitions_that_are_in_the_transaction_need_no_record() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0, T1)
    written = len(shell.log)
    assert shell.add(producer, T1) == ErrorCode.NONE
    assert len(shell.log) == written


def test_partitions_are_verified() -> None:
    shell = Shell(1)
    producer = shell.init()
    shell.add(producer, T0, version=0)
    assert shell.verify(producer, T0, T1) == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert shell.verify((7, 0), T0) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert shell.verify((1001, 9), T0) == {T0: ErrorCode.PRODUCER_FENCED}
    assert shell.verify(producer, T0, of="none") == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    shell.end(producer, commit=True, version=1)
    assert shell.verify(producer, T0) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_while_markers_are_missing_the_producer_waits() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0)
    after = shell.end(producer, commit=True)
    assert shell.add(after, T1) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert shell.init() == AGAIN
    assert shell.end(producer, commit=True) == AGAIN
    assert shell.add(producer, T1) == ErrorCode.PRODUCER_FENCED


def test_an_initialisation_over_an_open_transaction_aborts_it() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0)
    assert shell.init() == AGAIN
    (markers,) = shell.write_markers()
    assert (markers.is_commit, markers.producer_epoch) == (False, 1)
    assert shell.init() == (0, 1001, 2)
    assert shell.end(producer, commit=True) == FENCED


def test_before_epochs_per_transaction_an_end_is_answered_again_under_the_same_epoch() -> None:
    shell = Shell(1)
    producer = shell.init()
    assert shell.end(producer, commit=False, version=1) == INVALID
    shell.add(producer, T0, version=0)
    assert shell.end(producer, commit=True, version=1).error == ErrorCode.NONE
    assert shell.end(producer, commit=True, version=1) == AGAIN
    assert shell.end(producer, commit=False, version=1) == INVALID
    shell.write_markers()
    assert shell.end(producer, commit=True, version=1).error == ErrorCode.NONE
    assert shell.end(producer, commit=False, version=1) == INVALID


@pytest.mark.parametrize("was_commit", [True, False])
def test_the_table_of_ends_under_version_2(was_commit: bool) -> None:
    shell = Shell()
    first = shell.init()
    assert shell.end(first, commit=True) == INVALID
    aborted_nothing = shell.end(first, commit=False)
    assert aborted_nothing == (0, 1001, 1)
    assert shell.state() == "CompleteAbort"
    assert not shell.unsent
    shell.add(aborted_nothing, T0)
    assert shell.end(first, commit=False) == FENCED
    ended = shell.end(aborted_nothing, commit=was_commit)
    assert ended == (0, 1001, 2)
    shell.write_markers()
    assert shell.end(aborted_nothing, commit=was_commit) == ended
    assert shell.end(aborted_nothing, commit=not was_commit) == INVALID
    assert shell.end(ended, commit=True) == INVALID
    assert shell.end(ended, commit=False) == (0, 1001, 3)


def test_a_late_end_of_version_1_does_not_answer_for_another_producer() -> None:
    shell = Shell()
    old = shell.init()
    new = shell.init()
    shell.add(new, T0, version=0)
    shell.end(new, commit=True, version=1)
    shell.write_markers()
    assert shell.end(old, commit=True, version=2) == FENCED


def exhausted(version: int) -> Shell:
    """A producer that has the last epoch that a producer may have, and an open transaction."""
    shell = Shell(version)
    value = TransactionLogValue(
        producer_id=7, producer_epoch=LAST_EPOCH - 1, transaction_timeout_ms=60_000, transaction_status=0
    )
    shell.log.append(transaction_record(ID, value, min(version, 1)))
    shell.fail_over()
    assert shell.add((7, LAST_EPOCH - 1), T0, version=version) == ErrorCode.NONE
    return shell


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    shell = exhausted(2)
    last = (7, LAST_EPOCH - 1)
    ended = shell.end(last, commit=True)
    assert ended == (0, 1001, 0)
    assert shell.add(ended, T0) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert shell.end(ended, commit=False) == AGAIN
    shell.fail_over()
    (markers,) = shell.write_markers()
    assert markers[1:3] == (7, LAST_EPOCH)
    assert shell.end(last, commit=True) == ended
    assert shell.add(ended, T0) == ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_with_the_last_epoch_can_be_aborted_by_the_coordinator(version: int) -> None:
    shell = exhausted(version)
    shell.pass_time(60_001)
    (markers,) = shell.write_markers()
    assert markers[1:3] == (7, LAST_EPOCH)
    given = shell.init()
    assert given.error == ErrorCode.NONE
    assert given.producer_id != 7


def test_the_epoch_that_only_fencing_has_is_recovered_from() -> None:
    shell = Shell(2)
    value = TransactionLogValue(
        producer_id=7, producer_epoch=LAST_EPOCH, transaction_timeout_ms=60_000, transaction_status=0
    )
    shell.log.append(transaction_record(ID, value))
    shell.fail_over()
    shell.add((7, LAST_EPOCH), T0)
    assert shell.init() == AGAIN
    shell.write_markers()
    assert shell.init()[1:] == (1001, 1)


def test_a_producer_that_goes_on_after_an_error_names_its_identity() -> None:
    shell = Shell()
    first = shell.init()
    second = shell.init(ID, *first[1:])
    assert second == (0, 1001, 1)
    shell.fail_over()
    assert shell.init(ID, *first[1:]) == second
    third = shell.init()
    assert third == (0, 1001, 2)
    assert shell.init(ID, *first[1:]) == shell.init(ID, *second[1:]) == FENCED
    assert shell.init(ID, 99, 0) == FENCED


def test_a_fenced_producer_does_not_abort_the_transaction_of_the_one_that_fenced_it() -> None:
    shell = Shell()
    first = shell.init()
    second = shell.init()
    shell.add(second, T0)
    assert shell.init(ID, *first[1:]) == FENCED
    assert shell.state() == "Ongoing"


def test_a_producer_whose_id_is_forgotten_begins_anew() -> None:
    shell = Shell()
    assert shell.init(ID, 5, 3) == (0, 1001, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_times_out_from_its_first_partition_on(version: int) -> None:
    shell = Shell(version)
    producer = shell.init(timeout_ms=10_000)
    shell.pass_time(1_000_000)
    assert shell.state() == "Empty"
    shell.add(producer, T0, version=version)
    shell.pass_time(9_000)
    shell.add(producer, T1, version=version)
    shell.pass_time(1_001)
    assert shell.state() == "PrepareAbort"
    (markers,) = shell.write_markers()
    assert (markers.is_commit, markers.producer_epoch) == (False, 1)
    assert shell.add(producer, T0, version=version) == ErrorCode.PRODUCER_FENCED
    assert shell.end(producer, commit=True, version=version) in (FENCED, INVALID)


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_begins_after_the_look_at_the_time_is_not_aborted(version: int) -> None:
    """Before epochs per transaction both have the same epoch."""
    shell = Shell(version)
    producer = shell.init(timeout_ms=10_000)
    shell.add(producer, T0, version=version)
    (late,) = shell.machine.timed_out(shell.now_ms + 10_001)
    shell.now_ms += 10_001
    after = shell.end(producer, commit=True, version=version)
    shell.write_markers()
    shell.add(after if version == 2 else producer, T0, version=version)
    shell.ask(late)
    assert shell.state() == "Ongoing"


def test_the_abort_of_a_former_producers_transaction_does_not_hit_the_next_producers() -> None:
    shell = Shell()
    former = shell.init(timeout_ms=10_000)
    shell.add(former, T0)
    shell.now_ms += 10_001
    (late,) = shell.machine.timed_out(shell.now_ms)
    shell.init()
    shell.write_markers()
    shell.add(shell.init(timeout_ms=10_000), T0)
    shell.now_ms += 10_001
    shell.ask(late)
    assert shell.state() == "Ongoing"


def test_the_next_coordinator_sends_all_markers_again() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0, T1)
    shell.end(producer, commit=True)
    (markers,) = shell.unsent
    shell.mark(markers, frozenset({T0}))
    assert shell.machine.describe(ID).topics[0].partitions == [1]
    shell.fail_over()
    assert shell.unsent == [markers]
    shell.write_markers()
    assert shell.state() == "CompleteCommit"
    shell.fail_over()
    assert shell.unsent == []


def test_markers_of_an_earlier_transaction_complete_nothing() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0)
    after = shell.end(producer, commit=True)
    (late,) = shell.write_markers()
    shell.add(after, T0)
    shell.end(after, commit=False)
    shell.mark(late, late.partitions)
    assert shell.state() == "PrepareAbort"
    shell.ask(MarkersWritten("none", 1, 1, frozenset({T0})))


def test_what_cannot_be_written_did_not_happen() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T0)
    shell.is_writable = False
    assert shell.end(producer, commit=True).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.state() == "Ongoing"
    assert not shell.unsent
    shell.is_writable = True
    assert shell.end(producer, commit=True).error == ErrorCode.NONE


def test_ids_that_are_not_used_are_forgotten() -> None:
    shell = Shell(settings=TransactionConfig(id_expiration_ms=1000))
    shell.init("idle")
    producer = shell.init()
    shell.add(producer, T0)
    shell.now_ms += 1000
    shell.ask(ExpireIds())
    assert list(shell.machine.transactions) == [ID]
    shell.fail_over()
    assert list(shell.machine.transactions) == [ID]


def test_a_timeout_that_is_too_long_and_an_id_that_is_empty_are_refused() -> None:
    shell = Shell()
    assert shell.init(timeout_ms=900_001).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert shell.init(timeout_ms=0).error == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert shell.init("").error == ErrorCode.INVALID_REQUEST
    assert shell.end((1, 1), commit=True, of="").error == ErrorCode.INVALID_REQUEST
    assert shell.end((1, 1), commit=True).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert shell.add((1, 1), T0, of="") == ErrorCode.INVALID_REQUEST
    assert shell.verify((1, 1), T0, of="") == {T0: ErrorCode.INVALID_REQUEST}


def test_under_version_0_records_have_no_tags() -> None:
    shell = Shell(0)
    producer = shell.init()
    shell.add(producer, T0, version=0)
    assert all(record.value is not None and record.value[:2] == b"\0\0" for record in shell.log)
    shell.fail_over()
    assert shell[ID].partitions == {T0}


def test_a_state_without_meaning_is_damage() -> None:
    shell = Shell()
    with pytest.raises(DecodeError):
        shell.machine.replay(*transaction_record(ID, TransactionLogValue(transaction_status=9)))
    shell.machine.replay(*transaction_record(ID, TransactionLogValue(transaction_status=6)))
    assert not shell.machine.transactions


def test_transactions_are_described() -> None:
    shell = Shell()
    producer = shell.init()
    shell.add(producer, T1, T0)
    found = shell.machine.describe(ID)
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (1001, 0)
    assert found.transaction_start_time_ms == shell.now_ms
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", [0, 1])]
    assert shell.machine.describe("none").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert shell.machine.describe("").error_code == ErrorCode.INVALID_REQUEST


def test_transactions_are_listed_by_state_producer_duration_and_pattern() -> None:
    shell = Shell()
    shell.add(shell.init("a"), T0, of="a")
    shell.init("b")

    def ids(**filters: object) -> list[str]:
        found = shell.machine.list(ListTransactionsRequest(**filters), shell.now_ms + 10)  # type: ignore[arg-type]
        return [one.transactional_id for one in found]

    assert ids() == ["a", "b"]
    assert ids(state_filters=["Ongoing"]) == ["a"]
    assert ids(producer_id_filters=[1002]) == ["b"]
    assert ids(duration_filter=100) == ["b"]
    assert ids(transactional_id_pattern="[a]") == ["a"]
    assert ids(transactional_id_pattern="") == ["a", "b"]
