"""Topics with their partitions, and the offsets of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster.machine.conversation import Ask, Steps, refreshed
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.requests.metadata import ClusterMetadata, TopicInfo
from ottla.client.requests.offsets import ListedOffset, list_offsets_request, listed_offsets
from ottla.errors import KafkaError
from ottla.model import TopicPartition


def cluster_metadata_inquiry(known: KnownCluster) -> Inquiry[str, None, ClusterMetadata]:
    """The metadata of all topics, under the key ""; the leaders in it are learned."""

    def attempt(_: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, ClusterMetadata | KafkaError]]:
        metadata = yield from refreshed(known, None, left_ms)
        known.learn_leaders(metadata)
        return {"": metadata}

    return Inquiry({"": None}, attempt)


def topics_of(metadata: ClusterMetadata, *, include_internal: bool = False) -> list[TopicInfo]:
    """The topics in `metadata`, by name."""
    topics = (topic for topic in metadata.topics.values() if isinstance(topic, TopicInfo))
    return sorted(
        (each for each in topics if include_internal or not each.is_internal), key=lambda each: each.name
    )


def describe_topics(known: KnownCluster, names: Iterable[str]) -> Inquiry[str, None, TopicInfo]:
    """The named topics; the leaders of their partitions are learned."""

    def attempt(pending: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, TopicInfo | KafkaError]]:
        metadata = yield from refreshed(known, list(pending), left_ms)
        known.learn_leaders(metadata)
        return metadata.topics

    return Inquiry(dict.fromkeys(names), attempt)


def list_offsets(
    known: KnownCluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    request_timeout_ms: int | None = None,
) -> Inquiry[TopicPartition, int, ListedOffset]:
    """Offsets by `OffsetSpec`, or of the first record at or after a timestamp in milliseconds."""

    def ask(
        leader: int, part: Mapping[TopicPartition, int], left_ms: int
    ) -> Steps[Mapping[TopicPartition, ListedOffset | KafkaError]]:
        wait_ms = left_ms if request_timeout_ms is None else min(left_ms, request_timeout_ms)
        request = list_offsets_request(part, read_committed=read_committed, timeout_ms=wait_ms)
        return listed_offsets((yield Ask(leader, request, wait_ms)))

    return Inquiry(wanted, by_leader(known, ask))
