"""Blocks of producer ids (PRO-4)."""

from tests.unit.controller.cluster import Cluster

from ottla.errors import ErrorCode
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest


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
