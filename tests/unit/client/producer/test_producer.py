"""The producer's shell against brokers that say what a test tells them to (PRO-3, PRO-6, PRO-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from tests.unit.wire.fake_broker import FakeBroker, all_versions

from ottla.client.producer.machine.delivery_report import (
    BufferFullError,
    DeliveryError,
    DeliveryReport,
    SerializationError,
)
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import configs, metadata, produce, producer_ids
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.records.batch import iter_batches

TOPIC_ID = UUID(int=7)


class Cluster:
    """Two fake brokers; the topic `t` has one partition, which `leader` leads."""

    def __init__(self) -> None:
        self.brokers = {1: FakeBroker(), 2: FakeBroker()}
        self.leader = 1
        self.topic_id = TOPIC_ID
        self.partitions = 1
        self.values: list[tuple[int, bytes | None]] = []  # (broker, value)
        for node_id, broker in self.brokers.items():
            broker.on(metadata.MetadataRequest, self._metadata)
            broker.on(producer_ids.InitProducerIdRequest, producer_ids.InitProducerIdResponse(producer_id=9))
            broker.on(produce.ProduceRequest, self.writer(node_id))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.brokers[1].port}"

    def asked_for(self, request_type: type[Any]) -> list[Any]:
        return [each for broker in self.brokers.values() for each in broker.asked_for(request_type)]

    def versions_of(self, api_key: int) -> set[int]:
        headers = [header for broker in self.brokers.values() for header, _ in broker.asked]
        return {header.api_version for header in headers if header.api_key == api_key}

    def offer(self, api_key: int, last: int) -> None:
        """All brokers serve an API up to this version only."""
        offered: ApiVersionsResponse = all_versions()
        for each in offered.api_keys:
            each.max_version = min(each.max_version, last) if each.api_key == api_key else each.max_version
        for broker in self.brokers.values():
            broker.on(ApiVersionsRequest, offered)

    def writer(self, node_id: int, *, code: ErrorCode = ErrorCode.NONE, **fields: Any) -> Callable[..., Any]:
        """Answers produce requests like a broker, or with an error."""

        def answer(request: produce.ProduceRequest, header: RequestHeader) -> produce.ProduceResponse:
            topics = []
            for topic in request.topic_data:
                answered = produce.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
                for data in topic.partition_data:
                    base_offset = len(self.values)
                    if not code:
                        batches = iter_batches(data.records or b"")
                        self.values += [
                            (node_id, each.value) for batch in batches for each in batch.records()
                        ]
                    partition = produce.PartitionProduceResponse(
                        index=data.index, error_code=code, base_offset=base_offset
                    )
                    if leader := fields.get("leader"):
                        partition.current_leader = leader
                    answered.partition_responses.append(partition)
                topics.append(answered)
            response = produce.ProduceResponse(responses=topics)
            response.node_endpoints = fields.get("endpoints", [])
            response.throttle_time_ms = fields.get("throttle_time_ms", 0)
            return response

        return answer

    def _metadata(
        self, request: metadata.MetadataRequest, header: RequestHeader
    ) -> metadata.MetadataResponse:
        brokers = [
            metadata.MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=broker.port)
            for node_id, broker in self.brokers.items()
        ]
        partitions = [
            metadata.MetadataResponsePartition(
                partition_index=index, leader_id=self.leader, replica_nodes=[1, 2]
            )
            for index in range(self.partitions)
        ]
        topics = [
            metadata.MetadataResponseTopic(name=each.name, topic_id=self.topic_id, partitions=partitions)
            for each in request.topics or ()
        ]
        return metadata.MetadataResponse(brokers=brokers, controller_id=1, topics=topics)


def with_producer(cluster: Cluster, body: Callable[[Producer], Awaitable[None]], **settings: Any) -> None:
    """Run with a deadline, and see that no task is left behind."""

    async def run() -> None:
        quick = {"linger_ms": 0, "retry_backoff_ms": 5} | settings
        async with asyncio.timeout(20), cluster.brokers[1], cluster.brokers[2]:
            producer = Producer(cluster.bootstrap, **quick)
            async with producer:
                await body(producer)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_a_leader_that_moved_is_found_by_the_answer_of_the_old_one() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        asked = len(cluster.asked_for(metadata.MetadataRequest))
        endpoint = produce.NodeEndpoint(node_id=2, host="127.0.0.1", port=cluster.brokers[2].port)
        leader = produce.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
        refuse = cluster.writer(1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=leader, endpoints=[endpoint])
        cluster.brokers[1].on(produce.ProduceRequest, refuse)
        await producer.send("t", b"v")
        assert cluster.values == [(2, b"v")]
        assert len(cluster.asked_for(metadata.MetadataRequest)) <= asked + 1  # that of the topic

    with_producer(cluster, body)


def test_a_leader_that_moved_silently_is_found_by_metadata() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        await producer.send("t", b"a")
        cluster.leader = 2
        cluster.brokers[1].on(
            produce.ProduceRequest, cluster.writer(1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )
        await producer.send("t", b"b")
        assert cluster.values == [(1, b"a"), (2, b"b")]

    with_producer(cluster, body)


def test_topics_go_by_id_if_both_know_ids_and_by_name_if_not() -> None:
    for offered, topic_id, expected in ((13, TOPIC_ID, 13), (13, UUID(int=0), 12), (7, TOPIC_ID, 7)):
        cluster = Cluster()
        cluster.topic_id = topic_id
        cluster.offer(0, offered)

        async def body(producer: Producer, cluster: Cluster = cluster) -> None:
            assert (await producer.send("t", b"v")).offset == 0

        with_producer(cluster, body)
        assert cluster.versions_of(0) == {expected}
        (request,) = cluster.asked_for(produce.ProduceRequest)
        assert (request.topic_data[0].name, request.topic_data[0].topic_id) == (
            ("", TOPIC_ID) if expected == 13 else ("t", UUID(int=0))
        )


def test_a_broker_too_old_for_the_records_is_an_error_that_names_versions() -> None:
    cluster = Cluster()
    cluster.offer(0, 2)

    async def body(producer: Producer) -> None:
        with pytest.raises(DeliveryError, match=r"serves PRODUCE v.* to v2, this client speaks v3") as caught:
            await producer.send("t", b"v")
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        assert not caught.value.is_uncertain

    with_producer(cluster, body)


def test_an_answer_that_leaves_a_partition_out_is_no_answer() -> None:
    cluster = Cluster()
    answers = [produce.ProduceResponse()]

    def answer(request: produce.ProduceRequest, header: RequestHeader) -> Any:
        return answers.pop() if answers else cluster.writer(1)(request, header)

    async def body(producer: Producer) -> None:
        cluster.brokers[1].on(produce.ProduceRequest, answer)
        assert (await producer.send("t", b"v")).offset == 0
        assert len(cluster.asked_for(produce.ProduceRequest)) == 2

    with_producer(cluster, body)


def test_a_broker_that_throttles_is_left_alone_for_a_while() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        cluster.brokers[1].on(produce.ProduceRequest, cluster.writer(1, throttle_time_ms=200))
        await producer.send("t", b"a")
        begun = monotonic()
        await producer.send("t", b"b")
        assert monotonic() - begun >= 0.19

    with_producer(cluster, body)


def test_acks_and_timeouts_are_told_to_the_broker() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        await producer.send("t", b"v")

    with_producer(cluster, body, acks=1, request_timeout_ms=1_000)
    (request,) = cluster.asked_for(produce.ProduceRequest)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (1, 800, None)
    assert cluster.asked_for(producer_ids.InitProducerIdRequest) == []


def test_a_callback_that_fails_keeps_nobody_from_hearing() -> None:
    cluster = Cluster()
    heard: list[Any] = []
    complaints: list[dict[str, Any]] = []

    def fail(outcome: DeliveryReport | DeliveryError) -> None:
        raise ZeroDivisionError

    async def body(producer: Producer) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        producer.send_soon("t", b"a", on_delivery=fail)
        producer.send_soon("t", b"b", on_delivery=heard.append)
        await producer.flush()

    with_producer(cluster, body)
    assert [report.offset for report in heard] == [1]
    assert [type(each["exception"]) for each in complaints] == [ZeroDivisionError]


def test_a_delivery_may_be_awaited_often_and_late_and_by_many() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        delivery = producer.send_soon("t", b"v")
        tasks = [asyncio.ensure_future(_awaited(delivery)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        reports = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(reports[0], asyncio.CancelledError)
        assert reports[1] == reports[2] == await delivery
        assert delivery.done()

    with_producer(cluster, body)


async def _awaited(delivery: Awaitable[DeliveryReport]) -> DeliveryReport:
    return await delivery


def test_loads_are_asked_for_if_the_partitioner_wants_them() -> None:
    cluster = Cluster()
    cluster.partitions = 2
    load = configs.DescribeConfigsResourceResult(name="ottla.load.cpu", value="0.5")
    answer = configs.DescribeConfigsResponse(
        results=[configs.DescribeConfigsResult(resource_type=4, resource_name="1", configs=[load])]
    )
    for broker in cluster.brokers.values():
        broker.on(configs.DescribeConfigsRequest, answer)

    async def body(producer: Producer) -> None:
        await producer.send("t", b"v")

    with_producer(cluster, body, partitioner="load_aware")
    with_producer(Cluster(), body)
    assert all(
        each.resources[0].resource_type == 4 for each in cluster.asked_for(configs.DescribeConfigsRequest)
    )


def test_what_cannot_become_bytes_is_refused_with_the_record() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        with pytest.raises(
            SerializationError, match=r"a int is neither bytes nor text.*value_serializer"
        ) as caught:
            producer.send_soon("t", 5, key="k")
        assert (caught.value.record.value, caught.value.record.key) == (5, "k")
        with pytest.raises(TypeError, match="each name in headers must be text, not 5"):
            producer.send_soon("t", b"v", headers=[(5, b"x")])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="timestamp_ms must be milliseconds since 1970"):
            producer.send_soon("t", b"v", timestamp_ms=-1)
        for value in (b"a", "b", bytearray(b"c"), memoryview(b"d"), None):
            await producer.send("t", value)

    with_producer(cluster, body)
    assert [value for _, value in cluster.values] == [b"a", b"b", b"c", b"d", None]


def test_drain_waits_while_the_buffer_is_half_full() -> None:
    cluster = Cluster()
    release = asyncio.Event()

    async def slowly(request: produce.ProduceRequest, header: RequestHeader) -> Any:
        await release.wait()
        return cluster.writer(1)(request, header)

    async def body(producer: Producer) -> None:
        await producer.send("t", b"first")
        cluster.brokers[1].on(produce.ProduceRequest, slowly)
        filling = asyncio.ensure_future(fill(producer))
        await asyncio.sleep(0.1)
        assert not filling.done()
        release.set()
        assert await filling == 100

    async def fill(producer: Producer) -> int:
        sent = 0
        for _ in range(100):
            producer.send_soon("t", b"x" * 900)
            sent += 1
            await producer.drain()
        return sent

    with_producer(cluster, body, buffer_memory=20_000, max_request_size=2_000, batch_size=1_000)
    assert len(cluster.values) == 101


def test_who_drains_lets_others_work_though_no_batch_is_full() -> None:
    cluster = Cluster()

    async def body(producer: Producer) -> None:
        await producer.send("t", b"first")
        begun = monotonic()
        while len(cluster.values) == 1:
            producer.send_soon("t", b"v")
            await producer.drain()
            assert monotonic() - begun < 5, "the batch lingers on"

    with_producer(cluster, body, linger_ms=5, batch_size=1 << 20)


def test_send_waits_for_room_only_so_long() -> None:
    cluster = Cluster()

    async def never(request: produce.ProduceRequest, header: RequestHeader) -> Any:
        await asyncio.sleep(60)

    async def body(producer: Producer) -> None:
        await producer.send("t", b"first")
        for broker in cluster.brokers.values():
            broker.on(produce.ProduceRequest, never)
        deliveries = [producer.send_soon("t", b"x" * 900) for _ in range(2)]
        with pytest.raises(BufferFullError):
            await producer.send("t", b"x" * 900)
        with pytest.raises(DeliveryError, match="2 records were not delivered"):
            await producer.close(timeout_ms=10)
        for delivery in deliveries:
            with pytest.raises(DeliveryError, match="the producer was closed"):
                await delivery

    settings = {"buffer_memory": 2_500, "max_request_size": 2_000, "batch_size": 1_000, "max_block_ms": 100}
    with_producer(cluster, body, **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"acks": 2}, 'acks must be "all", 1 or 0, not 2'),
        ({"acks": 1, "enable_idempotence": True}, 'idempotence needs acks="all"'),
        ({"max_in_flight_requests_per_connection": 6}, "5 requests in flight at most, not 6"),
        ({"compression": "zip"}, "there is no compression 'zip': choose from none, gzip, snappy, lz4, zstd"),
        ({"partitioner": "random"}, "there is no partitioner 'random': choose from by_key"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"linger_ms": -1}, "linger_ms must be at least 0, not -1"),
        ({"buffer_memory": 1_000}, "buffer_memory .1000. must hold one request at least"),
        ({"bootstrap_servers": "a:b:c"}, "is not an address"),
    ],
)
def test_settings_that_cannot_be_carried_out_are_refused_with_a_sentence(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Producer(**settings)
