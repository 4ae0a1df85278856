"""Consumers read from a replica in their own rack (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer as ConfluentConsumer
from tests.integration.peer import fetch_request
from tests.integration.quorum_nodes import Nodes, eventually, nodes, run
from tests.integration.test_replication import create_topic, placed, produce

from ottla import Consumer, TopicPartition
from ottla.config.replication import LEADER_SELECTOR, RACK_SELECTOR
from ottla.errors import ErrorCode
from ottla.localcluster.ports import HOST

RACKS = {1: "east", 2: "west", 3: "north"}


@asynccontextmanager
async def racked(root: Path, selector: str = LEADER_SELECTOR) -> AsyncIterator[Nodes]:
    """Three nodes in three racks, with a topic that has a record on each."""
    async with nodes(root, replica_selector_class=selector) as cluster:
        await asyncio.gather(*(cluster.start(each, broker_rack=rack) for each, rack in RACKS.items()))
        await create_topic(cluster)
        await eventually(
            lambda: all("t" in broker.quorum.image.topics_by_name for broker in cluster.running.values()),
            "all know the topic",
        )
        assert (await produce(cluster, b"first")).error_code == 0
        yield cluster


def bootstrap(cluster: Nodes) -> str:
    return ",".join(f"{HOST}:{port}" for port in cluster.ports.values())


def followers(cluster: Nodes) -> list[int]:
    return [each for each in cluster.running if each != placed(cluster).leader]


def are_read_from(cluster: Nodes, node_id: int) -> bool:
    """Whether a consumer's long poll waits at this node."""
    partition = cluster.running[node_id].partitions.find("t", 0)
    return partition is not None and bool(partition.waiters.readers)


async def hears(read: Callable[[], Awaitable[Any]], value: bytes) -> None:
    async with asyncio.timeout(20):
        assert await read() == value


def test_our_consumer_reads_from_its_rack_and_goes_on_when_that_replica_dies(tmp_path: Path) -> None:
    async def test() -> None:
        async with racked(tmp_path, RACK_SELECTOR) as cluster:
            near = followers(cluster)[0]
            addresses = bootstrap(cluster)
            async with Consumer(
                addresses, client_rack=RACKS[near], auto_offset_reset="earliest", fetch_max_wait_ms=10_000
            ) as consumer:
                consumer.assign([TopicPartition("t", 0)])

                async def read() -> bytes | None:
                    return (await anext(records)).value

                records = aiter(consumer)
                await hears(read, b"first")
                await eventually(lambda: are_read_from(cluster, near), "the replica nearby is asked")
                await produce(cluster, b"second")
                await hears(read, b"second")
                assert not are_read_from(cluster, placed(cluster).leader)
                await cluster.kill(near)
                await produce(cluster, b"third")
                await hears(read, b"third")

    run(test)


def test_librdkafka_reads_from_its_rack(tmp_path: Path) -> None:
    async def test() -> None:
        async with racked(tmp_path, RACK_SELECTOR) as cluster:
            near = followers(cluster)[-1]
            settings: dict[str, Any] = {
                "bootstrap.servers": bootstrap(cluster),
                "client.rack": RACKS[near],
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10_000,
            }
            consumer = ConfluentConsumer(settings)
            consumer.subscribe(["t"])

            async def read() -> bytes | None:
                while (message := await asyncio.to_thread(consumer.poll, 0.2)) is None or message.error():
                    pass
                value: bytes | None = message.value()
                return value

            await hears(read, b"first")
            await eventually(lambda: are_read_from(cluster, near), "the replica nearby is asked")
            await produce(cluster, b"second")
            await hears(read, b"second")
            await asyncio.to_thread(consumer.close)

    run(test)


def test_without_a_selector_everybody_reads_from_the_leader(tmp_path: Path) -> None:
    async def test() -> None:
        async with racked(tmp_path) as cluster:
            near = followers(cluster)[0]
            (refused,) = (await cluster.ask(near, fetch_request(("t", 0, 0)), 12)).responses[0].partitions
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            request = fetch_request(("t", 0, 0))
            request.rack_id = RACKS[near]
            (answer,) = (await cluster.ask(placed(cluster).leader, request, 12)).responses[0].partitions
            assert (answer.error_code, answer.preferred_read_replica) == (0, -1)
            assert answer.records

    run(test)


def test_a_follower_serves_what_is_committed_and_sends_a_reader_that_is_ahead_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with racked(tmp_path, RACK_SELECTOR) as cluster:
            near = followers(cluster)[0]
            partition = cluster.running[near].partitions.find("t", 0)
            assert partition is not None
            await eventually(lambda: partition.replica.high_watermark == 1, "the follower knows the commit")
            (served,) = (await cluster.ask(near, fetch_request(("t", 0, 0)), 12)).responses[0].partitions
            assert (served.error_code, served.high_watermark) == (0, 1)
            assert served.records
            (ahead,) = (await cluster.ask(near, fetch_request(("t", 0, 5)), 12)).responses[0].partitions
            assert ahead.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            (old,) = (await cluster.ask(near, fetch_request(("t", 0, 0)), 10)).responses[0].partitions
            assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            request = fetch_request(("t", 0, 0))
            request.rack_id = RACKS[near]
            (sent,) = (await cluster.ask(placed(cluster).leader, request, 12)).responses[0].partitions
            assert (sent.error_code, sent.preferred_read_replica, bytes(sent.records or b"")) == (
                0,
                near,
                b"",
            )

    run(test)
