"""Offsets within transactions: who may commit, and which offset is in force after the marker (EOS-3)."""

from __future__ import annotations

import pytest
from tests.unit.group.shell import GROUP, Shell

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.group.coordinator import TopicsDeleted
from ottla.group.decision import Transaction
from ottla.protocol.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest
from ottla.protocol.messages.groups import MemberIdentity
from ottla.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST, SECOND = 4000, 4001
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_decision_names_the_transaction_that_its_records_are_written_within() -> None:
    request = TxnOffsetCommitRequest(
        "txn", GROUP, FIRST, 7, topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition()])]
    )
    _, decision = Shell().decide(request)
    assert decision.transaction == Transaction(FIRST, 7)
    assert len(decision.records) == 1


def test_an_offset_within_a_transaction_counts_when_it_is_committed() -> None:
    shell = Shell()
    shell.commit(5)
    assert shell.commit_within(FIRST, 9) == ErrorCode.NONE
    assert shell.stable_error() == UNSTABLE
    assert shell.committed() == 5, "a reader that does not require stable offsets gets the one in force"

    shell.end_transaction(FIRST)
    assert shell.stable_error() == ErrorCode.NONE
    assert shell.committed() == 9
    assert shell.last_record.metadata == "m"


def test_an_aborted_transactions_offsets_never_count() -> None:
    shell = Shell()
    shell.commit_within(FIRST, 9)
    assert shell.stable_error() == UNSTABLE
    shell.end_transaction(FIRST, is_commit=False)
    assert shell.stable_error() == ErrorCode.NONE
    assert shell.committed() == -1
    assert GROUP not in shell.machine.groups


def test_a_commit_that_came_later_than_the_transactions_stays_in_force() -> None:
    shell = Shell()
    shell.commit_within(FIRST, 9)
    shell.commit(5)
    assert shell.stable_error() == UNSTABLE
    shell.end_transaction(FIRST)
    assert shell.committed() == 5


@pytest.mark.parametrize("order", [(FIRST, SECOND), (SECOND, FIRST)])
def test_the_later_in_the_log_of_two_transactions_wins_whichever_ends_first(order: tuple[int, int]) -> None:
    shell = Shell()
    shell.commit_within(FIRST, 10)
    shell.commit_within(SECOND, 20)
    shell.end_transaction(order[0])
    assert shell.stable_error() == UNSTABLE
    shell.end_transaction(order[1])
    assert shell.committed() == 20
    assert shell.restarted().committed() == 20


def test_a_transaction_that_commits_a_partition_again_replaces_its_offset() -> None:
    shell = Shell()
    shell.commit_within(FIRST, 10)
    shell.commit(15)
    shell.commit_within(FIRST, 20)
    shell.end_transaction(FIRST)
    assert shell.committed() == 20


def test_a_tombstone_clears_what_is_pending() -> None:
    shell = Shell()
    shell.commit(5)
    shell.commit_within(FIRST, 9)
    shell.commit_within(FIRST, 9, partition=1)
    named = OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)])
    assert shell.ask(OffsetDeleteRequest(GROUP, [named])).error_code == 0
    assert [shell.stable_error(partition) for partition in (0, 1)] == [ErrorCode.NONE] * 2
    shell.end_transaction(FIRST)
    assert [shell.committed(partition) for partition in (0, 1)] == [-1, -1]


def test_a_deleted_topic_takes_pending_offsets_along() -> None:
    shell = Shell()
    shell.commit_within(FIRST, 9)
    shell.commit_within(FIRST, 8, topic="other")
    shell.send(TopicsDeleted(frozenset({"t"})))
    shell.end_transaction(FIRST)
    assert (shell.committed(), shell.committed(topic="other")) == (-1, 8)


def test_a_deleted_group_takes_pending_offsets_along() -> None:
    shell = Shell()
    shell.commit(5)
    shell.commit_within(FIRST, 9)
    shell.commit_within(FIRST, 9, partition=1)
    assert shell.ask(DeleteGroupsRequest([GROUP]), 2).results == [DeletableGroupResult(GROUP)]
    assert not shell.machine.groups
    shell.end_transaction(FIRST)
    assert not shell.machine.groups
    assert not shell.restarted().machine.groups


def test_neither_pending_offsets_nor_their_group_expire() -> None:
    retention_ms = 60_000
    settings = GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    shell = Shell(settings)
    shell.commit(5)
    shell.commit(6, partition=1)
    shell.commit_within(FIRST, 9)
    shell.wait(3 * retention_ms)
    assert shell.committed() == 5
    assert shell.committed(1) == -1, "of this partition nothing is pending"
    shell.end_transaction(FIRST)
    shell.wait(2 * retention_ms)
    assert GROUP not in shell.machine.groups


