"""A snapshot is the image (CTL-4); the property test of the whole controller takes one after every
command.
"""

from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, numbered_uuids, registration, topic

from ottla.config import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.controller.records import FeatureLevelRecord, decode_record, encode_record
from ottla.controller.snapshot import snapshot_records
from ottla.protocol.messages.acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest


def loaded(image: ClusterImage, controller: Controller | None = None) -> ClusterImage:
    """The image after a snapshot went through its bytes."""
    if controller is None:
        controller = Controller(NODE_ID, CLUSTER_ID, BrokerConfig(), numbered_uuids())
    values = [encode_record(record) for record in snapshot_records(image)]
    controller.load_snapshot(map(decode_record, values), image.last_offset, image.last_epoch)
    return controller.image


def eventful() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.join(registration(7, rack="r", capacity=5, directory=27))
    cluster.create(topic("b", 3, 2, retention_ms="5"), topic("a", 2, 1))
    change = IncrementalAlterableConfig("log.segment.bytes", 0, "1000000")
    cluster.commit(IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(4, "", [change])]))
    cluster.commit(AllocateProducerIdsRequest(1, cluster.image.brokers[1].epoch))
    cluster.commit(CreateAclsRequest([AclCreation(2, "b", 4, "User:alice", "*", 3, 3)]))
    quota = EntryData(
        [EntityData("user", "alice"), EntityData("client-id", None)], [OpData("producer_byte_rate", 5.0)]
    )
    cluster.commit(AlterClientQuotasRequest([quota]))
    target = [ReassignableTopic("b", [ReassignablePartition(0, [7, 2])])]
    cluster.commit(AlterPartitionReassignmentsRequest(topics=target))
    cluster.heartbeat(2, want_shut_down=True)
    cluster.heartbeat(7, is_offline=True)
    cluster.fence(3)
    return cluster


def test_a_snapshot_makes_an_equal_image() -> None:
    image = eventful().image
    assert loaded(image) == image
    assert any(broker.is_fenced for broker in image.brokers.values())
    assert any(broker.in_controlled_shutdown for broker in image.brokers.values())
    assert any(broker.is_directory_offline for broker in image.brokers.values())
    assert any(partition.is_moving for _, partition in image.partitions())


def test_a_snapshot_begins_with_the_level_of_its_metadata() -> None:
    assert next(snapshot_records(eventful().image)) == FeatureLevelRecord("metadata.version", 23)


def test_a_snapshot_replaces_what_was_known() -> None:
    other = Cluster(brokers=1)
    other.create(topic("z"))
    image = eventful().image
    assert loaded(image, other.controller) == image


def test_an_empty_image_has_an_empty_snapshot() -> None:
    empty = ClusterImage(CLUSTER_ID)
    assert list(snapshot_records(empty)) == []
    assert loaded(empty) == empty


def test_the_log_goes_on_after_a_snapshot() -> None:
    cluster = eventful()
    copy = Controller(NODE_ID, CLUSTER_ID, BrokerConfig(), numbered_uuids())
    loaded(cluster.image, copy)
    known = len(cluster.log)
    cluster.create(topic("later"))
    cluster.fence(1)
    for offset, record in enumerate(cluster.log[known:], known):
        copy.replay(record, offset)
    assert copy.image == cluster.image
