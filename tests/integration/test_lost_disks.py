"""Disks and unflushed writes that are lost while processes die: nothing acknowledged is lost, and the replicas
that hold everything lead again by themselves.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.chaos.replicas import read_partition
from tests.clusters import ObservedCluster, eventually, observed_cluster

from ottla.log.directory import BOOT_ID

SETTINGS = {"broker.session.timeout.ms": "2000", "replica.lag.time.max.ms": "2000"}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedCluster]:
    """Three brokers; every test leaves all of them running."""
    with observed_cluster(tmp_path_factory.mktemp("disks"), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(cluster: ObservedCluster) -> str:
    """One partition on three brokers, which broker 1 leads."""
    name = f"topic{next(_NUMBERS)}"
    cluster.create_topic(name, replicas=[1, 2, 3])
    return name


def write(cluster: ObservedCluster, topic: str, values: range) -> None:
    """Have records acknowledged by all in-sync replicas."""
    acknowledged = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, str(value), on_delivery=lambda error, _: acknowledged.append(error))
    producer.flush(20)
    assert acknowledged == [None] * len(values)


def read(cluster: ObservedCluster, topic: str) -> list[int]:
    with cluster.peer(cluster.leader_of(topic)) as peer:
        return [int(value) for _, value in read_partition(peer, topic, 0)]


def is_led_by(cluster: ObservedCluster, topic: str, *node_ids: int) -> bool:
    view = cluster.partitions(topic).get(0)
    return view is not None and view.leader in node_ids


def lose_disk(cluster: ObservedCluster, node_id: int) -> None:
    shutil.rmtree(cluster.directory_of(node_id))


def lose_power(cluster: ObservedCluster, node_id: int, topic: str) -> None:
    """What a machine that was switched off leaves: another boot, and a log without its unflushed end."""
    directory = cluster.directory_of(node_id)
    (directory / BOOT_ID).write_text("another boot")
    (log,) = (directory / f"{topic}-0").glob("*.log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)


def start(cluster: ObservedCluster, *node_ids: int) -> None:
    for node_id in node_ids:
        cluster.start_broker(node_id, wait=False)


def kill_all(cluster: ObservedCluster) -> None:
    for node_id in cluster.ids:
        cluster.kill(node_id)


def test_all_are_killed_and_a_disk_is_lost(cluster: ObservedCluster, topic: str) -> None:
    write(cluster, topic, range(500))
    kill_all(cluster)
    lose_disk(cluster, 3)
    start(cluster, 1, 2)
    eventually(lambda: is_led_by(cluster, topic, 1, 2), "a broker with its disk leads")
    start(cluster, 3)
    cluster.await_in_sync(topic)
    write(cluster, topic, range(500, 600))
    assert read(cluster, topic) == list(range(600))


def test_the_last_in_sync_loses_its_disk(cluster: ObservedCluster, topic: str) -> None:
    write(cluster, topic, range(200))
    cluster.kill(1)
    eventually(lambda: cluster.partitions(topic)[0].isr == (2, 3), "broker 1 is out of sync")
    write(cluster, topic, range(200, 400))
    cluster.kill(2)
    cluster.kill(3)
    lose_disk(cluster, 3)
    # Broker 1 misses records, and broker 3 has none: only broker 2 can lead.
    start(cluster, 1, 3, 2)
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(400))


def test_all_are_killed_and_a_machine_loses_power(cluster: ObservedCluster, topic: str) -> None:
    write(cluster, topic, range(500))
    kill_all(cluster)
    lose_power(cluster, 1, topic)
    start(cluster, 2, 3)
    start(cluster, 1)
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(500))
