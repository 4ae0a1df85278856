"""Groups over TCP, in every shape that the versions have (GRP-1, GRP-4, GRP-7)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.integration.group_members import (
    GENERATIONS,
    SETTINGS,
    Versions,
    formed,
    joined,
    leader_of,
    members,
    offset_of,
    synced,
)
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from ottla.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("groups") / "data", SETTINGS) as broker:
        with Peer(broker.port) as peer:
            peer.ask(ApiKey.FIND_COORDINATOR, 0, FindCoordinatorRequest("any"))
        yield broker


@pytest.fixture
def group() -> str:
    return f"group-{uuid4()}"


# Members


@pytest.mark.parametrize("versions", GENERATIONS, ids=lambda versions: f"v{versions.join}")
def test_a_group_forms_shares_and_shares_again(served: BrokerThread, group: str, versions: Versions) -> None:
    with members(served.port, group, 3, versions) as (first, second, third):
        answers = joined([first, second])
        assert [answer.error_code for answer in answers] == [0, 0]
        assert [answer.generation_id for answer in answers] == [1, 1]
        leader = leader_of([first, second], answers)
        follower = second if leader is first else first
        assert sorted(len(answer.members) for answer in answers) == [0, 2]
        assert synced([first, second], leader) == [first.member_id.encode(), second.member_id.encode()]
        assert first.heartbeat() == second.heartbeat() == 0

        if versions.needs_id_first:
            third.ask_for_id()
        third.send_join()
        wait_until(lambda: leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the third one is heard of")
        assert follower.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        for member in (leader, follower):
            member.send_join()
        answers = [member.receive_join() for member in (leader, follower, third)]
        assert [answer.generation_id for answer in answers] == [2, 2, 2]
        synced([first, second, third], leader)

        assert third.leave() == 0
        assert third.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert first.heartbeat() == second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        for member in (first, second):
            member.send_join()
        answers = [member.receive_join() for member in (first, second)]
        assert [answer.generation_id for answer in answers] == [3, 3]
        synced([first, second], leader_of([first, second], answers))


def test_members_of_all_versions_are_one_group(served: BrokerThread, group: str) -> None:
    with contextlib.ExitStack() as stack:
        mixed = [stack.enter_context(members(served.port, group, 1, versions))[0] for versions in GENERATIONS]
        formed(mixed)
        assert [member.heartbeat() for member in mixed] == [0] * len(mixed)


def test_a_static_member_that_comes_back_disturbs_nobody_and_fences_its_former_self(
    served: BrokerThread, group: str
) -> None:
    with (
        members(served.port, group, 2, static=True) as (first, second),
        members(served.port, group, 1, static=True) as (again,),
    ):
        formed([first, second])
        again.send_join()
        answer = again.receive_join()
        assert (answer.error_code, answer.generation_id) == (0, first.generation)
        again.send_sync()
        assert bytes(again.receive_sync().assignment) == first.member_id.encode()
        assert second.heartbeat() == 0
        assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert again.heartbeat() == 0


def test_who_is_not_of_this_generation_is_told_so(
    served: BrokerThread, peer: Peer, group: str, topic: str
) -> None:
    create_topic(peer, topic)
    with members(served.port, group, 1) as (member,):
        formed([member])
        assert member.commit(topic, 5) == 0
        member.generation -= 1
        assert member.heartbeat() == ErrorCode.ILLEGAL_GENERATION
        assert member.commit(topic, 6) == ErrorCode.ILLEGAL_GENERATION
        member.send_sync()
        assert member.receive_sync().error_code == ErrorCode.ILLEGAL_GENERATION
        member.generation += 1
        member.member_id = "somebody else"
        assert member.commit(topic, 7) == ErrorCode.UNKNOWN_MEMBER_ID
        assert offset_of(peer, group, topic) == 5


@pytest.mark.parametrize("versions", GENERATIONS, ids=lambda versions: f"v{versions.join}")
def test_a_group_without_a_name_is_refused(served: BrokerThread, versions: Versions) -> None:
    with members(served.port, "", 1, versions) as (member,):
        member.send_join()
        assert member.receive_join().error_code == ErrorCode.INVALID_GROUP_ID
        assert member.heartbeat() == ErrorCode.INVALID_GROUP_ID
        assert member.leave() == ErrorCode.INVALID_GROUP_ID


def test_a_member_whose_connection_breaks_while_it_waits_can_come_back(
    served: BrokerThread, group: str
) -> None:
    with members(served.port, group, 2, static=True) as (first, second):
        first.send_join()
        first.peer.socket.close()
        first.peer = Peer(served.port)
        formed([first, second])
        assert first.heartbeat() == second.heartbeat() == 0


@pytest.mark.alone
def test_a_rebalance_of_a_hundred_members_ends_within_a_second_of_the_last_join(
    served: BrokerThread, group: str
) -> None:
    with members(served.port, group, 100) as crowd:
        leader = formed(crowd)
        *others, last = [member for member in crowd if member is not leader]
        leader.send_join()
        wait_until(lambda: last.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the rebalance begins")
        for member in others:
            member.send_join()
        begun = time.monotonic()
        last.send_join()
        answers = [member.receive_join() for member in crowd]
        assert {answer.generation_id for answer in answers} == {2}
        synced(crowd, leader_of(crowd, answers))
        assert time.monotonic() - begun < 1.0


# Finding and administrating


@pytest.mark.parametrize("version", range(4))
def test_one_coordinator_is_found(served: BrokerThread, peer: Peer, group: str, version: int) -> None:
    found = peer.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(group))
    assert (found.error_code, found.node_id, found.port) == (0, 1, served.port)
    assert found.host


@pytest.mark.parametrize("version", range(4, 7))
def test_several_coordinators_are_found_at_once(
    served: BrokerThread, peer: Peer, group: str, version: int
) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[group, "other", ""])
    found = peer.ask(ApiKey.FIND_COORDINATOR, version, request).coordinators
    assert [(one.key, one.error_code, one.port) for one in found] == [
        (group, 0, served.port),
        ("other", 0, served.port),
        ("", 0, served.port),
    ]
    assert peer.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest()).coordinators == []


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (77, ErrorCode.INVALID_REQUEST),
    ],
)
def test_coordinators_of_other_kinds_are_refused_in_words(
    peer: Peer, version: int, key_type: int, error: ErrorCode
) -> None:
    request = FindCoordinatorRequest("key", key_type, ["key"])
    answer = peer.ask(ApiKey.FIND_COORDINATOR, version, request)
    found = answer.coordinators[0] if version >= 4 else answer
    assert found.error_code == error
    assert found.error_message


def test_groups_are_listed_described_and_deleted(
    served: BrokerThread, peer: Peer, group: str, topic: str
) -> None:
    create_topic(peer, topic)
    delete = DeleteGroupsRequest([group, "nobody"])
    with members(served.port, group, 2) as some:
        formed(some)
        assert some[0].commit(topic, 5) == 0
        listed = peer.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states_filter=["stable"])).groups
        assert group in [one.group_id for one in listed]
        described = peer.ask(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group, "nobody"])).groups
        assert [(one.group_id, one.group_state, one.error_code) for one in described] == [
            (group, "Stable", 0),
            ("nobody", "Dead", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert {one.client_host for one in described[0].members} == {"/127.0.0.1"}
        results = peer.ask(ApiKey.DELETE_GROUPS, 2, delete).results
        assert [one.error_code for one in results] == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
        assert [member.leave() for member in some] == [0, 0]
    forget = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])])
    assert peer.ask(ApiKey.OFFSET_DELETE, 0, forget).error_code == 0
    assert offset_of(peer, group, topic) == -1
    assert peer.ask(ApiKey.DELETE_GROUPS, 2, delete).results[0].error_code == 0
    described = peer.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group])).groups
    assert (described[0].group_state, described[0].error_code) == ("Dead", 0)
