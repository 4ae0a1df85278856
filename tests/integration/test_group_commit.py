"""A writer of many processes commits the transactions of all of them by one decision, over TCP (EOS-1, PIPE-3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer
from tests.integration.test_transactional_offsets import FEW_PARTITIONS, OFTEN

from ottla.blocking import Admin, Consumer, Producer
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.sync.transaction_group import Progress, TransactionGroup
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.transactions import EndTxnRequest, TransactionToEnd

SETTINGS = FEW_PARTITIONS | OFTEN
MEMBERS = ("0.0", "1.0", "2.0")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("group-commit") / "data", SETTINGS) as broker:
        yield broker


def address(served: BrokerThread) -> str:
    return f"localhost:{served.port}"


def group_of(served: BrokerThread, name: str) -> TransactionGroup:
    return TransactionGroup(address(served), name, client_id="test")


class _LeftOpenError(Exception):
    """Leaves the block of a transaction, which stays open."""


def write(
    served: BrokerThread, name: str, member: str, value: str, transactional_id: str = ""
) -> MemberTransaction:
    """Write one record to the topic `name`, and leave the transaction open."""
    with group_of(served, name) as group:
        transactional_id = transactional_id or group.member_id(member)
    with (
        Producer(address(served), transactional_id=transactional_id) as producer,
        contextlib.suppress(_LeftOpenError),
        producer.transaction(),
    ):
        producer.send(name, value, partition=0)
        identity = producer.hand_over()
        raise _LeftOpenError
    return MemberTransaction(transactional_id, *identity)


def committed(served: BrokerThread, topic: str, least: int) -> list[str]:
    """The committed values, once there are as many as wanted."""
    values: list[str] = []
    with Consumer(
        address(served), isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])

        def is_read() -> bool:
            values.extend(bytes(each.value or b"").decode() for each in consumer.poll(timeout_ms=100))
            return len(values) >= least

        wait_until(is_read, f"{least} committed records")
    return values


def commit(group: TransactionGroup, number: int, topic: str, members: list[MemberTransaction]) -> None:
    group.commit(group.take_over(), Progress(number, "test"), {topic}, members)


def test_all_members_and_the_progress_are_committed_together(served: BrokerThread) -> None:
    name = "together"
    for number in range(2):
        members = [write(served, name, each, f"{number}:{each}") for each in MEMBERS]
        with group_of(served, name) as group:
            assert group.is_supported()
            before = group.progress()
            assert (before.number if before else -1) == number - 1
            commit(group, number, name, members)
            assert group.progress() == Progress(number, "test")
            assert group.end_others() == []
    assert sorted(committed(served, name, 6)) == sorted(f"{n}:{each}" for n in range(2) for each in MEMBERS)


def test_a_commit_whose_answer_was_lost_is_found_done(served: BrokerThread) -> None:
    name = "answer-lost"
    members = [write(served, name, each, each) for each in MEMBERS]
    with group_of(served, name) as group:
        own = group.take_over()
        for _ in range(2):
            group.commit(own, Progress(0, "test"), {name}, members)
    assert sorted(committed(served, name, 3)) == sorted(MEMBERS)


def test_a_process_that_took_the_name_over_earlier_commits_nothing(served: BrokerThread) -> None:
    name = "taken-over"
    members = [write(served, name, each, each) for each in MEMBERS]
    with group_of(served, name) as old, group_of(served, name) as new:
        own = old.take_over()
        new.take_over()
        with pytest.raises(KafkaError):
            old.commit(own, Progress(0, "test"), {name}, members)
        assert new.progress() is None
        commit(new, 0, name, members)
    assert sorted(committed(served, name, 3)) == sorted(MEMBERS)


def test_a_member_that_began_again_keeps_all_from_being_committed(served: BrokerThread) -> None:
    name = "began-again"
    members = [write(served, name, each, f"old {each}") for each in MEMBERS]
    again = write(served, name, "1.0", "new 1.0", members[1].transactional_id)
    with group_of(served, name) as group:
        with pytest.raises(KafkaError, match=f"transactional id {name}/1.0/"):
            commit(group, 0, name, members)
        assert group.progress() is None
        commit(group, 0, name, [members[0], again, members[2]])
    assert sorted(committed(served, name, 3)) == ["new 1.0", "old 0.0", "old 2.0"]


def test_an_open_transaction_is_not_begun_again_by_another_attempt(served: BrokerThread) -> None:
    name = "two-attempts"
    first, second = (write(served, name, "0.0", each) for each in ("first", "second"))
    assert first.transactional_id != second.transactional_id
    with group_of(served, name) as group:
        commit(group, 0, name, [first])
        assert group.end_others() == [second.transactional_id]
        assert group.member_id("0.0") == first.transactional_id
    assert committed(served, name, 1) == ["first"]


def test_what_other_attempts_have_left_is_ended(served: BrokerThread) -> None:
    name = "left-open"
    counted = write(served, name, "0.0", "counted")
    left = write(served, name, "0.1", "left")
    other = write(served, f"{name}-too", "0.0", "of another writer")
    with group_of(served, name) as group:
        commit(group, 0, name, [counted])
        assert group.end_others() == [left.transactional_id]
        assert group.end_others() == []
    with Admin(address(served)) as admin:
        states = {each.transactional_id: each.state for each in admin.list_transactions(states=["Ongoing"])}
    assert states == {other.transactional_id: "Ongoing"}
    assert committed(served, name, 1) == ["counted"]
    with (
        group_of(served, name) as group,
        pytest.raises(KafkaError, match=r"transactional id left-open/0\.1/"),
    ):
        commit(group, 1, name, [left])


def test_members_are_committed_without_a_progress(served: BrokerThread) -> None:
    name = "no-progress"
    members = [write(served, name, each, each) for each in MEMBERS]
    with group_of(served, name) as group:
        group.commit_members(members)
        assert group.progress() is None
    assert sorted(committed(served, name, 3)) == sorted(MEMBERS)


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_crash_of_the_coordinator_leaves_all_committed_or_none(tmp_path: Path, is_decided: bool) -> None:
    name = "crash"
    with broker_thread(tmp_path / "data", SETTINGS) as served:
        members = [write(served, name, each, each) for each in MEMBERS]
        if is_decided:
            with group_of(served, name) as group:
                commit(group, 0, name, members)
    with broker_thread(tmp_path / "data", SETTINGS) as served, group_of(served, name) as group:
        assert group.progress() == (Progress(0, "test") if is_decided else None)
        if not is_decided:
            commit(group, 0, name, members)
        assert sorted(committed(served, name, 3)) == sorted(MEMBERS)


def end(peer: Peer, request: EndTxnRequest) -> ErrorCode:
    return ErrorCode(peer.ask(ApiKey.END_TXN, 5, request).error_code)


def test_requests_that_cannot_be_carried_out_as_one_are_refused(served: BrokerThread) -> None:
    name = "refused"
    members = [write(served, name, each, each) for each in MEMBERS]
    named = [TransactionToEnd(*each) for each in members]
    elsewhere = (TransactionToEnd(f"elsewhere-{number}", 1, 0) for number in range(20))
    with Peer(served.port) as peer:
        # As a broker answers that does not know the field.
        assert end(peer, EndTxnRequest("", -1, -1, True)) == ErrorCode.INVALID_REQUEST
        refused = (
            EndTxnRequest("", -1, -1, False, ottla_transactions=named),
            EndTxnRequest(name, -1, -1, True, ottla_transactions=named),
            EndTxnRequest("", -1, -1, True, ottla_transactions=[*named, *elsewhere]),
            EndTxnRequest("", -1, -1, True, ottla_transactions=[*named, named[0]]),
        )
        assert [end(peer, each) for each in refused] == [ErrorCode.INVALID_REQUEST] * len(refused)
    with group_of(served, name) as group:
        assert sorted(group.end_others()) == sorted(each.transactional_id for each in members)
