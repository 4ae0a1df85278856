"""InitProducerId, versions 0 to 5 (KIP-98, KIP-360). Transactional ids come with the transaction
coordinator.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()


@api.handles(InitProducerIdRequest)
async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new producer id for an idempotent producer."""
    if request.transactional_id is not None:
        # The same answer as FindCoordinator gives: there is no coordinator to go to.
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    # An idempotent producer that lost its place asks again with its old id: a new id is always a safe answer.
    try:
        producer_id = await context.services.producer_ids.next_id()
    except KafkaError as refused:
        return InitProducerIdResponse(error_code=refused.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
