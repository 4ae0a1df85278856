"""Transactions: AddPartitionsToTxn 0 to 5, AddOffsetsToTxn 0 to 4, EndTxn 0 to 5, DescribeTransactions 0,
ListTransactions 0 to 2.

KIP-98 transactions, KIP-588 PRODUCER_FENCED, KIP-664 and KIP-994 transactions for administrators, KIP-890
questions of brokers (AddPartitionsToTxn from version 4 on) and an epoch for each transaction (EndTxn 5). Ottla's
own: several transactions that are committed together (EndTxn 5 with `ottla_transactions`).

Each request goes to the shard of its transactional id, in the words of the coordinator's commands.
"""

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import first_version
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
)
from ottla.server.coordinators.coordinators import OFFSETS_TOPIC
from ottla.server.coordinators.transaction_messages import command_in, named_partitions, topic_results
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.transaction.commands import (
    AddPartitions,
    CommitTogether,
    EndTransaction,
    GroupAnswer,
    ProducerAnswer,
)
from ottla.transaction.listing import compiled, unknown_states
from ottla.transaction.metadata import EPOCH_PER_TRANSACTION, ORIGINAL

api = ApiFamily()

_OF_BROKERS_SINCE: Final = first_version(AddPartitionsToTxnRequest, "transactions")
_NEXT_EPOCH_SINCE: Final = first_version(EndTxnResponse, "producer_epoch")
# PRODUCER_FENCED and TRANSACTION_ABORTABLE change no field, so no declaration has these versions.
_FENCED_SINCE: Final = 2
_ABORTABLE_SINCE: Final = 5  # of AddPartitionsToTxn


@api.handles(AddPartitionsToTxnRequest)
async def add_partitions_to_txn(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Have partitions join a transaction: one that a client names, or several that a broker asks about."""
    if context.version < _OF_BROKERS_SINCE:
        errors = await _added(context, request)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(errors))
    results = [await _answered_for_broker(context, one) for one in request.transactions]
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _added(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> dict[TopicPartition, ErrorCode]:
    partitions = named_partitions(request.v3_and_below_topics)
    missing = {one for one in partitions if not _exists(context, one)}
    if missing:
        # All of them join, or none.
        return {
            one: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
            for one in partitions
        }
    command = AddPartitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        partitions,
        ORIGINAL,
    )
    return dict.fromkeys(partitions, await _joined(context, command))


def _exists(context: RequestContext, partition: TopicPartition) -> bool:
    topic = context.services.quorum.image.topics_by_name.get(partition.topic)
    return topic is not None and 0 <= partition.partition < len(topic.partitions)


async def _joined(context: RequestContext, command: AddPartitions) -> ErrorCode:
    try:
        error: ErrorCode = await context.services.transactions.ask(command.transactional_id, command)
    except KafkaError as refused:
        return refused.code
    return as_known_to(context.version, error)


async def _answered_for_broker(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult:
    command = command_in(transaction)
    try:
        answer = await context.services.transactions.ask(command.transactional_id, command)
    except KafkaError as refused:
        answer = refused.code
    errors = answer if isinstance(answer, dict) else dict.fromkeys(command.partitions, answer)
    if context.version < _ABORTABLE_SINCE:
        errors = {one: _without_abortable(error) for one, error in errors.items()}
    return AddPartitionsToTxnResult(transaction.transactional_id, topic_results(errors))


def _without_abortable(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_TXN_STATE if error is ErrorCode.TRANSACTION_ABORTABLE else error


def as_known_to(version: int, error: ErrorCode, fenced_since: int = _FENCED_SINCE) -> ErrorCode:
    """An error as a request of this version knows it: a fenced producer was one with an invalid epoch before."""
    is_fenced = error is ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced and version < fenced_since else error


@api.handles(AddOffsetsToTxnRequest)
async def add_offsets_to_txn(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Have a group's offsets join a transaction: the partition that holds the group joins."""
    topic = context.services.coordinators.topic
    try:
        await topic.make()
    except KafkaError as refused:
        return AddOffsetsToTxnResponse(error_code=refused.code)
    index = topic.partition_of(request.group_id)
    assert index is not None, "the topic is there"
    command = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({TopicPartition(OFFSETS_TOPIC, index)}),
        ORIGINAL,
    )
    return AddOffsetsToTxnResponse(error_code=await _joined(context, command))


@api.handles(EndTxnRequest)
async def end_txn(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort; answered when the decision is replicated, before the markers are written."""
    if request.ottla_transactions:
        return await _committed_together(context, request)
    is_with_next_epoch = context.version >= _NEXT_EPOCH_SINCE
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_PER_TRANSACTION if is_with_next_epoch else ORIGINAL,
    )
    try:
        answer: ProducerAnswer = await context.services.transactions.ask(command.transactional_id, command)
    except KafkaError as refused:
        return EndTxnResponse(error_code=refused.code)
    return EndTxnResponse(
        error_code=as_known_to(context.version, answer.error),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


async def _committed_together(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit several transactions by one decision. Their transactional ids must have the same coordinator, that is
    the same partition of `__transaction_state`.
    """
    transactions, ids = (
        context.services.transactions,
        [one.transactional_id for one in request.ottla_transactions],
    )
    is_alone = not request.transactional_id and request.committed
    if not is_alone or len({transactions.topic.partition_of(one) for one in ids}) > 1:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    command = CommitTogether(
        tuple(
            EndTransaction(
                one.transactional_id, one.producer_id, one.producer_epoch, True, EPOCH_PER_TRANSACTION
            )
            for one in request.ottla_transactions
        )
    )
    try:
        answer: GroupAnswer = await transactions.ask(ids[0], command)
    except KafkaError as refused:
        return EndTxnResponse(error_code=refused.code)
    return EndTxnResponse(error_code=answer.error, ottla_refused_id=answer.refused_id)


@api.handles(DescribeTransactionsRequest)
async def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """State, producer and partitions of transactional ids."""
    states = [await _described(context, one) for one in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


async def _described(context: RequestContext, transactional_id: str) -> DescribedTransactionState:
    try:
        return await context.services.transactions.shard_of(transactional_id).describe(transactional_id)
    except KafkaError as refused:
        return DescribedTransactionState(refused.code, transactional_id)


@api.handles(ListTransactionsRequest)
async def list_transactions(
    context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """The transactional ids that this broker coordinates; an error while it does not know all of them yet."""
    response = ListTransactionsResponse(unknown_state_filters=unknown_states(request.state_filters))
    try:
        compiled(request.transactional_id_pattern)
        for shard in context.services.transactions.shards:
            response.transaction_states += await shard.list(request)
    except KafkaError as refused:
        return ListTransactionsResponse(error_code=refused.code)
    return response
