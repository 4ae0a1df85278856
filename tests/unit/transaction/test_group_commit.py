"""Several transactions that are committed by one decision, or not at all (EOS-1, PIPE-3)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.transaction.shell import T0, T1, Shell

from ottla.errors import ErrorCode
from ottla.transaction.commands import CommitTogether, Context, EndTransaction, GroupAnswer
from ottla.transaction.metadata import LAST_EPOCH
from ottla.transaction.records import TransactionLogValue, transaction_record

IDS = ("sink", "sink/0", "sink/1")
DONE = GroupAnswer(ErrorCode.NONE)


def opened(shell: Shell) -> dict[str, Any]:
    """A transaction of each id."""
    identities = {each: shell.init(each) for each in IDS}
    for each, identity in identities.items():
        assert shell.add(identity, T0 if each == "sink/0" else T1, of=each) == ErrorCode.NONE
    return identities


def together(identities: dict[str, Any]) -> CommitTogether:
    ends = [EndTransaction(each, found[-2], found[-1], True, 2) for each, found in identities.items()]
    return CommitTogether(tuple(ends))


def states(shell: Shell) -> list[str]:
    return [shell.state(each) for each in IDS]


def test_all_are_committed_by_one_atomic_decision() -> None:
    shell = Shell()
    command = together(opened(shell))
    decision = shell.machine.command(command, Context(shell.now_ms, 2))
    assert decision.is_atomic
    assert len(decision.records) == len(IDS)
    assert shell.ask(command) == DONE
    assert states(shell) == ["PrepareCommit"] * 3
    assert {each.transactional_id: each.is_commit for each in shell.write_markers()} == dict.fromkeys(
        IDS, True
    )
    assert states(shell) == ["CompleteCommit"] * 3


def test_a_coordinator_that_crashes_before_the_append_has_committed_nothing() -> None:
    shell = Shell()
    command = together(opened(shell))
    shell.is_writable = False
    shell.ask(command)
    shell.fail_over()
    assert states(shell) == ["Ongoing"] * 3
    assert shell.unsent == []
    shell.is_writable = True
    assert shell.ask(command) == DONE


def test_a_coordinator_that_crashes_after_the_append_has_committed_all() -> None:
    shell = Shell()
    command = together(opened(shell))
    shell.ask(command)
    shell.unsent.clear()
    shell.fail_over()
    assert states(shell) == ["PrepareCommit"] * 3
    assert shell.ask(command).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(shell.write_markers()) == 3
    assert shell.ask(command) == DONE, "the answer was lost, and the request is repeated"
    assert states(shell) == ["CompleteCommit"] * 3


def test_a_repeated_request_waits_until_all_markers_are_written() -> None:
    shell = Shell()
    command = together(opened(shell))
    shell.ask(command)
    first, *rest = shell.unsent
    shell.mark(first, first.partitions)
    assert shell.ask(command).error == ErrorCode.CONCURRENT_TRANSACTIONS
    for markers in rest:
        shell.mark(markers, markers.partitions)
    written = len(shell.log)
    assert shell.ask(command) == DONE
    assert len(shell.log) == written


@pytest.mark.parametrize("fenced", IDS)
def test_one_fenced_producer_keeps_all_from_being_committed(fenced: str) -> None:
    shell = Shell()
    identities = opened(shell)
    shell.init(fenced)  # aborts the transaction
    shell.write_markers()
    shell.init(fenced)
    written = len(shell.log)
    assert shell.ask(together(identities)) == GroupAnswer(ErrorCode.PRODUCER_FENCED, fenced)
    assert len(shell.log) == written
    assert [shell.state(each) for each in IDS if each != fenced] == ["Ongoing"] * 2


def test_a_transaction_that_timed_out_keeps_all_from_being_committed() -> None:
    shell = Shell()
    identities = {each: shell.init(each, timeout_ms=1000 if each == "sink/1" else 60_000) for each in IDS}
    for each, identity in identities.items():
        shell.add(identity, T0, of=each)
    shell.pass_time(2000)
    shell.write_markers()
    assert shell.ask(together(identities)) == GroupAnswer(ErrorCode.INVALID_TXN_STATE, "sink/1")
    assert states(shell) == ["Ongoing", "Ongoing", "CompleteAbort"]


def test_what_is_not_open_is_not_committed() -> None:
    shell = Shell()
    identities = opened(shell) | {"other": (0, 7, 0)}
    refused = GroupAnswer(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "other")
    assert shell.ask(together(identities)) == refused
    identities["other"] = shell.init("other")
    assert shell.ask(together(identities)) == GroupAnswer(ErrorCode.INVALID_TXN_STATE, "other")
    assert states(shell) == ["Ongoing"] * 3


def test_each_id_whose_epochs_are_used_up_gets_a_producer_id_of_its_own() -> None:
    shell, identities = Shell(), {}
    for number, each in enumerate(IDS):
        epoch = 5 if each == "sink/1" else LAST_EPOCH - 1
        value = TransactionLogValue(
            producer_id=number, producer_epoch=epoch, transaction_timeout_ms=60_000, transaction_status=0
        )
        shell.log.append(transaction_record(each, value))
        identities[each] = (number, epoch)
    shell.fail_over()
    for each, identity in identities.items():
        assert shell.add(identity, T0, of=each) == ErrorCode.NONE
    assert shell.ask(together(identities)) == DONE
    assert {each.producer_id for each in shell.write_markers()} == {0, 1, 2}
    assert states(shell) == ["CompleteCommit"] * 3
    assert [shell[each].producer_id for each in IDS] == [1001, 1002, 2]
    assert shell.ask(together(identities)) == DONE


def test_senseless_requests_are_refused() -> None:
    shell = Shell()
    identities = opened(shell)
    command = together(identities)
    twice = CommitTogether((*command.transactions, command.transactions[0]))
    assert shell.ask(twice).error == ErrorCode.INVALID_REQUEST
    assert shell.ask(CommitTogether(())).error == ErrorCode.INVALID_REQUEST
    old = Shell(1)
    assert old.ask(command).error == ErrorCode.UNSUPPORTED_VERSION
    assert states(shell) == ["Ongoing"] * 3
