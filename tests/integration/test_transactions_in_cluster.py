"""Transactions go on while brokers die: the coordinator, and the leader of a partition (EOS-1)."""

import asyncio
from pathlib import Path

import aiokafka
from tests.integration.replicas import Cluster, running

from ottla.localcluster.ports import HOST

NODES = (1, 2, 3)
STATE = "__transaction_state"
SMALL = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}
DEADLINE_S = 60.0


def bootstrap(cluster: Cluster) -> list[str]:
    return [f"{HOST}:{node.port}" for node in cluster.nodes.values() if node.is_running]


async def read_committed(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap(cluster),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        group_id=None,
    )
    await consumer.start()
    try:
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


def test_transactions_survive_the_coordinator_and_the_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SMALL) as cluster:
            await cluster.create_topic(STATE, (1, 2, 3), cleanup_policy="compact", min_insync_replicas=1)
            await cluster.create_topic("t", (2, 3, 1))
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap(cluster), transactional_id="mine", request_timeout_ms=5000
            )
            await producer.start()
            try:
                async with producer.transaction():
                    await producer.send_and_wait("t", b"before")
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"while the coordinator dies")
                await cluster.kill(1)
                await producer.commit_transaction()
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"aborted")
                await producer.abort_transaction()
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"while the leader dies")
                await cluster.start_node(1)
                await cluster.kill(2)
                await producer.commit_transaction()
            finally:
                await producer.stop()
            assert await read_committed(cluster, "t", 3) == [
                b"before",
                b"while the coordinator dies",
                b"while the leader dies",
            ]

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))
