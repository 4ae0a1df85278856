"""Brokers that keep everything in memory: nothing on disk, a limit, and what a restart loses (OPS-1)."""

import os
import re
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, PartitionMetadata
from tests.integration.command_line import OTTLA, ottla

from ottla.localcluster.broker_process import BrokerProcess, running, spawn
from ottla.localcluster.launch import running_cluster
from ottla.localcluster.plan.cluster import ClusterOptions
from ottla.localcluster.waiting import wait_until

LIMIT_BYTES = 16 << 20
VALUE_BYTES = 10_000
DEADLINE_S = 30.0


def started(output: Path) -> BrokerProcess:
    limit = ("--set", f"ottla.memory.bytes={LIMIT_BYTES}")
    broker = spawn("memory", [OTTLA, "serve", "--memory", "--port", "0", *limit], output, output, 0)
    wait_until(lambda: "is ready" in broker.said(), "the broker is ready", DEADLINE_S)
    found = re.search(r"ready at localhost:(\d+)", broker.said())
    assert found is not None
    broker.port = int(found[1])
    return broker


def directory_of(broker: BrokerProcess) -> Path:
    found = re.search(r"bytes, at (\S+)\)", broker.said())
    assert found is not None
    return Path(found[1])


def produce(bootstrap: str, topic: str, values: list[bytes]) -> list[confluent_kafka.KafkaError]:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failures: list[confluent_kafka.KafkaError] = []

    def report(error: confluent_kafka.KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(DEADLINE_S) == 0
    return failures


def consume(bootstrap: str, topic: str, last: bytes) -> list[bytes]:
    """The records from the first one on, up to the one with this value."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    read: list[bytes] = []

    def is_at_end() -> bool:
        read.extend(each.value() for each in consumer.consume(1000, 0.5) if each.error() is None)
        return read[-1:] == [last]

    wait_until(is_at_end, f"the last record of {topic} is read", DEADLINE_S)
    consumer.close()
    return read


def test_a_broker_in_memory_keeps_the_newest_records_within_its_limit(tmp_path: Path) -> None:
    with running(started(tmp_path / "first")) as broker:
        assert "all data is in memory: it is lost when this process ends" in broker.said()
        values = [b"%06d" % number + os.urandom(VALUE_BYTES) for number in range(4000)]
        assert produce(broker.bootstrap, "t", values) == []
        directory = directory_of(broker)
        kept = consume(broker.bootstrap, "t", values[-1])
        assert 100 < len(kept) < len(values)
        assert kept == values[-len(kept) :]
        used = sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())
        assert used <= LIMIT_BYTES + (1 << 20)
        assert broker.stop() == 0
        assert not directory.exists()
        assert not (tmp_path / "ottla-data").exists()
    with running(started(tmp_path / "second")) as broker:
        killed = directory_of(broker)
        broker.kill()
        assert killed.exists()
    with running(started(tmp_path / "third")) as broker:
        assert not killed.exists()
        assert (
            AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=DEADLINE_S).topics == {}
        )


def test_memory_and_a_directory_are_not_both() -> None:
    refused = ottla("serve", "--memory", "--data", "somewhere", "--port", "0")
    assert refused.returncode == 2
    assert "log.dirs cannot be set together with ottla.memory.bytes" in refused.stderr


def test_a_broker_of_a_cluster_in_memory_comes_back_empty_and_nothing_is_lost(tmp_path: Path) -> None:
    options = ClusterOptions(port=0, settings={"ottla.memory.bytes": str(64 << 20)})
    with running_cluster(tmp_path, options) as cluster:
        values = [b"%d" % number for number in range(500)]
        assert produce(cluster.bootstrap, "t", values) == []
        leader = partition_of(cluster.bootstrap).leader
        cluster.kill(leader)
        cluster.start_broker(leader)
        wait_until(lambda: is_whole(cluster.bootstrap), "every replica is in sync", DEADLINE_S)
        assert consume(cluster.bootstrap, "t", values[-1]) == values
        assert list(tmp_path.rglob("*.index")) == []


def partition_of(bootstrap: str) -> PartitionMetadata:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=DEADLINE_S).topics
    return topics["t"].partitions[0]


def is_whole(bootstrap: str) -> bool:
    partition = partition_of(bootstrap)
    return len(partition.isrs) == len(partition.replicas) == 3
