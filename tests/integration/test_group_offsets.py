"""Committed offsets over TCP, in every shape that the versions have, and over the end of a process
(GRP-3).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from tests.integration.group_members import (
    SETTINGS,
    commit_request,
    errors_of,
    fetched,
    formed,
    members,
    offset_of,
)
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic

from ottla.errors import ErrorCode
from ottla.localcluster.broker_process import running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.group_admin import DeleteGroupsRequest
from ottla.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
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


@pytest.mark.parametrize("version", range(2, 10))
def test_what_any_version_commits_any_version_fetches(
    peer: Peer, group: str, topic: str, version: int
) -> None:
    create_topic(peer, topic, 2)
    request = commit_request(group, topic, {0: 70 + version, 1: 5}, metadata="note")
    assert errors_of(peer.ask(ApiKey.OFFSET_COMMIT, version, request)) == [0, 0]
    for fetch_version in range(1, 10):
        (found,) = fetched(peer, group, topic, fetch_version, [0, 1])
        assert [one.committed_offset for one in found.partitions] == [70 + version, 5]
        assert [one.metadata for one in found.partitions] == ["note", "note"]
        knows_epoch = version >= 6 and fetch_version >= 5
        assert found.partitions[0].committed_leader_epoch == (3 if knows_epoch else -1)


@pytest.mark.parametrize("version", range(2, 10))
def test_without_topics_all_there_are_come(peer: Peer, group: str, topic: str, version: int) -> None:
    create_topic(peer, topic, 3)
    peer.ask(ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, {2: 5}))
    (found,) = fetched(peer, group, None, version)
    assert (found.name, [one.partition_index for one in found.partitions]) == (topic, [2])


@pytest.mark.parametrize("version", range(1, 10))
def test_without_an_offset_the_answer_is_minus_one_and_no_error(
    peer: Peer, group: str, topic: str, version: int
) -> None:
    (found,) = fetched(peer, group, topic, version)
    assert [(one.committed_offset, one.error_code) for one in found.partitions] == [(-1, 0)]


def test_topics_by_id(peer: Peer, group: str, topic: str) -> None:
    topic_id = create_topic(peer, topic, 2)
    unknown = uuid4()
    request = commit_request(group, topic_id, {0: 7, 1: 8, 2: 9})
    request.topics += commit_request(group, unknown, {0: 1}).topics
    answer: OffsetCommitResponse = peer.ask(ApiKey.OFFSET_COMMIT, 10, request)
    assert {one.topic_id: [p.error_code for p in one.partitions] for one in answer.topics} == {
        topic_id: [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        unknown: [ErrorCode.UNKNOWN_TOPIC_ID],
    }
    assert offset_of(peer, group, topic) == 7

    wanted = OffsetFetchRequestGroup(
        group,
        topics=[
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0, 1]),
            OffsetFetchRequestTopics(topic_id=unknown, partition_indexes=[0]),
        ],
    )
    (found,) = peer.ask(ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=[wanted])).groups
    assert found.error_code == 0
    assert {
        one.topic_id: [(p.committed_offset, p.error_code) for p in one.partitions] for one in found.topics
    } == {topic_id: [(7, 0), (8, 0)], unknown: [(-1, ErrorCode.UNKNOWN_TOPIC_ID)]}

    every = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    (found,) = peer.ask(ApiKey.OFFSET_FETCH, 10, every).groups
    assert [one.topic_id for one in found.topics] == [topic_id]


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_at_once(peer: Peer, group: str, topic: str, version: int) -> None:
    create_topic(peer, topic, 2)
    names = [f"{group}-{number}" for number in range(10)]
    for number, name in enumerate(names):
        peer.ask(ApiKey.OFFSET_COMMIT, 9, commit_request(name, topic, {0: number, 1: number * 2}))
    one = [OffsetFetchRequestTopics(topic, partition_indexes=[1])]
    wanted = [OffsetFetchRequestGroup(name, topics=one) for name in names]
    wanted += [
        OffsetFetchRequestGroup(names[3], topics=None),
        OffsetFetchRequestGroup("nobody", topics=None),
    ]
    groups = peer.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=wanted)).groups
    assert [found.group_id for found in groups] == [*names, names[3], "nobody"]
    offsets = [[p.committed_offset for t in found.topics for p in t.partitions] for found in groups]
    assert offsets == [*[[number * 2] for number in range(10)], [3, 6], []]
    assert {found.error_code for found in groups} == {0}


@pytest.mark.parametrize("version", [2, 5, 9])
def test_what_does_not_exist_is_refused_and_the_rest_is_kept(
    peer: Peer, group: str, topic: str, version: int
) -> None:
    create_topic(peer, topic, 2)
    request = commit_request(group, topic, {1: 5, 2: 6, -1: 7})
    request.topics += commit_request(group, "no-such-topic", {0: 1, 1: 2}).topics
    answer: OffsetCommitResponse = peer.ask(ApiKey.OFFSET_COMMIT, version, request)
    refused = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {one.name: {p.partition_index: p.error_code for p in one.partitions} for one in answer.topics} == {
        topic: {1: 0, 2: refused, -1: refused},
        "no-such-topic": {0: refused, 1: refused},
    }
    assert len(answer.topics) == 2
    assert offset_of(peer, group, topic, 1) == 5


def test_a_text_that_is_too_long_is_refused(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic)
    request = commit_request(group, topic, {0: 5}, metadata="m" * 4097)
    assert errors_of(peer.ask(ApiKey.OFFSET_COMMIT, 9, request)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    request = commit_request(group, topic, {0: 5}, metadata="m" * 4096)
    assert errors_of(peer.ask(ApiKey.OFFSET_COMMIT, 9, request)) == [0]


def test_offsets_may_be_kept_without_a_name_as_ever(peer: Peer, topic: str) -> None:
    create_topic(peer, topic)
    assert errors_of(peer.ask(ApiKey.OFFSET_COMMIT, 9, commit_request("", topic, {0: 5}))) == [0]
    assert offset_of(peer, "", topic) == 5


def test_a_thousand_commits_that_are_sent_at_once_are_answered_in_order(
    peer: Peer, group: str, topic: str
) -> None:
    create_topic(peer, topic)
    frames = [peer.frame(ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, {0: n})) for n in range(1000)]
    peer.socket.sendall(b"".join(frames))
    answers = [peer.receive(ApiKey.OFFSET_COMMIT, 9) for _ in frames]
    assert [number for number, _ in answers] == list(range(2, 1002))
    assert {error for _, answer in answers for error in errors_of(answer)} == {0}
    assert offset_of(peer, group, topic) == 999


# Restarts


def every_offset(peer: Peer, names: Sequence[str]) -> dict[str, dict[tuple[str, int], int]]:
    wanted = [OffsetFetchRequestGroup(name, topics=None) for name in names]
    groups = peer.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=wanted)).groups
    assert not any(found.error_code for found in groups)
    return {
        found.group_id: {
            (topic.name, one.partition_index): one.committed_offset
            for topic in found.topics
            for one in topic.partitions
        }
        for found in groups
    }


def errors_while_loading(peer: Peer, names: Sequence[str]) -> list[int]:
    wanted = [OffsetFetchRequestGroup(name, topics=None) for name in names]
    answer = peer.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=wanted))
    return [found.error_code for found in answer.groups]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_committed_offsets_and_groups_survive_the_end_of_the_process(tmp_path: Path, ending: str) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    drawn = random.Random(seed)
    names = [f"group-{number}" for number in range(100)]
    with running(start_broker(tmp_path / "data", SETTINGS)) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t", 20)
        peer.ask(ApiKey.FIND_COORDINATOR, 0, FindCoordinatorRequest("any"))
        for _ in range(400):
            offsets = {drawn.randrange(20): drawn.randrange(1 << 40) for _ in range(5)}
            request = commit_request(drawn.choice(names), "t", offsets)
            assert not any(errors_of(peer.ask(ApiKey.OFFSET_COMMIT, 9, request)))
        with members(broker.port, "members", 2) as some:
            formed(some)
            ids = [(member.member_id, member.generation) for member in some]
        before = every_offset(peer, names)
        getattr(broker, ending)()
    with running(start_broker(tmp_path / "data", SETTINGS)) as broker, Peer(broker.port) as peer:
        wait_until(lambda: not any(errors_while_loading(peer, [*names, "members"])), "all is loaded")
        assert every_offset(peer, names) == before, f"seed {seed}"
        with members(broker.port, "members", 2) as some:
            for member, (member_id, generation) in zip(some, ids, strict=True):
                member.member_id, member.generation = member_id, generation
            assert [member.heartbeat() for member in some] == [0, 0]


def test_while_a_large_log_is_loaded_no_answer_is_wrong(tmp_path: Path) -> None:
    partitions, rounds = 50, 8
    names = [f"group-{number}" for number in range(100)]
    with running(start_broker(tmp_path / "data", SETTINGS)) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t", partitions)
        peer.ask(ApiKey.FIND_COORDINATOR, 0, FindCoordinatorRequest("any"))
        for last in range(rounds):
            for name in names:
                request = commit_request(
                    name, "t", {index: last * 100 + index for index in range(partitions)}
                )
                assert not any(errors_of(peer.ask(ApiKey.OFFSET_COMMIT, 9, request)))
    expected = {("t", index): last * 100 + index for index in range(partitions)}
    with running(start_broker(tmp_path / "data", SETTINGS)) as broker, Peer(broker.port) as peer:
        seen: set[int] = set()
        left = list(names)
        while left:
            errors = errors_while_loading(peer, left)
            seen.update(errors)
            served_now = [name for name, error in zip(left, errors, strict=True) if not error]
            assert all(found == expected for found in every_offset(peer, served_now).values())
            left = [name for name in left if name not in served_now]
        assert seen <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_offsets_of_what_does_not_exist_cannot_be_deleted(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic, 2)
    assert errors_of(peer.ask(ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, {0: 7, 1: 8}))) == [0, 0]
    wanted = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in (0, 5)]),
        OffsetDeleteRequestTopic(f"no-{topic}", [OffsetDeleteRequestPartition(0)]),
    ]
    answer = peer.ask(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, wanted))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    told = {(one.name, p.partition_index): p.error_code for one in answer.topics for p in one.partitions}
    assert told == {(topic, 0): 0, (topic, 5): unknown, (f"no-{topic}", 0): unknown}
    (found,) = fetched(peer, group, topic, 9, [0, 1])
    assert [one.committed_offset for one in found.partitions] == [-1, 8]


def test_a_group_that_is_named_twice_is_deleted_once(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic)
    peer.ask(ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, {0: 7}))
    answer = peer.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group, group]))
    assert [(one.group_id, one.error_code) for one in answer.results] == [(group, 0)]
