from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest
from tests.unit.wire.fake_broker import HANG_UP, SILENCE, FakeBroker, all_versions

from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ResourceType,
)
from ottla.client.requests.offsets import HIGH_WATERMARK, ListedOffset, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import CreatedTopic, NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.frame import RequestHeader
from ottla.protocol.messages import api_versions, cluster, configs, list_offsets, metadata, topics
from ottla.wire.connection import CannotConnectError
from ottla.wire.stream import ConnectionLostError

T = TypeVar("T")
ID = UUID(int=7)


def asked(broker: FakeBroker, question: Callable[[Admin], Awaitable[T]], *, timeout_ms: int = 10_000) -> T:
    """Open the broker, ask it through an Admin, and see that nothing is left behind."""

    async def body() -> T:
        async with broker, Admin(f"127.0.0.1:{broker.port}", timeout_ms=timeout_ms) as admin:
            answer = await question(admin)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return answer

    return asyncio.run(body())


def cluster_of(broker: FakeBroker, *partitions: metadata.MetadataResponsePartition) -> FakeBroker:
    """A cluster of this one broker, number 1, with a topic t of these partitions."""

    def answer(request: metadata.MetadataRequest, header: RequestHeader) -> metadata.MetadataResponse:
        names = ["t"] if request.topics is None else [topic.name for topic in request.topics]
        found = [
            metadata.MetadataResponseTopic(name=name, topic_id=ID, partitions=list(partitions))
            if name == "t"
            else metadata.MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for name in names
        ]
        itself = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)
        return metadata.MetadataResponse(brokers=[itself], cluster_id="c", controller_id=1, topics=found)

    return broker.on(metadata.MetadataRequest, answer)


def led(index: int, leader: int = 1) -> metadata.MetadataResponsePartition:
    return metadata.MetadataResponsePartition(
        partition_index=index, leader_id=leader, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
    )


def test_create_topics_sends_what_was_asked_and_answers_for_each() -> None:
    made = topics.CreatableTopicResult(name="a", topic_id=ID, num_partitions=3, replication_factor=1)
    there = topics.CreatableTopicResult(name="b", error_code=36, error_message="b is there")
    broker = FakeBroker().on(topics.CreateTopicsRequest, topics.CreateTopicsResponse(topics=[there, made]))
    wanted = [NewTopic("a", 3, 1, {"retention.ms": "5"}), NewTopic("b", assignments={0: [1]})]
    outcomes = asked(broker, lambda admin: admin.create_topics(wanted))
    assert list(outcomes) == ["a", "b"]
    assert outcomes["a"] == CreatedTopic("a", ID, 3, 1)
    assert isinstance(outcomes["b"], KafkaError)
    assert outcomes["b"].message == "b is there"
    (request,) = broker.asked_for(topics.CreateTopicsRequest)
    first, second = request.topics
    assert (first.num_partitions, first.replication_factor, first.configs[0].value) == (3, 1, "5")
    assert (second.num_partitions, second.replication_factor, second.assignments[0].broker_ids) == (
        -1,
        -1,
        [1],
    )
    assert not request.validate_only


def test_validate_only_is_passed_on() -> None:
    made = topics.CreateTopicsResponse(topics=[topics.CreatableTopicResult(name="a")])
    broker = FakeBroker().on(topics.CreateTopicsRequest, made)
    asked(broker, lambda admin: admin.create_topics([NewTopic("a")], validate_only=True))
    assert broker.asked_for(topics.CreateTopicsRequest)[0].validate_only


def test_a_creation_whose_answer_is_lost_is_not_sent_twice() -> None:
    broker = FakeBroker().on(topics.CreateTopicsRequest, HANG_UP)
    with pytest.raises(ConnectionLostError, match="closed the connection"):
        asked(broker, lambda admin: admin.create_topics([NewTopic("a")]))
    assert len(broker.asked_for(topics.CreateTopicsRequest)) == 1


@pytest.mark.parametrize("newest", [6, 5])
def test_delete_topics_speaks_the_old_and_the_new_version(newest: int) -> None:
    offered = all_versions()
    for each in offered.api_keys:
        each.max_version = newest if each.api_key == 20 else each.max_version
    answer = topics.DeleteTopicsResponse(responses=[topics.DeletableTopicResult(name="a")])
    broker = FakeBroker().on(api_versions.ApiVersionsRequest, offered).on(topics.DeleteTopicsRequest, answer)
    assert asked(broker, lambda admin: admin.delete_topics(["a"])) == {"a": None}
    (request,) = broker.asked_for(topics.DeleteTopicsRequest)
    assert [topic.name for topic in request.topics] + request.topic_names == ["a"]


