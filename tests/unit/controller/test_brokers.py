"""Registration of brokers and blocks of producer ids (CTL-1 in part, PRO-4)."""

from tests.unit.controller.cluster import Cluster, registration, topic

from ottla.controller.records import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord
from ottla.errors import ErrorCode
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest


def test_a_log_begins_with_the_level_of_its_metadata() -> None:
    cluster = Cluster(brokers=2)
    assert [type(record) for record in cluster.log] == [
        FeatureLevelRecord,
        RegisterBrokerRecord,
        RegisterBrokerRecord,
    ]
    assert cluster.image.features == {"metadata.version": 14}


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    cluster = Cluster(brokers=0)
    response = cluster.commit(registration(1))
    assert response.broker_epoch == 1
    assert cluster.log[1].broker_epoch == 1
    again = cluster.commit(registration(1, incarnation=2))
    assert again.broker_epoch == 2
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.is_fenced) == (2, False)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("host1", 9092)


def test_a_broker_of_another_cluster_is_refused() -> None:
    cluster = Cluster()
    request = registration(2)
    request.cluster_id = "another"
    assert cluster.commit(request).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert set(cluster.image.brokers) == {1}


def test_a_broker_that_crashed_leads_under_a_new_epoch() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("a", 2))
    cluster.commit(registration(1, incarnation=9))
    epochs = {partition.leader: partition.leader_epoch for partition in cluster.topic("a").partitions}
    assert epochs == {1: 1, 2: 0}


def test_a_broker_that_stopped_cleanly_leads_on_under_the_same_epoch() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    epoch = cluster.image.brokers[1].epoch
    cluster.commit(registration(1, incarnation=9, previous_epoch=epoch))
    assert cluster.topic("a").partitions[0].leader_epoch == 0
    cluster.commit(registration(1, incarnation=9))
    assert not any(isinstance(record, PartitionChangeRecord) for record in cluster.log)


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    cluster = Cluster()
    request = AllocateProducerIdsRequest(1, cluster.image.brokers[1].epoch)
    blocks = [cluster.commit(request) for _ in range(3)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    assert cluster.image.next_producer_id == 3000


def test_producer_ids_are_not_given_to_strangers_nor_to_a_brokers_former_self() -> None:
    cluster = Cluster()
    unknown = cluster.commit(AllocateProducerIdsRequest(7, 0))
    stale = cluster.commit(AllocateProducerIdsRequest(1, 0))
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.image.next_producer_id == 0
