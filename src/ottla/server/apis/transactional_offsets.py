"""TxnOffsetCommit, versions 0 to 5: offsets that are committed with a producer's transaction.

KIP-98 transactions, KIP-447 the member on whose behalf a producer commits (v3), KIP-890 verification: the
transaction coordinator is asked whether the group's partition of `__consumer_offsets` is in the transaction, and
from version 5 on the question adds the partition. An answer that older producers would not expect is replaced:
TRANSACTION_ABORTABLE (since v4) by INVALID_TXN_STATE, and an answer after which the producer should only ask again
by COORDINATOR_LOAD_IN_PROGRESS.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import refusal
from ottla.model import TopicPartition
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.server.apis.groups import answered, ask_shard
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.partitions.hosted_partition import HostedPartition

api = ApiFamily()

_ABORTABLE_SINCE: Final = 4
_ADDS_SINCE: Final = 5


@api.handles(TxnOffsetCommitRequest)
async def txn_offset_commit(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Commit offsets within a transaction. Partitions that do not exist are refused here; the coordinator
    decides on the others.
    """
    known_topics, refused = _known(context.services.quorum.image, request.topics)
    known_part = replace(request, topics=known_topics)
    response = await _committed(context, known_part) if known_topics else TxnOffsetCommitResponse()
    known = {topic.name: topic for topic in response.topics}
    for name, partitions in refused.items():
        if name in known:
            known[name].partitions.extend(partitions)
        else:
            response.topics.append(TxnOffsetCommitResponseTopic(name, partitions))
    return response


def _known(
    image: ClusterImage, topics: Iterable[TxnOffsetCommitRequestTopic]
) -> tuple[list[TxnOffsetCommitRequestTopic], dict[str, list[TxnOffsetCommitResponsePartition]]]:
    """The topics and partitions that exist, and by topic the answers for those that do not."""
    known: list[TxnOffsetCommitRequestTopic] = []
    refused: dict[str, list[TxnOffsetCommitResponsePartition]] = {}
    for topic in topics:
        found = image.topics_by_name.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        there = [item for item in topic.partitions if 0 <= item.partition_index < count]
        if there:
            known.append(TxnOffsetCommitRequestTopic(topic.name, there))
        for item in topic.partitions:
            if not 0 <= item.partition_index < count:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer = TxnOffsetCommitResponsePartition(item.partition_index, error)
                refused.setdefault(topic.name, []).append(answer)
    return known, refused


async def _committed(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    groups = context.services.coordinators
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = groups.shard_of(request.group_id)
        if not _is_ongoing(shard.partition, request):
            await _verify(context, request, shard.partition)
        # Nothing is awaited between the verification and the append.
        answer = ask_shard(context, request.group_id, request)
    except KafkaError as error:
        answer = refusal(request, error.code, context.version)
    response: TxnOffsetCommitResponse = await answered(answer)
    return response


def _is_ongoing(partition: HostedPartition, request: TxnOffsetCommitRequest) -> bool:
    """Whether the partition has the producer's transaction open."""
    return partition.log.producers.has_ongoing(request.producer_id, request.producer_epoch)


async def _verify(
    context: RequestContext, request: TxnOffsetCommitRequest, partition: HostedPartition
) -> None:
    """KafkaError unless the group's partition is in the producer's transaction now."""
    adds = context.version >= _ADDS_SINCE
    if not adds and not context.services.config.transactions.partition_verification_enable:
        return
    producer_id, epoch = request.producer_id, request.producer_epoch
    verifications = partition.log.producers.verifications
    verification = verifications.begin(
        producer_id, epoch, 0, bumps_epoch=adds, now_ms=context.services.now_ms()
    )
    named = TopicPartition(partition.topic, partition.index)
    errors = await context.services.transactions.verify(
        request.transactional_id, producer_id, epoch, [named], adds=adds
    )
    _raise_error(errors[named], context.version)
    if verifications.get(producer_id) is not verification and not _is_ongoing(partition, request):
        # A marker was written meanwhile: the answer is about a transaction that is over.
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _raise_error(error: ErrorCode, version: int) -> None:
    """Raise what a producer is told that the transaction coordinator gave this error about."""
    if error is ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        error = ErrorCode.INVALID_TXN_STATE
    elif error is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_SINCE:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error:
        raise KafkaError(error)