def test_create_partitions_names_the_new_count() -> None:
    refused = topics.CreatePartitionsTopicResult(name="b", error_code=ErrorCode.INVALID_PARTITIONS)
    grown = topics.CreatePartitionsTopicResult(name="a")
    broker = FakeBroker().on(
        topics.CreatePartitionsRequest, topics.CreatePartitionsResponse(results=[grown, refused])
    )
    outcomes = asked(broker, lambda admin: admin.create_partitions({"a": 6, "b": 1}))
    assert outcomes["a"] is None
    assert isinstance(outcomes["b"], KafkaError)
    (request,) = broker.asked_for(topics.CreatePartitionsRequest)
    assert [(topic.name, topic.count, topic.assignments) for topic in request.topics] == [
        ("a", 6, None),
        ("b", 1, None),
    ]


def test_topics_are_listed_by_name_without_the_internal_ones() -> None:
    named = [
        metadata.MetadataResponseTopic(
            name=name, topic_id=ID, is_internal=name.startswith("__"), partitions=[led(0)]
        )
        for name in ("b", "__x", "a")
    ]
    broker = FakeBroker().on(metadata.MetadataRequest, metadata.MetadataResponse(topics=named))
    assert [topic.name for topic in asked(broker, lambda admin: admin.list_topics())] == ["a", "b"]
    everything = asked(broker, lambda admin: admin.list_topics(include_internal=True))
    assert [topic.name for topic in everything] == ["__x", "a", "b"]


def test_describing_an_unknown_topic_fails_at_once_and_alone() -> None:
    broker = cluster_of(FakeBroker(), led(0))
    outcomes = asked(broker, lambda admin: admin.describe_topics(["t", "nix"]))
    assert outcomes["t"] == succeeded({"t": outcomes["t"]})["t"]
    assert isinstance(outcomes["nix"], KafkaError)
    assert len(broker.asked_for(metadata.MetadataRequest)) == 1


def test_offsets_come_from_leaders_and_each_failure_stays_alone() -> None:
    def answer(request: list_offsets.ListOffsetsRequest, header: RequestHeader) -> Any:
        found = list_offsets.ListOffsetsPartitionResponse(
            partition_index=0, offset=5, timestamp=9, leader_epoch=2
        )
        return list_offsets.ListOffsetsResponse(
            topics=[list_offsets.ListOffsetsTopicResponse(name="t", partitions=[found])]
        )

    broker = cluster_of(FakeBroker(), led(0)).on(list_offsets.ListOffsetsRequest, answer)
    wanted = {
        TopicPartition("t", 0): OffsetSpec.MAX_TIMESTAMP,
        TopicPartition("t", 1): 7,
        TopicPartition("nix", 0): 7,
    }
    outcomes = asked(broker, lambda admin: admin.list_offsets(wanted, read_committed=True))
    assert outcomes[TopicPartition("t", 0)] == ListedOffset(5, 9, 2)
    assert "there is no partition t-1" in str(outcomes[TopicPartition("t", 1)])
    assert 'there is no topic "nix"' in str(outcomes[TopicPartition("nix", 0)])
    (request,) = broker.asked_for(list_offsets.ListOffsetsRequest)
    assert (request.replica_id, request.isolation_level) == (-1, 1)
    assert request.topics[0].partitions[0].timestamp == -3


def test_a_leader_that_moved_is_found_through_new_metadata() -> None:
    answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]

    def answer(request: topics.DeleteRecordsRequest, header: RequestHeader) -> Any:
        result = topics.DeleteRecordsPartitionResult(
            partition_index=0,
            low_watermark=4,
            error_code=answers[len(broker.asked_for(topics.DeleteRecordsRequest)) - 1],
        )
        return topics.DeleteRecordsResponse(
            topics=[topics.DeleteRecordsTopicResult(name="t", partitions=[result])]
        )

    broker = cluster_of(FakeBroker(), led(0)).on(topics.DeleteRecordsRequest, answer)
    outcomes = asked(broker, lambda admin: admin.delete_records({TopicPartition("t", 0): HIGH_WATERMARK}))
    assert outcomes == {TopicPartition("t", 0): 4}
    assert len(broker.asked_for(metadata.MetadataRequest)) == 3


def test_a_partition_without_a_leader_is_an_error_when_the_time_is_over() -> None:
    broker = cluster_of(FakeBroker(), led(0, leader=-1))
    question: Callable[[Admin], Any] = lambda admin: admin.list_offsets({TopicPartition("t", 0): -1})  # noqa: E731
    (outcome,) = asked(broker, question, timeout_ms=120).values()
    assert isinstance(outcome, KafkaError)
    assert outcome.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_settings_are_described_with_their_sources() -> None:
    synonym = configs.DescribeConfigsSynonym(name="log.retention.ms", value="7", source=5)
    setting = configs.DescribeConfigsResourceResult(
        name="retention.ms", value="5", config_source=1, synonyms=[synonym], documentation="how long"
    )
    odd = configs.DescribeConfigsResourceResult(name="odd", value=None, config_source=99, is_sensitive=True)
    result = configs.DescribeConfigsResult(resource_type=2, resource_name="t", configs=[setting, odd])
    broker = FakeBroker().on(
        configs.DescribeConfigsRequest, configs.DescribeConfigsResponse(results=[result])
    )
    resource = ConfigResource(ResourceType.TOPIC, "t")
    entries = succeeded(asked(broker, lambda admin: admin.describe_configs([resource])))[resource]
    synonyms = (ConfigSynonym("log.retention.ms", "7", ConfigSource.DEFAULT),)
    assert entries["retention.ms"] == ConfigEntry(
        "retention.ms", "5", ConfigSource.TOPIC, False, False, synonyms, "how long"
    )
    assert entries["odd"].source == ConfigSource.OTHER
    (request,) = broker.asked_for(configs.DescribeConfigsRequest)
    assert (request.include_synonyms, request.resources[0].configuration_keys) == (True, None)


