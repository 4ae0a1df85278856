"""Brokers come and ask for producer ids.

BrokerRegistration (KIP-631) and AllocateProducerIds (KIP-730): commands of brokers, never taken from clients.
Until heartbeats exist a broker serves as soon as it is registered; it takes the place of its own former self.
"""

from typing import Any, Final

from ottla.config import LONG_MAX
from ottla.controller.decision import Decision
from ottla.controller.image import BrokerImage, ClusterImage
from ottla.controller.records import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from ottla.errors import ErrorCode
from ottla.protocol.messages.brokers import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

# As in Kafka: a broker that restarts loses the rest of its block, and 2^63 ids allow for that.
PRODUCER_ID_BLOCK: Final = 1000


def register_broker(image: ClusterImage, request: BrokerRegistrationRequest) -> Decision:
    """Take a broker into the cluster; its epoch is the offset that its registration will have."""
    if request.cluster_id != image.cluster_id:
        return Decision([], BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    former = image.brokers.get(request.broker_id)
    records: list[Any] = []
    if METADATA_VERSION_FEATURE not in image.features:
        records.append(FeatureLevelRecord(METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL))
    epoch = image.last_offset + 1 + len(records)
    records.append(_registration(request, epoch))
    if former is not None and not _stopped_cleanly(former, request):
        records += _renewed_leaderships(image, request.broker_id)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _registration(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(item.name, item.host, item.port, item.security_protocol)
            for item in request.listeners
        ],
        features=[
            BrokerFeature(item.name, item.min_supported_version, item.max_supported_version)
            for item in request.features
        ],
        rack=request.rack,
        fenced=False,
    )


def _stopped_cleanly(former: BrokerImage, request: BrokerRegistrationRequest) -> bool:
    """A broker that knows its former epoch wrote it down when it stopped; a repeated request is no restart."""
    return request.previous_broker_epoch == former.epoch or request.incarnation_id == former.incarnation_id


def _renewed_leaderships(image: ClusterImage, node_id: int) -> list[Any]:
    """Raise the leader epoch of what a crashed broker led.

    It may have lost records that were not on disk, and will give their offsets to others. Under a new epoch a reader
    that had seen the lost ones can tell (OffsetForLeaderEpoch); under the old one it could not.
    """
    return [
        PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id, leader=node_id)
        for topic in image.topics_by_id.values()
        for partition in topic.partitions
        if partition.leader == node_id
    ]


def allocate_producer_ids(image: ClusterImage, request: AllocateProducerIdsRequest) -> Decision:
    """Give a broker a block of producer ids that nobody else gets."""
    error = _allocation_error(image, request)
    if error:
        return Decision([], AllocateProducerIdsResponse(error_code=error))
    start = image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, start + PRODUCER_ID_BLOCK)
    response = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=PRODUCER_ID_BLOCK)
    return Decision([record], response)


def _allocation_error(image: ClusterImage, request: AllocateProducerIdsRequest) -> ErrorCode:
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if broker.epoch != request.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if image.next_producer_id > LONG_MAX - PRODUCER_ID_BLOCK:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE
