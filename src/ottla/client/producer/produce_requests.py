"""Batches become a Produce request, and its response an answer for each of them; also InitProducerId."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.batch_answers import Answer
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.requests.metadata import BrokerInfo, Leader
from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID, first_version
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse

# From this version on topics go by their ids (KIP-516).
TOPIC_IDS_SINCE: Final = first_version(TopicProduceData, "topic_id")

_LOST = Answer(ErrorCode.NETWORK_EXCEPTION, message="the broker's answer left the partition out")


def produce_request(
    batches: Sequence[ProducerBatch],
    topic_ids: Mapping[str, UUID],
    *,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
) -> ProduceRequest:
    """One request with one batch for each partition."""
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, index = batch.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name=name, topic_id=topic_ids.get(name, ZERO_UUID))
        assert batch.encoded is not None
        topic.partition_data.append(PartitionProduceData(index=index, records=memoryview(batch.encoded)))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
    )


def produce_answers(
    request: ProduceRequest, response: ProduceResponse, version: int
) -> dict[TopicPartition, PartitionProduceResponse]:
    """The response's part for each partition."""
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    has_ids = version >= TOPIC_IDS_SINCE
    return {
        TopicPartition(names.get(topic.topic_id, "") if has_ids else topic.name, each.index): each
        for topic in response.responses
        for each in topic.partition_responses
    }


def answer_of(found: PartitionProduceResponse | None, *, is_leader_known: bool) -> Answer:
    """One partition's answer; None if the response left it out."""
    if found is None:
        return _LOST
    if found.error_code == ErrorCode.NONE:
        return Answer(base_offset=found.base_offset, log_append_time_ms=found.log_append_time_ms)
    error = error_of(found.error_code, found.error_message)
    return Answer(
        error=error.code,
        base_offset=found.base_offset,
        log_append_time_ms=found.log_append_time_ms,
        message=error.message,
        bad_records=tuple((each.batch_index, each.batch_index_error_message) for each in found.record_errors),
        is_leader_known=is_leader_known,
    )


def named_leader(found: PartitionProduceResponse | None) -> Leader | None:
    """The leader that the answer names instead of the one that was asked (KIP-951)."""
    if found is None or not found.error_code or found.current_leader.leader_id < 0:
        return None
    return Leader(found.current_leader.leader_id, found.current_leader.leader_epoch)


def named_brokers(response: ProduceResponse) -> list[BrokerInfo]:
    """Where those leaders are."""
    return [BrokerInfo(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]


def identity_request() -> InitProducerIdRequest:
    """A producer id without a transactional id."""
    # The timeout is for transactions; brokers check it all the same.
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def granted_identity(response: InitProducerIdResponse) -> ProducerIdentity:
    """The identity. Raises KafkaError."""
    if response.error_code != ErrorCode.NONE:
        raise error_of(response.error_code)
    return ProducerIdentity(response.producer_id, response.producer_epoch)
