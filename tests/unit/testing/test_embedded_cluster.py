"""Several brokers inside the test's process."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

import ottla
import ottla.testing


def test_a_killed_leader_loses_nothing_that_was_acknowledged() -> None:
    async def main(cluster: ottla.testing.EmbeddedCluster) -> None:
        async with ottla.Producer(cluster.bootstrap) as producer:
            for number in range(10):
                await producer.send("orders", str(number))
            leader = cluster.leader_of("orders")
            await asyncio.to_thread(cluster.kill, leader)
            for number in range(10, 20):
                await producer.send("orders", str(number))
            assert cluster.leader_of("orders") != leader
            assert leader not in cluster.running
            await asyncio.to_thread(cluster.start, leader)
            await asyncio.to_thread(cluster.wait_in_sync, "orders")

    with ottla.testing.cluster(3) as cluster:
        assert cluster.controller_id in cluster.running
        cluster.create_topic("orders", configs={"min.insync.replicas": "2"})
        asyncio.run(main(cluster))
        assert [record.value for record in cluster.records("orders")] == [b"%d" % each for each in range(20)]


def test_a_stopped_broker_hands_over_and_a_cluster_of_one_is_one() -> None:
    with ottla.testing.cluster(1) as cluster:
        cluster.create_topic("orders", partitions=2)
        assert (cluster.leader_of("orders", 1), cluster.running) == (1, [1])
        cluster.stop(1)
        assert cluster.running == []
        with pytest.raises(RuntimeError, match="no broker of the cluster is running"):
            cluster.records("orders")
        cluster.start()
        assert cluster.leader_of("orders") == 1


def test_a_port_that_is_taken_ends_the_start_at_once() -> None:
    cluster = ottla.testing.cluster(3)
    with socket.socket() as other:
        other.bind(("127.0.0.1", cluster.brokers[2].port))
        other.listen()
        begun = time.monotonic()
        with pytest.raises(OSError, match="in use"):
            cluster.start()
        assert time.monotonic() - begun < 15  # and not when the others give up waiting
    assert cluster.running == []
    cluster.start()
    assert cluster.running == [1, 2, 3]
    cluster.close()


def test_a_cluster_needs_brokers() -> None:
    with pytest.raises(ValueError, match="brokers must be at least 1"):
        ottla.testing.cluster(0)
