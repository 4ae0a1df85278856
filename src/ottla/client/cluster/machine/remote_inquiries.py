"""What of partitions lies in an object store, as their leaders say."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.requests.remote_segments import (
    RemoteSegments,
    list_remote_segments_request,
    listed_remote_segments,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

# Nobody can say: the brokers are older, not Ottla's, or without tiered storage, or do not have the topic now.
NOT_TOLD = frozenset(
    {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
)


def list_remote_segments(
    known: KnownCluster,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    *,
    is_about_aborted: bool = False,
) -> Inquiry[TopicPartition, tuple[int, int], RemoteSegments]:
    """The segments in the object store with records of some ranges, or those that tell of aborted ones."""

    def ask(
        leader: int, part: Mapping[TopicPartition, tuple[int, int]], left_ms: int
    ) -> Steps[Mapping[TopicPartition, RemoteSegments | KafkaError]]:
        request = list_remote_segments_request(part, is_about_aborted=is_about_aborted)
        return listed_remote_segments((yield Ask(leader, request, left_ms)))

    return Inquiry(ranges, by_leader(known, ask))
