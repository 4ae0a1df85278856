"""Batches of a partition as they lie in its log: with the producer, the epoch and the marks of a transaction.

A consumer hands out records; who looks into a cluster wants to see what is around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.client.calls import arguments
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.requests.outcomes import error_of, succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.records.batch import BatchView, iter_batches
from ottla.security.settings import Security

# By name: who only looks does not need the topic's id.
_LAST_VERSION_BY_NAME: Final = 12


@dataclass(frozen=True, slots=True)
class LogBatches:
    """Neighbouring batches of a partition, with its offsets at that moment. `leader` is the broker that answered."""

    leader: int
    batches: tuple[BatchView, ...]
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


class LogBatchReader:
    """Reads batches from the leaders of partitions. It connects in `async with`."""

    def __init__(
        self, bootstrap: str | Sequence[str], *, client_id: str, timeout_ms: int, security: Security | None
    ) -> None:
        self._timeout_ms = timeout_ms
        self._connections = Connections(
            KnownCluster(arguments.addresses("bootstrap", bootstrap)),
            client_id=client_id,
            timeout_ms=timeout_ms,
            security=arguments.security_of(security),
        )

    async def __aenter__(self) -> LogBatchReader:
        await self._connections.reach()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.close()

    async def read(self, partition: TopicPartition, offset: int, *, max_bytes: int = 1) -> LogBatches:
        """The batch that holds an offset, or the next one, and those that follow within `max_bytes`.

        Raises KafkaError, OFFSET_OUT_OF_RANGE if the log holds no such offset.
        """
        ask = by_leader(self._connections.known, partial(_fetch, max_bytes))
        inquiry: Inquiry[TopicPartition, int, LogBatches] = Inquiry({partition: offset}, ask)
        outcomes = await self._connections.settle(inquiry, self._timeout_ms)
        return succeeded(outcomes)[partition]


def _fetch(
    max_bytes: int, leader: int, offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> Steps[dict[TopicPartition, LogBatches | KafkaError]]:
    found: dict[TopicPartition, LogBatches | KafkaError] = {}
    for partition, offset in offsets.items():
        request = _request(partition, offset, max_bytes)
        response = yield Ask(leader, request, timeout_ms, at_most=_LAST_VERSION_BY_NAME)
        found[partition] = _batches(leader, response)
    return found


def _request(partition: TopicPartition, offset: int, max_bytes: int) -> FetchRequest:
    wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    topic = FetchTopic(topic=partition.topic, partitions=[wanted])
    return FetchRequest(max_wait_ms=0, max_bytes=max_bytes, topics=[topic])


def _batches(leader: int, response: FetchResponse) -> LogBatches | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code)
    (data,) = (each for topic in response.responses for each in topic.partitions)
    if data.error_code != ErrorCode.NONE:
        return error_of(data.error_code)
    batches = tuple(iter_batches(bytes(data.records or b"")))
    return LogBatches(leader, batches, data.log_start_offset, data.high_watermark, data.last_stable_offset)
