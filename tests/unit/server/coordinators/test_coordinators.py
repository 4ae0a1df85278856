"""The coordinators of a whole broker: asked over TCP, looked at from inside."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic, delete_topic, describe_topic, took_s
from tests.integration.troubled_disk import TroubledDisk
from tests.unit.server.group_shards import commit_request, join_request, sync_request, wall_ms

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.coordinator import Coordinator, FindCoordinatorRequest
from ottla.protocol.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from ottla.protocol.messages.groups import HeartbeatRequest, JoinGroupResponse
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.replication.events import Assigned
from ottla.runtime.clock import OsClock
from ottla.server.coordinators import log_reading
from ottla.server.coordinators.java_hash import partition_for

OFFSETS = "__consumer_offsets"
PARTITIONS = 5
SMALL = {"offsets.topic.num.partitions": str(PARTITIONS)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[TroubledDisk]:
    monkeypatch.setattr(log_reading, "_RETRY_S", 0.01)
    troubled = TroubledDisk()
    yield troubled
    troubled.may_sync.set()


@pytest.fixture
def served(disk: TroubledDisk, data: Path) -> Iterator[BrokerThread]:
    with broker_thread(data, SMALL, disk) as broker:
        yield broker


@pytest.fixture
def peer(served: BrokerThread) -> Iterator[Peer]:
    with Peer(served.port) as connected:
        yield connected


def find(peer: Peer, *groups: str) -> list[Coordinator]:
    request = FindCoordinatorRequest(coordinator_keys=list(groups))
    found: list[Coordinator] = peer.ask(ApiKey.FIND_COORDINATOR, 6, request).coordinators
    return found


def commit(peer: Peer, group: str, offset: int, topic: str = "t", partition: int = 0) -> int:
    answer = peer.ask(ApiKey.OFFSET_COMMIT, 9, commit_request(group, {partition: offset}, topic))
    error: int = answer.topics[0].partitions[0].error_code
    return error


def fetch(peer: Peer, group: str, topic: str = "t", partition: int = 0) -> tuple[int, int]:
    """The error of the group, and the offset."""
    wanted = OffsetFetchRequestGroup(
        group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
    )
    found = peer.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[wanted])).groups[0]
    return found.error_code, found.topics[0].partitions[0].committed_offset if found.topics else -1


def config_of(peer: Peer, topic: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic)
    answer = peer.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource]))
    return {entry.name: entry.value for entry in answer.results[0].configs}


def joins_in_the_background(port: int, group: str) -> tuple[threading.Thread, list[JoinGroupResponse]]:
    """A static member that joins and waits for its answer."""
    answers: list[JoinGroupResponse] = []

    def join() -> None:
        with Peer(port) as member:
            answers.append(member.ask(ApiKey.JOIN_GROUP, 9, join_request(group, instance="one")))

    thread = threading.Thread(target=join)
    thread.start()
    return thread, answers


def reads_of_a_load(part: str) -> Callable[[str], bool]:
    """Reads of records on the broker's loop: a load's, not those by which logs are opened before, in another
    thread.
    """

    def is_one(path: str) -> bool:
        return part in path and path.endswith(".log") and threading.current_thread().name == "broker"

    return is_one


def is_waiting(served: BrokerThread, group: str) -> Callable[[], bool]:
    def look() -> bool:
        with Peer(served.port) as peer:
            listed = peer.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups
            return (group, "PreparingRebalance") in [(one.group_id, one.group_state) for one in listed]

    return look


def test_the_first_question_creates_the_topic_as_kafka_has_it(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "data") as broker, Peer(broker.port) as peer:
        assert describe_topic(peer, OFFSETS).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (found,) = find(peer, "g")
        assert (found.error_code, found.port) == (0, broker.port)
        created = describe_topic(peer, OFFSETS)
        assert (len(created.partitions), created.is_internal) == (50, True)
        config = config_of(peer, OFFSETS)
        assert config["cleanup.policy"] == "compact"
        assert config["compression.type"] == "producer"
        assert config["segment.bytes"] == str(100 << 20)


def test_many_first_questions_at_once_create_it_once(served: BrokerThread) -> None:
    peers = [Peer(served.port) for _ in range(20)]
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    for peer in peers:
        peer.send(ApiKey.FIND_COORDINATOR, 6, request)
    answers = [peer.receive(ApiKey.FIND_COORDINATOR, 6)[1].coordinators[0] for peer in peers]
    assert {answer.error_code for answer in answers} == {0}
    for peer in peers:
        peer.socket.close()


@pytest.mark.parametrize("group", ["g", "console-consumer-12345", "polygenelubricants", "групп"])
def test_a_group_lives_in_the_partition_that_javas_hash_names(
    served: BrokerThread, peer: Peer, group: str
) -> None:
    create_topic(peer, "t")
    find(peer, group)
    assert commit(peer, group, 7) == 0
    ends = [served.log(OFFSETS, index).log_end_offset for index in range(PARTITIONS)]
    assert [index for index, end in enumerate(ends) if end] == [partition_for(group, PARTITIONS)]


def test_before_the_topic_exists_nobody_coordinates(peer: Peer) -> None:
    assert fetch(peer, "g")[0] == ErrorCode.NOT_COORDINATOR
    assert peer.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups == []


def test_if_the_topic_cannot_be_created_the_client_is_told_to_try_again(
    served: BrokerThread, peer: Peer, disk: TroubledDisk
) -> None:
    disk.is_full = lambda path: "__cluster_metadata" in path
    assert find(peer, "g")[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    disk.is_full = lambda path: False
    assert find(peer, "g")[0].error_code == 0


def test_a_log_that_cannot_be_opened_yet_keeps_its_groups_waiting_and_no_others(
    served: BrokerThread, peer: Peer, disk: TroubledDisk
) -> None:
    create_topic(peer, "t")
    groups = {partition_for(f"g{number}", PARTITIONS): f"g{number}" for number in range(50)}
    disk.is_full = lambda path: f"{OFFSETS}-3" in path
    find(peer, "g")
    assert commit(peer, groups[3], 7) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert commit(peer, groups[2], 7) == 0
    disk.is_full = lambda path: False
    wait_until(lambda: commit(peer, groups[3], 8) == 0, "the log is opened and its groups are served")
    wait_until(lambda: commit(peer, groups[4], 9) == 0, "so are those behind it")


def test_offsets_of_a_deleted_topic_do_not_count_for_the_next_one_of_its_name(peer: Peer) -> None:
    create_topic(peer, "t")
    create_topic(peer, "kept")
    find(peer, "g")
    assert commit(peer, "g", 7) == commit(peer, "g", 8, "kept") == 0
    delete_topic(peer, "t")
    create_topic(peer, "t")
    assert fetch(peer, "g") == (0, -1)
    assert fetch(peer, "g", "kept") == (0, 8)


def test_a_topic_deleted_while_its_offsets_cannot_be_is_forgotten_by_the_next_load(
    data: Path, disk: TroubledDisk
) -> None:
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        create_topic(peer, "kept")
        find(peer, "g")
        assert commit(peer, "g", 7) == commit(peer, "g", 8, "kept") == 0
        disk.is_full = lambda path: OFFSETS in path
        delete_topic(peer, "t")
        disk.is_full = lambda path: False
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        wait_until(lambda: fetch(peer, "g", "kept") == (0, 8), "the shard is loaded")
        assert fetch(peer, "g") == (0, -1)


def test_while_a_shard_loads_its_groups_wait_and_others_do_not(data: Path, disk: TroubledDisk) -> None:
    late, soon = (
        next(f"g{n}" for n in range(50) if partition_for(f"g{n}", PARTITIONS) == index) for index in (4, 0)
    )
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        find(peer, "g")
        assert commit(peer, late, 7) == commit(peer, soon, 8) == 0
    disk.fails_read = reads_of_a_load(f"/{OFFSETS}-4/")
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        assert find(peer, late)[0].error_code == 0
        wait_until(lambda: fetch(peer, soon) == (0, 8), "the first shard is loaded")
        assert fetch(peer, late) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        assert commit(peer, late, 9) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        listed = peer.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        disk.fails_read = lambda path: False
        wait_until(lambda: fetch(peer, late)[0] == 0, "the last shard is loaded")
        assert fetch(peer, late) == (0, 7)


def test_groups_are_loaded_again_when_their_partition_is_led_again(data: Path, disk: TroubledDisk) -> None:
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        find(peer, "g")
        assert commit(peer, "g", 7) == 0
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        wait_until(lambda: fetch(peer, "g") == (0, 7), "the shard is loaded")
        partition = broker.partition(OFFSETS, partition_for("g", PARTITIONS))
        replica = partition.replica
        members = (replica.node_id,)
        for leader in (9, replica.node_id):
            epochs = replica.leader_epoch + 1, replica.partition_epoch + 1
            decided = Assigned(leader, epochs[0], members, members, epochs[1])
            broker.call(partial(partition.assign, decided, 0))
            create_topic(
                peer, f"next-{leader}"
            )  # any change of metadata has coordinators look at their partitions
        wait_until(lambda: fetch(peer, "g") == (0, 7), "the shard is loaded again")


def test_a_broker_stops_at_once_while_a_shard_loads(data: Path, disk: TroubledDisk) -> None:
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        find(peer, "g")
        assert commit(peer, "g", 7) == 0
    disk.fails_read = reads_of_a_load(f"/{OFFSETS}-")
    with broker_thread(data, SMALL, disk) as broker:
        assert took_s(broker.stop) < 5
    disk.fails_read = lambda path: False
    with broker_thread(data, SMALL, disk) as broker, Peer(broker.port) as peer:
        wait_until(lambda: fetch(peer, "g") == (0, 7), "the shard is loaded")


def test_deleting_the_offsets_topic_sends_members_away_and_the_next_question_creates_it_anew(
    served: BrokerThread, peer: Peer
) -> None:
    create_topic(peer, "t")
    find(peer, "g")
    assert commit(peer, "other", 7) == 0
    thread, answers = joins_in_the_background(served.port, "g")
    wait_until(is_waiting(served, "g"), "the member waits")
    delete_topic(peer, OFFSETS)
    thread.join()
    assert answers[0].error_code == ErrorCode.NOT_COORDINATOR
    assert fetch(peer, "other")[0] == ErrorCode.NOT_COORDINATOR
    assert find(peer, "g")[0].error_code == 0
    assert fetch(peer, "other") == (0, -1)
    assert commit(peer, "other", 8) == 0


def test_a_broker_that_stops_sends_waiting_members_away(served: BrokerThread, peer: Peer) -> None:
    find(peer, "g")
    thread, answers = joins_in_the_background(served.port, "g")
    wait_until(is_waiting(served, "g"), "the member waits")
    assert took_s(served.stop) < 5
    thread.join()
    assert answers[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_clock_that_is_set_neither_ends_sessions_nor_prolongs_them(
    data: Path, disk: TroubledDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jump_ms = 0
    monkeypatch.setattr(OsClock, "wall_ms", lambda _: wall_ms() + jump_ms)
    settings = {"group.min.session.timeout.ms": "1", "group.initial.rebalance.delay.ms": "10"}
    with broker_thread(data, {**SMALL, **settings}, disk) as broker, Peer(broker.port) as peer:
        find(peer, "g")
        stays = stable_member(peer, "stays", session_ms=60_000)
        goes = stable_member(peer, "goes", session_ms=500)
        jump_ms = 3_600_000
        assert stable_member(peer, "comes", session_ms=60_000)
        assert peer.ask(ApiKey.HEARTBEAT, 4, stays).error_code == 0
        jump_ms = -3_600_000
        wait_until(lambda: peer.ask(ApiKey.HEARTBEAT, 4, stays).error_code == 0, "one is heard of")
        gone = [("goes", "Empty")]
        wait_until(lambda: states_of(peer, ["goes"]) == gone, "the other one's session ends")
        assert peer.ask(ApiKey.HEARTBEAT, 4, goes).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert states_of(peer, ["stays"]) == [("stays", "Stable")]


def stable_member(peer: Peer, group: str, session_ms: int) -> HeartbeatRequest:
    """A group of one; what its member says from then on."""
    joined = peer.ask(ApiKey.JOIN_GROUP, 9, join_request(group, instance="one", session_ms=session_ms))
    assert joined.error_code == 0
    request = sync_request(group, joined.generation_id, joined.member_id, joined.member_id)
    assert peer.ask(ApiKey.SYNC_GROUP, 5, request).error_code == 0
    return HeartbeatRequest(group, joined.generation_id, joined.member_id)


def states_of(peer: Peer, groups: list[str]) -> list[tuple[str, str]]:
    described = peer.ask(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups)).groups
    return [(one.group_id, one.group_state) for one in described]
