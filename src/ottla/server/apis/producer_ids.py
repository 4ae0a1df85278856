"""InitProducerId, versions 0 to 6 (KIP-98, KIP-360, KIP-588, KIP-890, KIP-939).

An idempotent producer is given a new id by any broker, a transactional one by the coordinator of its
transactional id.
"""

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_ID
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

# PRODUCER_FENCED changes no field, so no declaration has this version.
_FENCED_SINCE: Final = 4
_NO_EPOCH: Final = -1


@api.handles(InitProducerIdRequest)
async def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A producer id and an epoch."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == _NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        if request.transactional_id is not None:
            return await _of_transactional_id(context, request, request.transactional_id)
        # An idempotent producer that lost its place asks again with its old id: a new id is a safe answer.
        producer_id = await context.services.producer_ids.next_id()
    except KafkaError as refused:
        return _refused(refused.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _of_transactional_id(
    context: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    # Imported here: most producers have no transactional id.
    from ottla.transaction.commands import InitProducer, TransactionKept

    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    command = InitProducer(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        request.enable2_pc,
        request.keep_prepared_txn,
    )
    answer = await context.services.transactions.ask(transactional_id, command)
    error = answer.error
    if error is ErrorCode.PRODUCER_FENCED and context.version < _FENCED_SINCE:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    is_kept = isinstance(answer, TransactionKept)
    return InitProducerIdResponse(
        error_code=error,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        ongoing_txn_producer_id=answer.ongoing_producer_id if is_kept else NO_PRODUCER_ID,
        ongoing_txn_producer_epoch=answer.ongoing_producer_epoch if is_kept else _NO_EPOCH,
    )


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=_NO_EPOCH)
