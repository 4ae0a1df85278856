"""The machine that knows what the object store holds: by examples, and by everything at random."""

from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, numbered_uuids, topic_on

from ottla.config import BrokerConfig
from ottla.controller.alter_remote_log import SEGMENTS_PER_CHANGE, RemoteLogOperation
from ottla.controller.controller import Controller
from ottla.controller.records import decode_record, encode_record
from ottla.controller.remote_log import RemoteLog
from ottla.controller.snapshot import snapshot_records
from ottla.errors import ErrorCode
from ottla.protocol.messages.remote_logs import (
    AlterRemoteLogRequest,
    RemoteEpochData,
    RemoteObjectData,
    RemoteSegmentData,
)
from ottla.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState

START, FINISH, ADVANCE, TRUNCATE, CLEAR, DELETED, GIVE_UP = RemoteLogOperation
CONFIG = BrokerConfig.from_properties(
    {"remote.log.storage.system.enable": "true", "ottla.remote.store.url": "memory:///"}
)


def tiered_cluster() -> Cluster:
    cluster = Cluster(CONFIG, brokers=2)
    cluster.create(topic_on("a", [1, 2], remote_storage_enable="true"))
    return cluster


def remote(cluster: Cluster) -> RemoteLog:
    found = cluster.image.remote_logs.get(cluster.topic("a").topic_id)
    return RemoteLog() if found is None else found.partitions.get(0, RemoteLog())


def request(cluster: Cluster, operation: int, **fields: Any) -> AlterRemoteLogRequest:
    partition = cluster.partition("a", 0)
    asked = AlterRemoteLogRequest(
        partition.leader,
        cluster.image.brokers[partition.leader].epoch,
        cluster.topic("a").topic_id,
        0,
        partition.leader_epoch,
        operation,
    )
    return replace(asked, **fields)


def segment(number: int, base: int, following: int) -> RemoteSegmentData:
    return RemoteSegmentData(
        UUID(int=number),
        base,
        following,
        size_bytes=100,
        max_timestamp_ms=base,
        objects=[RemoteObjectData(".log", 100, 7)],
        epochs=[RemoteEpochData(0, base)],
    )


def copy(cluster: Cluster, number: int, base: int, following: int) -> None:
    for operation in (START, FINISH):
        asked = request(cluster, operation, segment=segment(number, base, following), offset=0)
        assert cluster.commit(asked).error_code == ErrorCode.NONE


def bounds(log: RemoteLog) -> list[tuple[int, int]]:
    return [(each.base_offset, each.next_offset) for each in log.segments]


def test_a_segment_is_named_before_it_is_copied_and_read_after_it_is_finished() -> None:
    cluster = tiered_cluster()
    asked = request(cluster, START, segment=segment(1, 0, 10), offset=3)
    assert cluster.commit(asked).error_code == ErrorCode.NONE
    assert remote(cluster).segment_of(5) is None
    assert remote(cluster).copying is not None
    assert cluster.commit(replace(asked, operation=FINISH)).error_code == ErrorCode.NONE
    found = remote(cluster).segment_of(5)
    assert found is not None
    assert (found.segment_id, found.objects[0].crc) == (UUID(int=1), 7)
    assert remote(cluster).first_offset == 3
    assert remote(cluster).copying is None


def test_a_repeated_request_changes_nothing_and_succeeds() -> None:
    cluster = tiered_cluster()
    for operation in (START, FINISH):
        asked = request(cluster, operation, segment=segment(1, 0, 10), offset=0)
        assert cluster.commit(asked).error_code == ErrorCode.NONE
        repeated = cluster.decide(asked)
        assert (repeated.records, repeated.response.error_code) == ([], ErrorCode.NONE)


