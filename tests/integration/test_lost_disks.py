"""Disks and unflushed writes that are lost while processes die: nothing acknowledged is lost, and the replicas
that hold everything lead again by themselves (REP-9).
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from tests.chaos.replicas import read_partition
from tests.clusters import ObservedCluster, eventually, observed_cluster

from ottla.cli.main import ottla
from ottla.log.directory import BOOT_ID

SETTINGS = {"broker.session.timeout.ms": "2000", "replica.lag.time.max.ms": "2000"}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedCluster]:
    """Four brokers, of which three vote; every test leaves all of them running."""
    with observed_cluster(tmp_path_factory.mktemp("disks"), brokers=4, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def topic(cluster: ObservedCluster) -> str:
    """One partition on three brokers, which broker 1 leads."""
    return create(cluster, [1, 2, 3])


def create(cluster: ObservedCluster, replicas: list[int], **settings: Any) -> str:
    """A topic of one partition; underscores stand for the dots in names of settings."""
    name = f"topic{next(_NUMBERS)}"
    cluster.create_topic(name, replicas=replicas, **settings)
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
    start(cluster, 1, 2, 4)
    eventually(lambda: is_led_by(cluster, topic, 1, 2), "a broker with its disk leads")
    start(cluster, 3)
    cluster.await_in_sync(topic)
    write(cluster, topic, range(500, 600))
    assert read(cluster, topic) == list(range(600))


def test_the_last_in_sync_loses_its_disk(cluster: ObservedCluster, topic: str) -> None:
    flushed = create(cluster, [1, 2, 3], ottla_flush_on_acks_all="true")
    write(cluster, topic, range(200))
    cluster.kill(1)
    eventually(lambda: cluster.partitions(topic)[0].isr == (2, 3), "broker 1 is out of sync")
    write(cluster, topic, range(200, 400))
    write(cluster, flushed, range(100))
    cluster.kill(2)
    cluster.kill(3)
    lose_disk(cluster, 3)
    # Broker 1 misses records, and broker 3 has none: only broker 2 can lead.
    start(cluster, 1, 3, 2)
    cluster.await_in_sync(topic)
    cluster.await_in_sync(flushed)
    assert read(cluster, topic) == list(range(400))
    assert read(cluster, flushed) == list(range(100))


def test_all_are_killed_and_a_machine_loses_power(cluster: ObservedCluster, topic: str) -> None:
    write(cluster, topic, range(500))
    kill_all(cluster)
    lose_power(cluster, 1, topic)
    start(cluster, 2, 3, 4)
    start(cluster, 1)
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(500))


def recover(cluster: ObservedCluster, topic: str, *options: str) -> dict[str, Any]:
    """What `ottla cluster recover` says about the only partition of a topic; nothing while it has a leader."""
    arguments = ["cluster", "recover", "--bootstrap", cluster.bootstrap, "--topic", topic, "--json", *options]
    result = CliRunner().invoke(ottla, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["partitions"]
    return dict(found[0]) if found else {}


def await_all_candidates(cluster: ObservedCluster, topic: str) -> None:
    """Wait until a partition has no leader, and all its replicas can be asked about their logs."""
    eventually(lambda: recover(cluster, topic).get("silent") == {}, "all replicas answer, and none leads")


def test_all_machines_lose_power_and_an_operator_decides(cluster: ObservedCluster, topic: str) -> None:
    flushed = create(cluster, [3, 2, 1], ottla_flush_on_acks_all="true")
    write(cluster, topic, range(500))
    balanced = create(cluster, [2, 1, 3], unclean_recovery_strategy="Balanced")
    write(cluster, flushed, range(100))
    write(cluster, balanced, range(100))
    kill_all(cluster)
    lose_power(cluster, 1, topic)
    lose_power(cluster, 2, topic)
    for node_id in (3, 4):
        (cluster.directory_of(node_id) / BOOT_ID).write_text("another boot")
    start(cluster, 1, 2, 4)
    eventually(lambda: is_led_by(cluster, topic, -1), "no replica is trusted")
    assert list(recover(cluster, topic)["silent"]) == ["3"]
    start(cluster, 3)
    await_all_candidates(cluster, topic)
    seen = recover(cluster, topic)
    ends = {each["node_id"]: each["log_end_offset"] for each in seen["candidates"]}
    assert (seen["isr"], seen["awaited"], seen["chosen"], seen["is_elected"]) == ([], [], 3, False)
    assert ends[3] == 500 > max(ends[1], ends[2])
    assert seen["candidates"][1]["gives_up"]["3"] == 500 - max(ends[1], ends[2])
    doctor = CliRunner().invoke(ottla, ["doctor", "--bootstrap", cluster.bootstrap])
    assert f"ottla cluster recover --bootstrap HOST:PORT --topic {topic} --partition 0" in doctor.output
    assert recover(cluster, topic, "--yes")["is_elected"]
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(500))
    # The longest log is elected where that is the strategy, and any where acknowledged means flushed.
    cluster.await_in_sync(balanced)
    assert read(cluster, balanced) == list(range(100))
    cluster.await_in_sync(flushed)
    assert read(cluster, flushed) == list(range(100))


def test_the_only_replica_in_sync_is_lost_and_an_operator_decides(cluster: ObservedCluster) -> None:
    topic = create(cluster, [3, 4], min_insync_replicas="1")
    write(cluster, topic, range(100))
    cluster.kill(3)
    eventually(lambda: cluster.partitions(topic)[0].isr == (4,), "broker 3 is out of sync")
    write(cluster, topic, range(100, 150))
    cluster.kill(4)
    start(cluster, 3)
    eventually(lambda: recover(cluster, topic).get("awaited") == [4], "broker 4 is waited for")
    start(cluster, 4)
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(150))
    cluster.kill(3)
    eventually(lambda: cluster.partitions(topic)[0].isr == (4,), "broker 3 is out of sync")
    write(cluster, topic, range(150, 200))
    cluster.kill(4)
    lose_disk(cluster, 4)
    start(cluster, 3, 4)
    await_all_candidates(cluster, topic)
    assert recover(cluster, topic, "--yes")["chosen"] == 3
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(150))


def test_two_disks_are_lost_and_an_operator_decides(cluster: ObservedCluster) -> None:
    topic = create(cluster, [3, 4, 1])
    write(cluster, topic, range(100))
    cluster.kill(1)
    eventually(lambda: cluster.partitions(topic)[0].isr == (3, 4), "broker 1 is out of sync")
    write(cluster, topic, range(100, 150))
    cluster.kill(3)
    cluster.kill(4)
    lose_disk(cluster, 3)
    lose_disk(cluster, 4)
    start(cluster, 1, 3, 4)
    await_all_candidates(cluster, topic)
    assert recover(cluster, topic, "--yes")["chosen"] == 1
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(100))


def test_the_last_leader_finds_damaged_records(cluster: ObservedCluster) -> None:
    topic = create(cluster, [3, 4, 1])
    write(cluster, topic, range(100))
    cluster.kill(1)
    eventually(lambda: cluster.partitions(topic)[0].isr == (3, 4), "broker 1 is out of sync")
    write(cluster, topic, range(100, 150))
    cluster.kill(4)
    eventually(lambda: cluster.partitions(topic)[0].isr == (3,), "broker 4 is out of sync")
    cluster.kill(3)
    (log,) = (cluster.directory_of(3) / f"{topic}-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    start(cluster, 1, 3)
    eventually(lambda: recover(cluster, topic).get("awaited") == [4], "broker 4 is waited for")
    start(cluster, 4)
    cluster.await_in_sync(topic)
    assert read(cluster, topic) == list(range(150))
