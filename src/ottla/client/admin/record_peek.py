"""Single records at given offsets, without a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.fetching.plan.partition_reader import ConsumerRecord, PartitionReader
from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

# By name: who only looks does not need the topic's id.
_LAST_VERSION_BY_NAME: Final = 12
# A broker answers one whole batch, however large, if less was asked for; so this asks for one batch.
_LEAST_BYTES: Final = 1
# How many batches without a record for the application (markers, batches that compaction emptied) are
# skipped.
_MOST_BATCHES: Final = 20


def peek(
    leader: int, offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> Steps[dict[TopicPartition, ConsumerRecord | KafkaError | None]]:
    """The first record at or after each offset; None at the end of the partition."""
    found: dict[TopicPartition, ConsumerRecord | KafkaError | None] = {}
    for partition, offset in offsets.items():
        found[partition] = yield from _peek_one(leader, partition, offset, timeout_ms)
    return found


def _peek_one(
    leader: int, partition: TopicPartition, offset: int, timeout_ms: int
) -> Steps[ConsumerRecord | KafkaError | None]:
    reader = PartitionReader(partition)
    reader.seek(offset)
    for _ in range(_MOST_BATCHES):
        before = reader.fetch_offset
        response: FetchResponse = yield Ask(
            leader, _request(reader), timeout_ms, at_most=_LAST_VERSION_BY_NAME
        )
        for data in (each for topic in response.responses for each in topic.partitions):
            if data.error_code != ErrorCode.NONE:
                return error_of(data.error_code)
            reader.fetched(data)
        try:
            if records := reader.take(1):
                return records[0]
        except KafkaError as damage:
            return damage
        if reader.fetch_offset == before:
            return None
    return None


def _request(reader: PartitionReader) -> FetchRequest:
    wanted = FetchPartition(
        partition=reader.partition.partition,
        fetch_offset=reader.fetch_offset,
        partition_max_bytes=_LEAST_BYTES,
    )
    topic = FetchTopic(topic=reader.partition.topic, partitions=[wanted])
    return FetchRequest(max_wait_ms=0, max_bytes=_LEAST_BYTES, topics=[topic])
