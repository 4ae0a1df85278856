"""Blocks of producer ids for brokers: AllocateProducerIds (KIP-730), version 0, never taken from clients."""

from typing import Final

from ottla.config import LONG_MAX
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage
from ottla.controller.records import ProducerIdsRecord
from ottla.errors import ErrorCode
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

# As in Kafka: a broker that restarts loses the rest of its block, and 2^63 ids allow for that.
PRODUCER_ID_BLOCK: Final = 1000


def allocate_producer_ids(image: ClusterImage, request: AllocateProducerIdsRequest) -> Decision:
    """Give a broker a block of producer ids that no other broker gets."""
    error = _allocation_error(image, request)
    if error:
        return Decision([], AllocateProducerIdsResponse(error_code=error))
    start = image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, start + PRODUCER_ID_BLOCK)
    response = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=PRODUCER_ID_BLOCK)
    return Decision([record], response)


def _allocation_error(image: ClusterImage, request: AllocateProducerIdsRequest) -> ErrorCode:
    error = image.broker_epoch_error(request.broker_id, request.broker_epoch)
    if not error and image.next_producer_id > LONG_MAX - PRODUCER_ID_BLOCK:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error
