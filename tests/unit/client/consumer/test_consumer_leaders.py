"""The consumer and its leaders, against fake brokers: sessions, hints, new epochs, committed records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.consumer.test_consumer import T0, consuming, values
from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.wire.fake_broker import all_versions

from ottla.client.consumer.consumer import Consumer
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import api_versions, fetch, leader_epochs, metadata
from ottla.records.builder import build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.record import Record

T1 = TopicPartition("t", 1)


def test_a_session_names_each_partition_once_and_then_what_moved() -> None:
    cluster = FakeCluster(partitions=2)
    cluster.append(b"a")
    serve = cluster.broker.answer_to(fetch.FetchRequest)
    known: dict[int, fetch.FetchPartition] = {}

    async def remembered(request: fetch.FetchRequest, header: RequestHeader) -> Any:
        if request.session_epoch == 0:
            known.clear()
        for each in (each for topic in request.topics for each in topic.partitions):
            known[each.partition] = each
        topic = fetch.FetchTopic(topic_id=cluster.topic_id, partitions=list(known.values()))
        response = await serve(fetch.FetchRequest(topics=[topic]), header)
        response.session_id = 77
        data = response.responses[0].partitions
        response.responses[0].partitions = [each for each in data if each.records or each.error_code]
        return response

    cluster.broker.on(fetch.FetchRequest, remembered)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0, T1])
        assert await values(consumer, 1) == [b"a"]
        cluster.append(b"b", partition=1)
        assert await values(consumer, 1) == [b"b"]
        cluster.append(b"c")
        assert await values(consumer, 1) == [b"c"]

    consuming(cluster, body)
    asked = cluster.asked_for(fetch.FetchRequest)
    assert [ask.session_epoch for ask in asked] == list(range(len(asked)))
    assert {ask.session_id for ask in asked[1:]} == {77}
    assert sum(len(topic.partitions) for ask in asked for topic in ask.topics) <= 5


def test_a_broker_that_refuses_the_session_is_asked_anew() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    serve = cluster.broker.answer_to(fetch.FetchRequest)
    refusals = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]

    async def refusing(request: fetch.FetchRequest, header: RequestHeader) -> Any:
        if refusals:
            return fetch.FetchResponse(error_code=refusals.pop())
        return await serve(request, header)

    cluster.broker.on(fetch.FetchRequest, refusing)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]

    consuming(cluster, body)


def test_a_broker_that_names_the_new_leader_saves_the_question_for_metadata() -> None:
    old, new = FakeCluster(), FakeCluster()
    new.append(b"a")
    new.leader_epoch = 3

    async def body(consumer: Consumer) -> None:
        moved = fetch.PartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=3),
        )
        topic = fetch.FetchableTopicResponse(topic_id=old.topic_id, partitions=[moved])
        async with new.broker:
            endpoint = fetch.NodeEndpoint(node_id=2, host="127.0.0.1", port=new.broker.port)
            hint = fetch.FetchResponse(responses=[topic], node_endpoints=[endpoint])
            old.broker.on(fetch.FetchRequest, hint)
            consumer.assign([T0])
            consumer.seek(T0, 0)
            assert await values(consumer, 1) == [b"a"]
        assert len(old.asked_for(metadata.MetadataRequest)) == 1
        (asked, *_) = new.asked_for(fetch.FetchRequest)
        assert asked.topics[0].partitions[0].current_leader_epoch == 3

    consuming(old, body)


def new_leader(cluster: FakeCluster, end_offset: int, epoch: int) -> None:
    """From now on the leader has this epoch, and its log had another end in the old one."""
    cluster.leader_epoch = epoch
    end = leader_epochs.EpochEndOffset(partition=0, leader_epoch=0, end_offset=end_offset)
    topic = leader_epochs.OffsetForLeaderTopicResult(topic="t", partitions=[end])
    cluster.broker.on(
        leader_epochs.OffsetForLeaderEpochRequest,
        leader_epochs.OffsetForLeaderEpochResponse(topics=[topic]),
    )
    cluster.errors[fetch.FetchRequest] = [ErrorCode.FENCED_LEADER_EPOCH]


def test_a_new_leader_with_the_same_history_is_asked_once_and_read_on() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 2) == [b"a", b"b"]
        new_leader(cluster, end_offset=2, epoch=4)
        cluster.append(b"c")
        assert await values(consumer, 1) == [b"c"]

    consuming(cluster, body)
    (asked,) = cluster.asked_for(leader_epochs.OffsetForLeaderEpochRequest)
    (partition,) = asked.topics[0].partitions
    assert (partition.leader_epoch, partition.current_leader_epoch) == (0, 4)


def test_a_leader_that_lacks_what_was_read_is_read_from_where_the_logs_part() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 3) == [b"a", b"b", b"c"]
        new_leader(cluster, end_offset=1, epoch=4)
        assert await values(consumer, 2) == [b"b", b"c"]

    consuming(cluster, body)


def test_who_wants_to_decide_is_told_until_it_seeks() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        assert await values(consumer, 3) == [b"a", b"b", b"c"]
        new_leader(cluster, end_offset=1, epoch=4)
        for _ in range(2):
            with pytest.raises(
                KafkaError, match=r"t-0 was read up to offset 3, .* parts from that at offset 1"
            ):
                await consumer.poll()
        consumer.seek(T0, 1)
        assert await values(consumer, 2) == [b"b", b"c"]

    consuming(cluster, body, auto_offset_reset="none")


def test_a_broker_that_cannot_say_where_epochs_ended_is_believed() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    offered = all_versions()
    offered.api_keys = [each for each in offered.api_keys if each.api_key != 23]
    cluster.broker.on(api_versions.ApiVersionsRequest, offered)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]
        cluster.leader_epoch = 4
        cluster.errors[fetch.FetchRequest] = [ErrorCode.FENCED_LEADER_EPOCH]
        cluster.append(b"b")
        assert await values(consumer, 1) == [b"b"]

    consuming(cluster, body)


def transactional(offset: int, value: bytes, producer_id: int) -> bytes:
    return bytes(
        build_batch(
            [Record(offset, 0, None, value)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    made = EndTransactionMarker(is_commit, 0)
    return bytes(
        build_marker(made, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset)
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [("read_committed", [b"kept", b"kept too"]), ("read_uncommitted", [b"kept", b"dropped", b"kept too"])],
)
def test_aborted_transactions_are_left_out_if_that_is_wanted(level: Any, expected: list[bytes]) -> None:
    cluster = FakeCluster()
    log = [
        transactional(0, b"kept", 1),
        transactional(1, b"dropped", 2),
        marker(2, 1, is_commit=True),
        marker(3, 2, is_commit=False),
        transactional(4, b"kept too", 2),
        marker(5, 2, is_commit=True),
    ]

    async def serve(request: fetch.FetchRequest, header: RequestHeader) -> Any:
        is_committed = request.isolation_level == 1
        (asked,) = request.topics[0].partitions
        data = fetch.PartitionData(
            high_watermark=6,
            last_stable_offset=6,
            records=memoryview(b"".join(log) if asked.fetch_offset < 6 else b""),
            aborted_transactions=[fetch.AbortedTransaction(2, 1)] if is_committed else None,
        )
        topic = fetch.FetchableTopicResponse(topic_id=cluster.topic_id, partitions=[data])
        return fetch.FetchResponse(responses=[topic])

    cluster.broker.on(fetch.FetchRequest, serve)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, len(expected)) == expected
        while consumer.position(T0) != 6:
            await consumer.poll(timeout_ms=5)

    consuming(cluster, body, isolation_level=level)


def test_a_full_partition_does_not_wait_behind_an_empty_one() -> None:
    """A broker may keep a fetch for an empty partition; the other one is fetched the moment it has room."""
    cluster = FakeCluster(partitions=2)
    for _ in range(30):
        cluster.append(bytes(1_000))

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0, T1])
        assert len(await values(consumer, 30)) == 30
        waits = {ask.max_wait_ms for ask in cluster.asked_for(fetch.FetchRequest)[1:-1]}
        assert waits <= {0, 500}

    consuming(cluster, body, max_partition_fetch_bytes=2_000)
