"""Topics, partitions, configs, offsets and the cluster, asked by each client that has an admin part (CTL-7,
CTL-6).
"""

from __future__ import annotations

import time

from tests.clients.catalogue import families
from tests.clients.conftest import MakeTopic
from tests.clients.model import AtTime, Client, Message, RefusedError

from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until

TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5  # DescribeConfigs' numbers


def is_gone(client: Client, topic: str) -> bool:
    try:
        client.describe_topic(topic)
    except RefusedError as refused:
        return refused.code == "UNKNOWN_TOPIC_OR_PARTITION"
    return False


@families("admin")
def test_a_topic_is_created_described_and_deleted(client: Client, reference: Client, topic_name: str) -> None:
    client.create_topic(topic_name, 4, configs={"retention.ms": "3600000"})
    leaders = client.describe_topic(topic_name)
    assert set(leaders) == {0, 1, 2, 3}
    assert len(set(leaders.values())) == 1
    client.delete_topic(topic_name)
    wait_until(lambda: is_gone(reference, topic_name), f"{topic_name} is gone")


@families("admin")
def test_a_topic_created_again_under_its_old_name_is_empty(
    client: Client, reference: Client, topic_name: str
) -> None:
    client.create_topic(topic_name, 1)
    client.produce(topic_name, [Message(b"of the old topic")] * 3)
    client.delete_topic(topic_name)
    wait_until(lambda: is_gone(reference, topic_name), f"{topic_name} is gone")
    client.create_topic(topic_name, 1)
    client.produce(topic_name, [Message(b"of the new topic")])
    assert [(record.offset, record.value) for record in client.consume(topic_name, 1)] == [
        (0, b"of the new topic")
    ]


@families("admin")
def test_partitions_are_added_and_can_be_written_to(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    client.add_partitions(topic, 3)
    assert set(client.describe_topic(topic)) == {0, 1, 2}
    client.produce(topic, [Message(b"third")], partition=2)
    assert client.consume(topic, 1, partition=2)[0].value == b"third"


@families("admin")
def test_configs_are_described_with_their_source(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="7200000", cleanup_policy="compact")
    configs = client.describe_configs(topic)
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("7200000", TOPIC_CONFIG)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].source) == ("compact", TOPIC_CONFIG)
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].source) == (
        "1048588",
        DEFAULT_CONFIG,
    )
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["compression.type"].value == "producer"
    assert configs["message.timestamp.type"].value == "CreateTime"
    assert configs["min.insync.replicas"].value == "1"


@families("alter_configs")
def test_alter_configs_replaces_everything_that_was_set(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="7200000")
    client.alter_configs(topic, {"segment.bytes": "2097152"})
    configs = client.describe_configs(topic)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].source) == ("2097152", TOPIC_CONFIG)
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("604800000", DEFAULT_CONFIG)


@families("incremental_alter_configs")
def test_incremental_alter_configs_changes_only_what_is_named(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="7200000", segment_ms="100000000")
    client.incremental_alter_configs(topic, {"segment.bytes": "2097152", "segment.ms": None})
    configs = client.describe_configs(topic)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].source) == ("2097152", TOPIC_CONFIG)
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("7200000", TOPIC_CONFIG)
    assert (configs["segment.ms"].value, configs["segment.ms"].source) == ("604800000", DEFAULT_CONFIG)


@families("incremental_alter_configs")
def test_a_changed_limit_holds_for_the_next_record(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Message(b"x" * 5000)])
    client.incremental_alter_configs(topic, {"max.message.bytes": "2000"})

    def refuses_large_records() -> bool:
        try:
            client.produce(topic, [Message(b"x" * 5000)])
        except RefusedError as refused:
            return refused.code == "MESSAGE_TOO_LARGE"
        return False

    wait_until(refuses_large_records, "the new limit holds")
    client.produce(topic, [Message(b"x" * 1000)])


@families("delete_records")
def test_records_are_deleted_up_to_an_offset(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, [Message(str(n).encode()) for n in range(10)])
    assert client.delete_records(topic, 0, 4) == 4
    assert reference.list_offset(topic, 0, "earliest") == 4
    assert [record.offset for record in client.consume(topic, 6)] == [4, 5, 6, 7, 8, 9]
    assert client.delete_records(topic, 0, 2) == 4  # already gone: nothing to do, and no error
    assert client.delete_records(topic, 0, -1) == 10  # -1: up to the high watermark
    assert reference.list_offset(topic, 0, "earliest") == 10


@families("list_offsets")
def test_offsets_are_listed_for_earliest_latest_and_a_time(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert [client.list_offset(topic, 0, "earliest"), client.list_offset(topic, 0, "latest")] == [0, 0]
    start_ms = int(time.time() * 1000) - 100_000
    for n in range(5):
        reference.produce(topic, [Message(b"timed", timestamp_ms=start_ms + n * 1000)])
    reference.delete_records(topic, 0, 1)
    assert client.list_offset(topic, 0, "earliest") == 1
    assert client.list_offset(topic, 0, "latest") == 5
    assert client.list_offset(topic, 0, AtTime(start_ms + 2500)) == 3
    assert client.list_offset(topic, 0, AtTime(0)) == 1


@families("list_offsets", "admin")
def test_a_time_after_the_last_record_has_no_offset(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, [Message(b"now")])
    assert client.list_offset(topic, 0, AtTime(int(time.time() * 1000) + 3_600_000)) == -1


@families("max_timestamp")
def test_the_offset_of_the_greatest_timestamp_is_listed(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    now_ms = int(time.time() * 1000)
    for age_ms in (5000, 1000, 3000):
        reference.produce(topic, [Message(b"timed", timestamp_ms=now_ms - age_ms)])
    assert client.list_offset(topic, 0, "max_timestamp") == 1


@families("describe_cluster")
def test_the_cluster_is_described(client: Client, broker: BrokerProcess) -> None:
    cluster = client.describe_cluster()
    assert len(cluster.cluster_id) == 22
    ((host, port),) = cluster.nodes.values()
    assert (host in ("127.0.0.1", "localhost"), port) == (True, broker.port)
    assert cluster.controller_id in cluster.nodes


@families("log_dirs")
def test_the_bytes_of_each_partition_are_described(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    reference.produce(topic, [Message(b"x" * 10_000)], partition=1)
    sizes = client.log_dirs(topic)
    assert sizes[0] == 0
    assert 10_000 < sizes[1] < 11_000
