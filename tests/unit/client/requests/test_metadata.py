from __future__ import annotations

from uuid import UUID

import pytest

from ottla.client.requests.metadata import (
    BrokerInfo,
    PartitionInfo,
    TopicInfo,
    cluster_metadata,
    metadata_request,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = UUID(int=7)


def test_a_response_becomes_plain_values_in_order() -> None:
    partitions = [
        MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[2], offline_replicas=[2]),
        MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1]
        ),
    ]
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=9, rack="r")],
        cluster_id="c",
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", topic_id=ID, partitions=partitions)],
    )
    metadata = cluster_metadata(response)
    assert (metadata.cluster_id, metadata.controller_id) == ("c", 1)
    assert metadata.brokers == (BrokerInfo(1, "h", 9, "r"),)
    assert str(metadata.brokers[0].address) == "h:9"
    topic = metadata.topics["t"]
    assert isinstance(topic, TopicInfo)
    assert topic.replication_factor == 2
    assert topic.partitions == (
        PartitionInfo(0, 1, 4, (1, 2), (1,)),
        PartitionInfo(1, None, -1, (2,), (), (2,)),
    )


def test_an_absent_controller_is_none() -> None:
    assert cluster_metadata(MetadataResponse(controller_id=-1)).controller_id is None


def test_an_unknown_topic_is_named_in_its_error() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(name="nix", error_code=3)])
    error = cluster_metadata(response).topics["nix"]
    assert isinstance(error, KafkaError)
    assert error.message == 'there is no topic "nix"'


def test_an_error_for_the_whole_answer_is_raised() -> None:
    with pytest.raises(KafkaError) as caught:
        cluster_metadata(MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    assert caught.value.code == ErrorCode.REBOOTSTRAP_REQUIRED


def test_asking_never_creates_a_topic() -> None:
    assert metadata_request(["t"]).allow_auto_topic_creation is False
    assert metadata_request(None).topics is None
    assert metadata_request([]).topics == []