def test_an_offset_that_asks_for_a_retention_time_of_its_own_is_kept_for_that_time() -> None:
    settings = GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    shell = Shell(settings)
    for producer_id, partition, retention_ms in ((FIRST, 0, 2**62), (SECOND, 1, -1)):
        item = TxnOffsetCommitRequestPartition(partition, 9)
        topics = [TxnOffsetCommitRequestTopic("t", [item])]
        shell.ask(
            TxnOffsetCommitRequest(
                "txn", GROUP, producer_id, 0, topics=topics, ottla_retention_time_ms=retention_ms
            )
        )
        shell.end_transaction(producer_id)
    shell.wait(3 * 60_000)
    assert (shell.committed(0), shell.committed(1)) == (9, -1)
    assert shell.restarted().committed(0) == 9


def test_the_log_alone_gives_the_same_pending_offsets() -> None:
    shell = Shell()
    shell.commit(5)
    shell.commit_within(FIRST, 9)
    other = shell.restarted()
    assert other.stable_error() == UNSTABLE
    assert other.committed() == 5
    other.end_transaction(FIRST)
    assert other.committed() == 9


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone() -> None:
    shell = Shell()
    items = [
        TxnOffsetCommitRequestPartition(0, 9, -1, "m" * (shell.settings.offset_metadata_max_bytes + 1)),
        TxnOffsetCommitRequestPartition(1, 9, -1, None),
    ]
    request = TxnOffsetCommitRequest("txn", GROUP, FIRST, 0, topics=[TxnOffsetCommitRequestTopic("t", items)])
    results = [
        TxnOffsetCommitResponsePartition(0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        TxnOffsetCommitResponsePartition(1, ErrorCode.NONE),
    ]
    assert shell.ask(request) == TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("t", results)])
    assert [shell.stable_error(partition) for partition in (0, 1)] == [ErrorCode.NONE, UNSTABLE]


# Who may commit


def test_a_member_commits_in_its_generation_whatever_the_rebalance() -> None:
    shell = Shell()
    first, _ = shell.form(2)
    generation = shell.group.generation
    assert shell.commit_within(FIRST, 9, generation_id=generation, member_id=first) == ErrorCode.NONE
    for stale in (generation - 1, generation + 1, -1):
        error = shell.commit_within(FIRST, 9, generation_id=stale, member_id=first)
        assert error == ErrorCode.ILLEGAL_GENERATION
    shell.send_join(first, topics=("other",))
    assert shell.state() == "PreparingRebalance"
    assert shell.commit_within(FIRST, 9, generation_id=generation, member_id=first) == ErrorCode.NONE


def test_a_member_commits_while_the_leader_assigns() -> None:
    shell = Shell()
    member_id = shell.new_id()
    generation = shell.joined(shell.send_join(member_id)).generation_id
    assert shell.state() == "CompletingRebalance"
    assert shell.commit(9, generation=generation, member_id=member_id) == ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.commit_within(FIRST, 9, generation_id=generation, member_id=member_id) == ErrorCode.NONE


def test_a_strange_member_may_not_commit() -> None:
    shell = Shell()
    shell.form(1)
    generation = shell.group.generation
    error = shell.commit_within(FIRST, 9, generation_id=generation, member_id="who")
    assert error == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.commit_within(FIRST, 9, member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.commit_within(FIRST, 9, group_instance_id="who") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_former_static_member_is_fenced() -> None:
    shell = Shell()
    former = shell.joined(shell.send_join(instance="one")).member_id
    shell.sync(former, 1, {})
    shell.send_join(instance="one")
    error = shell.commit_within(
        FIRST, 9, generation_id=shell.group.generation, member_id=former, group_instance_id="one"
    )
    assert error == ErrorCode.FENCED_INSTANCE_ID


def test_a_producer_that_names_no_member_commits_into_any_group() -> None:
    shell = Shell()
    (member,) = shell.form(1)
    assert shell.commit_within(FIRST, 9, version=2) == ErrorCode.NONE
    assert shell.commit_within(FIRST, 9) == ErrorCode.NONE
    shell.leave(MemberIdentity(member))
    assert shell.commit_within(FIRST, 9, member_id="who") == ErrorCode.NONE
    assert shell.commit_within(FIRST, 9, group="other", member_id="who") == ErrorCode.NONE


def test_a_group_that_is_not_there_has_no_generation() -> None:
    shell = Shell()
    error = shell.commit_within(FIRST, 9, generation_id=1, member_id="m")
    assert error == ErrorCode.ILLEGAL_GENERATION
    assert shell.commit_within(FIRST, 9, group="") == ErrorCode.INVALID_GROUP_ID


def test_a_commit_within_a_transaction_is_no_sign_of_life() -> None:
    shell = Shell()
    (member,) = shell.form(1)
    shell.wait(9_999)
    generation = shell.group.generation
    assert shell.commit_within(FIRST, 9, generation_id=generation, member_id=member) == ErrorCode.NONE
    shell.wait(1)
    assert shell.state() == "Empty"
