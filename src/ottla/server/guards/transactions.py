"""Guards of coordinators, producers and transactions."""

from dataclasses import replace
from typing import Any, Final

from ottla.controller.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
)
from ottla.security.acl.checks import CHECKS
from ottla.server.coordinators.transaction_messages import named_partitions, topic_results
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards.refusals import refusal
from ottla.server.guards.steps import Proceed, itself, refuses_items, refuses_request, then

_SEVERAL_KEYS_SINCE: Final = first_version(FindCoordinatorRequest, "coordinator_keys")
_OF_BROKERS_SINCE: Final = first_version(AddPartitionsToTxnRequest, "transactions")
_GROUP, _TRANSACTION = 0, 1


def find_coordinator(
    rights: Rights, context: RequestContext, request: FindCoordinatorRequest, proceed: Proceed
) -> Any:
    """Each key is a group or a transactional id."""
    of_group, of_transaction = CHECKS[ApiKey.FIND_COORDINATOR]
    if request.key_type not in (_GROUP, _TRANSACTION):
        return proceed(request)
    check = of_group if request.key_type == _GROUP else of_transaction
    if context.version >= _SEVERAL_KEYS_SINCE:
        return refuses_items(check, "coordinator_keys", itself)(rights, context, request, proceed)
    if rights.permits(context.session, check, request.key):
        return proceed(request)
    return refusal(request, check.error, context.version)


def init_producer_id(
    rights: Rights, context: RequestContext, request: InitProducerIdRequest, proceed: Proceed
) -> Any:
    """A transactional producer needs a right on its id, and another one to prepare transactions; any other producer
    needs a right to write to some topic.
    """
    transactional, idempotent, prepared = CHECKS[ApiKey.INIT_PRODUCER_ID]
    checks = [idempotent if request.transactional_id is None else transactional]
    if request.transactional_id is not None and request.enable2_pc:
        checks.append(prepared)
    for check in checks:
        if not rights.permits(context.session, check, request.transactional_id or ""):
            return refusal(request, check.error, context.version)
    return proceed(request)


def add_partitions_to_txn(
    rights: Rights, context: RequestContext, request: AddPartitionsToTxnRequest, proceed: Proceed
) -> Any:
    """A producer's partitions join together or not at all; a broker asks for many producers."""
    of_id, of_topic, of_broker = CHECKS[ApiKey.ADD_PARTITIONS_TO_TXN]
    if context.version >= _OF_BROKERS_SINCE:
        return refuses_request(of_broker)(rights, context, request, proceed)
    partitions = named_partitions(request.v3_and_below_topics)
    if not rights.permits(context.session, of_id, request.v3_and_below_transactional_id):
        return _join_refused(dict.fromkeys(partitions, of_id.error))
    # As in Kafka: an internal topic is written to by its coordinator only, whatever the rights of a client.
    refused = {
        name
        for name in {partition.topic for partition in partitions}
        if name in INTERNAL_TOPICS or not rights.permits(context.session, of_topic, name)
    }
    if not refused:
        return proceed(request)
    return _join_refused(
        {
            each: of_topic.error if each.topic in refused else ErrorCode.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }
    )


def _join_refused(errors: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(errors))


def end_txn(rights: Rights, context: RequestContext, request: EndTxnRequest, proceed: Proceed) -> Any:
    """Transactions that are committed together need the right on each of their ids."""
    (check,) = CHECKS[ApiKey.END_TXN]
    ids = [one.transactional_id for one in request.ottla_transactions] or [request.transactional_id]
    for transactional_id in ids:
        if not rights.permits(context.session, check, transactional_id):
            return refusal(request, check.error, context.version)
    return proceed(request)


def describe_transactions(
    rights: Rights, context: RequestContext, request: DescribeTransactionsRequest, proceed: Proceed
) -> Any:
    """Transactions of ids that the caller may describe, with the topics that the caller may describe."""
    of_id, of_topic = CHECKS[ApiKey.DESCRIBE_TRANSACTIONS]

    def shown(state: DescribedTransactionState) -> DescribedTransactionState:
        topics = [each for each in state.topics if rights.permits(context.session, of_topic, each.topic)]
        return replace(state, topics=topics)

    def without_hidden(answer: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        return replace(answer, transaction_states=[*map(shown, answer.transaction_states)])

    step = refuses_items(of_id, "transactional_ids", itself)
    return step(rights, context, request, lambda reduced: then(proceed(reduced), without_hidden))
