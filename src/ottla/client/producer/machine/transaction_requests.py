"""The requests of a transaction, and what their responses say.

InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn go to the coordinator of the transactional id,
TxnOffsetCommit to the coordinator of the group. Versions from which on a request belongs to the protocol of
`transaction.version` 2 are those in which Kafka's clients send it: up to `LAST_EXPLICIT` it belongs to the
protocol before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.prepared_transaction import PreparedTransaction
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.membership import GroupMetadata
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_ID, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

LAST_EXPLICIT: Final = {ApiKey.PRODUCE: 11, ApiKey.END_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 4}
# Later versions are for questions of brokers.
LAST_ADD_PARTITIONS: Final = 3
TWO_PHASE_SINCE: Final = first_version(InitProducerIdRequest, "enable2_pc")
# For producers without two-phase commit: the versions from then on are not stable in Kafka yet.
LAST_ONE_PHASE: Final = TWO_PHASE_SINCE - 1
_TWO_PHASE_REFUSALS: Final = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "two-phase commit needs the brokers' setting "
    "transaction.two.phase.commit.enable, and the permission to use it",
    ErrorCode.UNSUPPORTED_VERSION: "two-phase commit needs transaction.version 2, and brokers that keep prepared "
    "transactions",
}
_NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER_ID, -1)


def last_version(api_key: ApiKey, *, is_implicit: bool) -> int | None:
    """The last version of an API in the protocol that is spoken; None if there is no bound."""
    return None if is_implicit else LAST_EXPLICIT[api_key]


class Grant(NamedTuple):
    """A producer id and epoch, and the transaction that the coordinator has left open for its producer to end."""

    identity: ProducerIdentity
    kept: PreparedTransaction | None = None


def init_request(
    transactional_id: str, timeout_ms: int, identity: ProducerIdentity | None, *, is_two_phase: bool = False
) -> InitProducerIdRequest:
    """Ask for a producer id and epoch.

    A producer that names its own, to get the next epoch, is refused if another producer has taken over. With
    two-phase commit a new producer keeps the transaction that the one before has left open.
    """
    producer_id, epoch = identity or _NO_IDENTITY
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        enable2_pc=is_two_phase,
        keep_prepared_txn=is_two_phase and identity is None,
    )


def init_result(response: InitProducerIdResponse) -> Grant | KafkaError:
    identity = ProducerIdentity(response.producer_id, response.producer_epoch)
    kept = None
    if response.ongoing_txn_producer_id != NO_PRODUCER_ID:
        kept = PreparedTransaction(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
    return outcome(response.error_code, Grant(identity, kept))


def two_phase_result(response: InitProducerIdResponse) -> Grant | KafkaError:
    """Like `init_result`, with the reason for which brokers refuse two-phase commit."""
    result = init_result(response)
    if isinstance(result, KafkaError) and result.code in _TWO_PHASE_REFUSALS:
        return KafkaError(result.code, f"{result.message.rstrip('.')}: {_TWO_PHASE_REFUSALS[result.code]}")
    return result


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(*each) for each in topics.items()],
    )


def add_partitions_result(response: AddPartitionsToTxnResponse) -> KafkaError | None:
    """One result for all partitions: the coordinator adds all of them or none.

    The partitions are those of a topic that the client knows: a coordinator that does not know one lags behind,
    and is asked again.
    """
    codes = {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
        if each.partition_error_code != ErrorCode.NONE
    }
    named = {each: code for each, code in codes.items() if code != ErrorCode.OPERATION_NOT_ATTEMPTED}
    for partition, code in (named or codes).items():
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"the coordinator does not know {partition}")
        error = error_of(code)
        return KafkaError(error.code, f"{partition} was not added to the transaction: {error.message}")
    return None


def add_offsets_request(
    transactional_id: str, identity: ProducerIdentity, group_id: str
) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def add_offsets_result(response: AddOffsetsToTxnResponse) -> KafkaError | None:
    return outcome(response.error_code, None)


def commit_offsets_request(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> TxnOffsetCommitRequest:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        partitions = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic)).partitions
        partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=list(topics.values()),
    )


def commit_offsets_results(response: TxnOffsetCommitResponse) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(topic.name, each.partition_index): outcome(each.error_code, None)
        for topic in response.topics
        for each in topic.partitions
    }


def end_request(transactional_id: str, identity: ProducerIdentity, *, is_commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=is_commit,
    )


def end_result(response: EndTxnResponse) -> ProducerIdentity | KafkaError | None:
    """The producer id and epoch of the next transaction; None if they stay."""
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code)
    if response.producer_id == NO_PRODUCER_ID:
        return None
    return ProducerIdentity(response.producer_id, response.producer_epoch)
