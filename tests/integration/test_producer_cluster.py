"""The producer and a cluster that loses its leaders: all acknowledged once, none twice, none lost (CHK-2,
REP-8).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.clusters import ObservedCluster, observed_cluster
from tests.integration.peer import read_all

from ottla.client.producer.machine.delivery_report import DeliveryReport
from ottla.client.producer.producer import Producer

DEADLINE_SECONDS = 90.0
PARTITIONS = 3
RECORDS = 6_000


async def produce_while(
    cluster: ObservedCluster, topic: str, trouble: asyncio.Future[None]
) -> list[DeliveryReport]:
    """Numbered records in turns, until the trouble is over and all are delivered."""
    async with Producer(cluster.bootstrap, batch_size=4_000, linger_ms=2) as producer:
        deliveries = []
        number = 0
        while not trouble.done() or number < RECORDS:
            deliveries.append(producer.send_soon(topic, b"%d" % number, partition=number % PARTITIONS))
            await producer.drain()
            number += 1
            if number % 50 == 0:
                await asyncio.sleep(0.002)
        return [await delivery for delivery in deliveries]


def test_leaders_are_killed_with_records_in_flight(tmp_path: Path) -> None:
    with observed_cluster(tmp_path / "cluster", brokers=3) as cluster:
        cluster.create_topic("t", PARTITIONS, 3, min_insync_replicas=2)

        def trouble() -> None:
            for _ in range(2):
                victim = cluster.leader_of("t", 0)
                cluster.kill(victim)
                cluster.leader_of("t", 0)
                cluster.start_broker(victim)
                cluster.await_in_sync("t")

        async def body() -> list[DeliveryReport]:
            async with asyncio.timeout(DEADLINE_SECONDS):
                made = asyncio.get_running_loop().run_in_executor(None, trouble)
                return await produce_while(cluster, "t", made)

        reports = asyncio.run(body())
        assert len(reports) >= RECORDS
        for partition in range(PARTITIONS):
            with cluster.peer(cluster.leader_of("t", partition)) as peer:
                stored = read_all(peer, "t", partition)
            assert stored == [b"%d" % number for number in range(partition, len(reports), PARTITIONS)]
            offsets = [report.offset for report in reports if report.partition == partition]
            assert offsets == list(range(len(stored)))
