"""Images: one moment each, sharing what did not change; made from records and from nothing else."""

from uuid import UUID

from tests.unit.controller.cluster import Cluster, topic

from ottla.controller.delta import ImageDelta
from ottla.controller.image import BrokerImage, ClusterImage, ResourceType, topic_changes
from ottla.controller.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
)

ID = UUID(int=1 << 100)


def after(image: ClusterImage, *records: object) -> ClusterImage:
    delta = ImageDelta(image)
    for offset, record in enumerate(records, image.last_offset + 1):
        delta.apply(record, offset, 3)
    return delta.image()


def one_topic() -> ClusterImage:
    partition = PartitionRecord(
        0, ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=4, partition_epoch=6
    )
    return after(ClusterImage("c"), TopicRecord("a", ID), partition)


def one_broker() -> ClusterImage:
    return after(ClusterImage("c"), RegisterBrokerRecord(broker_id=1, broker_epoch=5, rack=None))


def test_an_image_remembers_the_last_record_applied() -> None:
    image = after(ClusterImage("c"), NoOpRecord(), NoOpRecord())
    assert (image.last_offset, image.last_epoch) == (1, 3)


def test_a_change_that_names_a_leader_raises_the_leader_epoch_even_if_it_is_the_same() -> None:
    for leader in (1, 2, -1):
        partition = (
            after(one_topic(), PartitionChangeRecord(0, ID, leader=leader)).topics_by_id[ID].partitions[0]
        )
        assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (leader, 5, 7)


def test_a_change_that_names_no_leader_leaves_its_epoch() -> None:
    change = PartitionChangeRecord(
        0, ID, isr=[2], replicas=[2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    partition = after(one_topic(), change).topics_by_id[ID].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 4, 7)
    assert (partition.isr, partition.replicas) == ((2,), (2, 3))
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (1,))


def test_records_about_what_is_not_there_change_nothing() -> None:
    image, other = one_topic(), UUID(int=2 << 100)
    later = after(
        image,
        RemoveTopicRecord(other),
        PartitionRecord(0, other),
        PartitionChangeRecord(0, other, leader=9),
        PartitionChangeRecord(8, ID, leader=9),
        UnregisterBrokerRecord(7, 0),
        FenceBrokerRecord(7, 0),
    )
    assert (later.topics_by_id, later.brokers) == (image.topics_by_id, {})


def test_a_topic_removed_in_the_making_stays_removed_and_may_come_again() -> None:
    new = UUID(int=2 << 100)
    later = after(
        one_topic(), RemoveTopicRecord(ID), PartitionChangeRecord(0, ID, leader=2), TopicRecord("a", new)
    )
    assert set(later.topics_by_id) == {new}
    assert later.topics_by_name["a"].topic_id == new
    assert after(later, RemoveTopicRecord(new)).topics_by_name == {}


def test_brokers_are_fenced_unfenced_and_forgotten_by_epoch() -> None:
    image = one_broker()
    assert image.brokers[1].is_fenced

    def broker(*records: object) -> BrokerImage | None:
        return after(image, *records).brokers.get(1)

    assert broker(UnfenceBrokerRecord(1, 5)) != broker(UnfenceBrokerRecord(1, 4))
    unfenced = after(image, BrokerRegistrationChangeRecord(1, 5, fenced=-1))
    assert [item.node_id for item in unfenced.live_brokers] == [1]
    assert after(unfenced, FenceBrokerRecord(1, 5)).live_brokers == []
    stopping = after(image, BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=1))
    assert stopping.brokers[1].in_controlled_shutdown
    assert broker(UnregisterBrokerRecord(1, 4)) is not None
    assert broker(UnregisterBrokerRecord(1, 5)) is None


def test_a_feature_at_level_0_is_no_feature() -> None:
    image = after(ClusterImage("c"), FeatureLevelRecord("f", 2))
    assert image.features == {"f": 2}
    assert after(image, FeatureLevelRecord("f", 0)).features == {}


def test_an_older_image_is_not_touched_by_what_comes_later() -> None:
    cluster = Cluster()
    cluster.create(topic("a", 2, retention_ms="1"))
    before = cluster.image
    name, config = before.topics_by_name["a"], before.config_of(ResourceType.TOPIC, "a")
    cluster.commit(CreatePartitionsRequest([CreatePartitionsTopic("a", 3, None)]))
    cluster.controller.replay(ConfigRecord(ResourceType.TOPIC, "a", "retention.ms", "2"), 99)
    cluster.commit(DeleteTopicsRequest(topic_names=["a"]))
    assert before.topics_by_name["a"] is name
    assert len(name.partitions) == 2
    assert config == {"retention.ms": "1"}


def test_images_share_the_topics_and_settings_that_did_not_change() -> None:
    cluster = Cluster()
    cluster.create(topic("a", retention_ms="1"), topic("b"))
    before = cluster.image
    cluster.create(topic("c"))
    assert cluster.image.topics_by_name["a"] is before.topics_by_name["a"]
    assert cluster.image.configs is before.configs


def test_changes_between_images_name_what_went_came_and_grew() -> None:
    cluster = Cluster()
    cluster.create(topic("gone"), topic("anew"), topic("grown"), topic("same"))
    before = cluster.image
    assert topic_changes(before, before) == ([], [])
    cluster.commit(DeleteTopicsRequest(topic_names=["gone", "anew"]))
    cluster.create(topic("anew"), topic("new"))
    cluster.commit(CreatePartitionsRequest([CreatePartitionsTopic("grown", 2, None)]))
    changes = topic_changes(before, cluster.image)
    assert {item.name for item in changes.removed} == {"gone", "anew"}
    assert {item.name for item in changes.changed} == {"anew", "new", "grown"}


def test_a_partition_is_found_by_its_index_and_no_other() -> None:
    found = one_topic().topics_by_name["a"]
    assert found.partition(0) is found.partitions[0]
    assert found.partition(1) is found.partition(-1) is None
