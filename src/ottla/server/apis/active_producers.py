"""DescribeProducers, version 0 (KIP-664): the producers that a leader knows, and their open transactions."""

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.producer_state import ProducerEntry
from ottla.model import NO_EPOCH
from ottla.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()


@api.handles(DescribeProducersRequest)
def describe_producers(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """The producers of each partition that this broker leads."""
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[_describe(context, topic.name, index) for index in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        partition = context.services.partitions.by_name(topic, index)
        error = partition.replica.fetch_error(NO_EPOCH)
        if error:
            raise KafkaError(error)
    except KafkaError as refused:
        return PartitionResponse(
            partition_index=index, error_code=refused.code, error_message=refused.message
        )
    producers = [_state(producer_id, entry) for producer_id, entry in partition.log.producers.items()]
    return PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=producers)


def _state(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )
