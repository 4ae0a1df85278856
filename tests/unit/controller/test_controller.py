"""The controller as a replicated machine: the log is the state (CTL-4)."""

from time import process_time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, numbered_uuids, registration, topic

from ottla.config import BrokerConfig
from ottla.controller.commands import FenceBrokers
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage, ResourceType
from ottla.controller.records import decode_record, encode_record
from ottla.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "bad name", ""])
SETTINGS = st.sampled_from(
    ["retention.ms", "cleanup.policy", "segment.bytes", "log.segment.bytes", "node.id", "x"]
)
VALUES = st.sampled_from(["1", "100", "-1", "compact", "delete", "", "soon"])
RESOURCES = st.sampled_from(
    [(ResourceType.TOPIC, "a"), (ResourceType.TOPIC, "b"), (ResourceType.BROKER, "")]
) | (
    st.sampled_from(
        [(ResourceType.BROKER, "1"), (ResourceType.BROKER, "9"), (ResourceType.BROKER_LOGGER, "1")]
    )
)

CREATIONS = st.builds(
    CreateTopicsRequest,
    topics=st.lists(
        st.builds(topic, NAMES, st.integers(-2, 4), st.integers(-2, 4), retention_ms=VALUES)
        | st.builds(topic, NAMES, st.integers(1, 4)),
        max_size=4,
    ),
    validate_only=st.booleans(),
)
GROWTHS = st.builds(
    CreatePartitionsRequest,
    topics=st.lists(st.builds(CreatePartitionsTopic, NAMES, st.integers(-1, 8), st.none()), max_size=3),
    validate_only=st.booleans(),
)
DELETIONS = st.builds(
    DeleteTopicsRequest,
    topics=st.lists(
        st.builds(DeleteTopicState, NAMES)
        | st.builds(DeleteTopicState, st.none(), st.integers(1, 20).map(lambda n: UUID(int=n << 100))),
        max_size=3,
    ),
)
REPLACEMENTS = st.builds(
    lambda of, configs: AlterConfigsRequest([AlterConfigsResource(of[0], of[1], configs)]),
    RESOURCES,
    st.lists(st.builds(AlterableConfig, SETTINGS, VALUES), max_size=3),
)
INCREMENTS = st.builds(
    lambda of, configs: IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsResource(of[0], of[1], configs)]
    ),
    RESOURCES,
    st.lists(st.builds(IncrementalAlterableConfig, SETTINGS, st.integers(0, 3), VALUES), max_size=3),
)
REGISTRATIONS = st.builds(registration, st.integers(1, 3), st.integers(1, 3), st.integers(-1, 30))
ALLOCATIONS = st.builds(AllocateProducerIdsRequest, st.integers(1, 3), st.integers(0, 30))
COMMANDS = CREATIONS | GROWTHS | DELETIONS | REPLACEMENTS | INCREMENTS | REGISTRATIONS | ALLOCATIONS


def replayed(log: list[Any]) -> ClusterImage:
    """The image of a controller that starts from the bytes of the log."""
    controller = Controller(NODE_ID, CLUSTER_ID, BrokerConfig(), numbered_uuids())
    for offset, record in enumerate(log):
        controller.replay(decode_record(encode_record(record)), offset)
    return controller.image


def check_indices(image: ClusterImage) -> None:
    assert {found.topic_id: found for found in image.topics_by_name.values()} == image.topics_by_id
    assert all(name == found.name for name, found in image.topics_by_name.items())
    for found in image.topics_by_id.values():
        assert found.partitions
        assert [partition.index for partition in found.partitions] == list(range(len(found.partitions)))
        for partition in found.partitions:
            assert partition.leader in partition.isr
            assert set(partition.isr) <= set(partition.replicas) <= set(image.brokers)
    named = {resource.name for resource in image.configs if resource.type == ResourceType.TOPIC}
    assert named <= set(image.topics_by_name)
    assert all(image.configs.values())


def check_progress(before: ClusterImage, after: ClusterImage) -> None:
    """Numbers that never go back."""
    assert after.next_producer_id >= before.next_producer_id
    assert after.last_offset >= before.last_offset
    for node_id, broker in before.brokers.items():
        assert after.brokers[node_id].epoch >= broker.epoch
    for topic_id, found in before.topics_by_id.items():
        later = after.topics_by_id.get(topic_id)
        if later is None:
            continue
        for old, new in zip(found.partitions, later.partitions, strict=False):
            assert new.leader_epoch >= old.leader_epoch
            assert new.partition_epoch >= old.partition_epoch
        assert len(later.partitions) >= len(found.partitions)


@settings(max_examples=60, deadline=None)
@given(st.lists(COMMANDS, max_size=25))
def test_the_log_is_the_state_whatever_was_commanded(commands: list[Any]) -> None:
    cluster = Cluster()
    seen_ids: dict[UUID, str] = {}
    for command in commands:
        before = cluster.image
        cluster.commit(command)
        check_indices(cluster.image)
        check_progress(before, cluster.image)
        for topic_id, found in cluster.image.topics_by_id.items():
            assert topic_id in before.topics_by_id or topic_id not in seen_ids, "an id was given twice"
            seen_ids[topic_id] = found.name
    assert replayed(cluster.log) == cluster.image


def test_a_long_log_is_replayed_without_drawing_an_image_for_each_record() -> None:
    cluster = Cluster()
    cluster.create(*(topic(f"t{number}", 3) for number in range(300)))
    image = replayed(cluster.log)
    assert image == cluster.image
    assert (len(image.topics_by_name), image.partition_count) == (300, 900)


def test_a_broker_with_a_thousand_partitions_is_replaced_in_little_time() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic("a", 1000, 3))
    spent = []
    for _ in range(3):
        began = process_time()
        decision = cluster.controller.command(FenceBrokers((1,)), now_ms=0)
        values = [encode_record(record) for record in decision.records]
        spent.append(process_time() - began)
    assert len(values) == 1001
    assert min(spent) < 0.1, "it takes a tenth of this on a machine that is free"


def test_a_request_that_is_no_command_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="MetadataRequest is not a command"):
        Cluster().controller.command(MetadataRequest(), now_ms=0)