def test_another_leader_or_epoch_is_refused() -> None:
    cluster = tiered_cluster()
    asked = request(cluster, START, segment=segment(1, 0, 10))
    for wrong, error in (
        ({"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"broker_epoch": -1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_id": 9}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (
            {"broker_id": 2, "broker_epoch": cluster.image.brokers[2].epoch},
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
        ({"topic_id": UUID(int=77)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition_index": 4}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"operation": 42}, ErrorCode.INVALID_REQUEST),
    ):
        refused = cluster.decide(replace(asked, **wrong))
        assert (refused.records, refused.response.error_code) == ([], error)


def test_a_copy_that_another_leader_began_cannot_be_finished() -> None:
    cluster = tiered_cluster()
    cluster.commit(request(cluster, START, segment=segment(1, 0, 10)))
    elect(cluster)
    refused = cluster.commit(request(cluster, FINISH, segment=segment(1, 0, 10)))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    copy(cluster, 2, 0, 10)
    assert [each.segment_id for each in remote(cluster).deleting] == [UUID(int=1)]


def elect(cluster: Cluster) -> None:
    """Let the other replica lead: the leader is gone for a moment."""
    leader = cluster.partition("a", 0).leader
    cluster.fence(leader)
    cluster.heartbeat(leader)
    assert cluster.alter("a", [1, 2]).error_code == ErrorCode.NONE
    assert cluster.partition("a", 0).leader != leader


@pytest.mark.parametrize(("base", "following"), [(11, 20), (0, 10), (5, 8), (10, 10)])
def test_a_segment_that_does_not_follow_is_refused(base: int, following: int) -> None:
    cluster = tiered_cluster()
    copy(cluster, 1, 0, 10)
    refused = cluster.commit(request(cluster, START, segment=segment(2, base, following)))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_deleted_records_take_their_segments_along_and_never_come_back() -> None:
    cluster = tiered_cluster()
    copy(cluster, 1, 0, 10)
    copy(cluster, 2, 10, 20)
    cluster.commit(request(cluster, START, segment=segment(3, 20, 30)))
    cluster.commit(request(cluster, ADVANCE, offset=35))
    assert bounds(remote(cluster)) == []
    refused = cluster.commit(request(cluster, FINISH, segment=segment(3, 20, 30)))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert {each.segment_id.int for each in remote(cluster).deleting} == {1, 2, 3}
    cluster.commit(request(cluster, DELETED, segment_ids=[UUID(int=2), UUID(int=99)]))
    assert {each.segment_id.int for each in remote(cluster).deleting} == {1, 3}


def test_a_truncated_log_keeps_what_it_has_in_common_and_copies_the_rest_again() -> None:
    cluster = tiered_cluster()
    for number in range(3):
        copy(cluster, number + 1, 10 * number, 10 * number + 10)
    cluster.commit(request(cluster, TRUNCATE, offset=15))
    assert bounds(remote(cluster)) == [(0, 10), (10, 15)]
    copy(cluster, 9, 8, 40)
    assert bounds(remote(cluster)) == [(0, 10), (8, 40)]
    assert {each.segment_id.int for each in remote(cluster).deleting} == {2, 3}
    found = remote(cluster).segment_of(9)
    assert found is not None
    assert found.segment_id == UUID(int=9)


def test_disabling_lets_all_segments_go_a_few_at_a_time() -> None:
    cluster = tiered_cluster()
    for number in range(SEGMENTS_PER_CHANGE + 2):
        copy(cluster, number + 1, number, number + 1)
    cluster.commit(request(cluster, CLEAR))
    assert len(remote(cluster).segments) == 2
    cluster.commit(request(cluster, CLEAR))
    assert not remote(cluster).segments
    assert len(remote(cluster).deleting) == SEGMENTS_PER_CHANGE + 2


def test_no_copy_begins_where_tiered_storage_or_copying_is_off() -> None:
    cluster = Cluster(CONFIG, brokers=1)
    for name, more in (
        ("a", {}),
        ("b", {"remote_storage_enable": "true", "remote_log_copy_disable": "true"}),
    ):
        cluster.create(topic_on(name, [1], **more))
        asked = AlterRemoteLogRequest(
            1, cluster.image.brokers[1].epoch, cluster.topic(name).topic_id, 0, 0, START, segment(1, 0, 5)
        )
        assert cluster.commit(asked).error_code == ErrorCode.INVALID_REQUEST


def test_a_deleted_topic_keeps_its_segments_until_their_objects_are_deleted() -> None:
    cluster = tiered_cluster()
    copy(cluster, 1, 0, 10)
    cluster.commit(request(cluster, START, segment=segment(2, 10, 20)))
    topic_id = cluster.topic("a").topic_id
    finished = request(cluster, DELETED, segment_ids=[UUID(int=1), UUID(int=2)])
    cluster.commit(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id, name=None)]))
    gone = cluster.image.remote_logs[topic_id]
    assert gone.name == "a"
    assert {each.segment_id.int for each in gone.partitions[0].deleting} == {1, 2}
    cluster.commit(finished)
    assert topic_id not in cluster.image.remote_logs


def test_a_snapshot_says_what_the_store_holds() -> None:
    cluster = tiered_cluster()
    copy(cluster, 1, 0, 10)
    cluster.commit(request(cluster, START, segment=segment(2, 10, 20)))
    cluster.commit(request(cluster, ADVANCE, offset=4))
    other = Controller(NODE_ID, CLUSTER_ID, CONFIG, numbered_uuids())
    other.load_snapshot(snapshot_records(cluster.image), 100, 0)
    assert other.image.remote_logs == cluster.image.remote_logs != {}


class RemoteLife(RuleBasedStateMachine):
    """Leaders that come and go copy and delete one partition's segments; some do not know that they are gone.

    Beside the machine stands a store with the segments whose objects exist.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster = tiered_cluster()
        self.topic_id = self.cluster.topic("a").topic_id
        self.stored: set[UUID] = set()
        self.named: set[UUID] = set()
        self.started = 0
        self.copies: list[AlterRemoteLogRequest] = []
        self.late: list[AlterRemoteLogRequest] = []

    def log(self) -> RemoteLog:
        found = self.cluster.image.remote_logs.get(self.topic_id)
        return RemoteLog() if found is None else found.partitions.get(0, RemoteLog())

    @property
    def exists(self) -> bool:
        return self.topic_id in self.cluster.image.topics_by_id

    def ask(self, asked: AlterRemoteLogRequest) -> int:
        """Carry a request out, and show that a second one changes nothing."""
        before = self.log().start_offset
        error = self.cluster.commit(asked).error_code
        repeated = self.cluster.decide(asked)
        assert not repeated.records or asked.operation in (TRUNCATE, CLEAR)
        assert error or not repeated.response.error_code
        assert self.log().start_offset >= before or not self.exists
        self.late.append(asked)
        return int(error)

    @precondition(lambda self: self.exists)
    @rule(overlap=st.integers(0, 3), size=st.integers(1, 9))
    def begin_copy(self, overlap: int, size: int) -> None:
        self.started += 1
        following = self.log().next_offset
        following = self.log().start_offset if following is None else following
        made = segment(self.started, max(0, following - overlap), following + size)
        asked = request(self.cluster, START, segment=made, offset=self.log().start_offset)
        if self.ask(asked) == ErrorCode.NONE:
            self.named.add(made.segment_id)
            self.copies.append(replace(asked, operation=FINISH))

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def upload_and_finish(self, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.copies))
        copying = self.log().copying
        if copying is not None and copying.segment_id == asked.segment.segment_id:
            self.stored.add(asked.segment.segment_id)  # verified before it is told
        elif not any(each.segment_id == asked.segment.segment_id for each in self.log().segments):
            assert self.ask(asked) != ErrorCode.NONE
            return
        self.ask(asked)

    @precondition(lambda self: self.exists)
    @rule(offset=st.integers(0, 60))
    def advance(self, offset: int) -> None:
        self.ask(request(self.cluster, ADVANCE, offset=offset))

    @precondition(lambda self: self.exists)
    @rule(offset=st.integers(0, 60))
    def truncate(self, offset: int) -> None:
        self.ask(request(self.cluster, TRUNCATE, offset=max(offset, self.log().start_offset)))

    @precondition(lambda self: self.exists)
    @rule()
    def give_up(self) -> None:
        copying = self.log().copying
        ids = [] if copying is None else [copying.segment_id]
        assert self.ask(request(self.cluster, GIVE_UP, segment_ids=ids)) == ErrorCode.NONE
        assert self.log().copying is None

    @precondition(lambda self: self.exists)
    @rule()
    def clear(self) -> None:
        self.ask(request(self.cluster, CLEAR))

    @precondition(lambda self: self.exists)
    @rule()
    def change_leader(self) -> None:
        elect(self.cluster)

    @rule()
    def delete_objects(self) -> None:
        """Whoever deletes objects tells afterwards."""
        going = [each.segment_id for each in self.log().deleting]
        self.stored -= {*going}
        broker = self.cluster.image.brokers[2]
        asked = AlterRemoteLogRequest(2, broker.epoch, self.topic_id, 0, -1, DELETED, segment_ids=going)
        assert self.ask(asked) == ErrorCode.NONE
        self.named -= {*going}

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def hear_late(self, data: st.DataObject) -> None:
        """A request of before arrives once more. Whoever deletes does not do so twice."""
        asked = data.draw(st.sampled_from(self.late))
        if asked.operation in (START, FINISH) and asked.leader_epoch < self.leader_epoch:
            assert self.cluster.commit(asked).error_code != ErrorCode.NONE

    @property
    def leader_epoch(self) -> int:
        return self.cluster.partition("a", 0).leader_epoch if self.exists else 1 << 30

    @precondition(lambda self: self.exists and self.started > 3)
    @rule()
    def delete_topic(self) -> None:
        wanted = DeleteTopicState(topic_id=self.topic_id, name=None)
        self.cluster.commit(DeleteTopicsRequest(topics=[wanted]))
        assert not self.log().segments

    @invariant()
    def segments_have_no_gap_and_their_objects_exist(self) -> None:
        segments = self.log().segments
        for one, other in pairwise(segments):
            assert one.base_offset < other.base_offset <= one.next_offset < other.next_offset
        assert {each.segment_id for each in segments} <= self.stored
        first, following = self.log().first_offset, self.log().next_offset
        for offset in range(first or 0, following or 0):
            assert self.log().segment_of(offset) is not None

    @invariant()
    def every_segment_whose_objects_may_exist_is_named(self) -> None:
        ids = [each.segment_id for _, each in self.log().all_segments()]
        assert len(ids) == len(set(ids))
        assert set(ids) == self.named

    @invariant()
    def a_snapshot_says_the_same(self) -> None:
        other = Controller(NODE_ID, CLUSTER_ID, CONFIG, numbered_uuids())
        image = self.cluster.image
        records = [decode_record(encode_record(each)) for each in snapshot_records(image)]
        other.load_snapshot(records, image.last_offset, image.last_epoch)
        assert other.image.remote_logs == image.remote_logs


RemoteLife.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestRemoteLife = RemoteLife.TestCase