def test_settings_are_changed_one_by_one() -> None:
    done = configs.IncrementalAlterConfigsResourceResponse(resource_type=4, resource_name="1")
    broker = cluster_of(FakeBroker()).on(
        configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse(responses=[done])
    )
    resource = ConfigResource(ResourceType.BROKER, "1")
    changes = {resource: [ConfigChange("a", "1"), ConfigChange("b", None, ConfigOperation.DELETE)]}
    assert asked(broker, lambda admin: admin.alter_configs(changes)) == {resource: None}
    (request,) = broker.asked_for(configs.IncrementalAlterConfigsRequest)
    sent = [(each.name, each.config_operation, each.value) for each in request.resources[0].configs]
    assert sent == [("a", 0, "1"), ("b", 1, None)]


def test_a_broker_that_is_not_in_the_cluster_is_named() -> None:
    resource = ConfigResource(ResourceType.BROKER, "9")
    with pytest.raises(KafkaError, match="there is no broker 9 in the cluster"):
        asked(cluster_of(FakeBroker()), lambda admin: admin.describe_configs([resource]))


def test_the_cluster_and_its_disks_are_described() -> None:
    itself = cluster.DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=1)
    log = cluster.DescribeLogDirsPartition(partition_index=0, partition_size=100)
    log_dir = cluster.DescribeLogDirsResult(
        log_dir="/data",
        topics=[cluster.DescribeLogDirsTopic(name="t", partitions=[log])],
        total_bytes=5,
        usable_bytes=4,
    )
    broker = cluster_of(FakeBroker())
    broker.on(
        cluster.DescribeClusterRequest, cluster.DescribeClusterResponse(cluster_id="c", brokers=[itself])
    )
    broker.on(cluster.DescribeLogDirsRequest, cluster.DescribeLogDirsResponse(results=[log_dir]))
    described = asked(broker, lambda admin: admin.describe_cluster())
    assert (described.cluster_id, described.controller_id, described.brokers[0].node_id) == ("c", None, 1)
    (found,) = succeeded(asked(broker, lambda admin: admin.describe_log_dirs()))[1]
    assert (found.path, found.error, found.usable_bytes) == ("/data", None, 4)
    assert found.replicas[TopicPartition("t", 0)].size_bytes == 100


def test_an_error_for_the_whole_cluster_is_raised() -> None:
    broken = cluster.DescribeClusterResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message="oh")
    with pytest.raises(KafkaError, match="oh"):
        asked(FakeBroker().on(cluster.DescribeClusterRequest, broken), lambda admin: admin.describe_cluster())


def test_nobody_at_the_bootstrap_addresses_is_one_sentence_with_what_to_do() -> None:
    async def body() -> None:
        async with FakeBroker() as gone:
            port = gone.port
        with pytest.raises(CannotConnectError) as caught:
            async with Admin(f"127.0.0.1:{port},no-such-host.invalid:1"):
                pass
        assert str(caught.value) == (
            f"could not reach 127.0.0.1:{port}: connection refused; could not reach no-such-host.invalid:1: no such host."
            " Is the broker running? Start one with: ottla serve"
        )

    asyncio.run(body())


def test_the_first_bootstrap_address_that_answers_is_used() -> None:
    async def body() -> None:
        async with FakeBroker() as gone:
            pass
        broker = cluster_of(FakeBroker(), led(0))
        async with broker, Admin(f"127.0.0.1:{gone.port},127.0.0.1:{broker.port}") as admin:
            assert [topic.name for topic in await admin.list_topics()] == ["t"]

    asyncio.run(body())


def test_a_connection_that_was_lost_is_opened_again() -> None:
    answers: list[Any] = [HANG_UP, cluster.DescribeClusterResponse(cluster_id="c")]
    broker = FakeBroker().on(cluster.DescribeClusterRequest, lambda *_: answers.pop(0))
    assert asked(broker, lambda admin: admin.describe_cluster()).cluster_id == "c"
    assert broker.connections == 2


def test_a_broker_that_does_not_answer_is_given_up_when_the_time_is_over() -> None:
    broker = FakeBroker().on(cluster.DescribeClusterRequest, SILENCE)
    with pytest.raises(TimeoutError, match="did not answer DESCRIBE_CLUSTER"):
        asked(broker, lambda admin: admin.describe_cluster(), timeout_ms=1000)


def test_a_bootstrap_that_is_no_address_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ValueError, match="is not a port"):
        Admin("localhost:kafka")
