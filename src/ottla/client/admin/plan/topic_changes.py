"""Creating, deleting and growing topics, deleting records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.cluster.machine.single_brokers import by_any
from ottla.client.requests.offsets import delete_records_request, low_watermarks
from ottla.client.requests.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions_request,
    create_topics_request,
    created_topics,
    delete_topics_request,
    deleted_topics,
    grown_topics,
)
from ottla.errors import KafkaError
from ottla.model import TopicPartition


def create_topics(
    topics: Mapping[str, NewTopic], *, validate_only: bool
) -> Inquiry[str, NewTopic, CreatedTopic]:
    attempt: Attempt[str, NewTopic, CreatedTopic] = by_any(
        lambda pending, left_ms: create_topics_request(pending.values(), left_ms, validate_only),
        lambda response, _: created_topics(response),
    )
    return Inquiry(topics, attempt, is_repeatable=validate_only)


def delete_topics(names: Iterable[str]) -> Inquiry[str, None, None]:
    attempt: Attempt[str, None, None] = by_any(
        lambda pending, left_ms: delete_topics_request(list(pending), left_ms),
        lambda response, _: deleted_topics(response),
    )
    return Inquiry(dict.fromkeys(names), attempt, is_repeatable=False)


def create_partitions(counts: Mapping[str, int], *, validate_only: bool) -> Inquiry[str, int, None]:
    attempt: Attempt[str, int, None] = by_any(
        lambda pending, left_ms: create_partitions_request(pending, left_ms, validate_only),
        lambda response, _: grown_topics(response),
    )
    return Inquiry(counts, attempt, is_repeatable=validate_only)


def delete_records(
    known: KnownCluster, before: Mapping[TopicPartition, int]
) -> Inquiry[TopicPartition, int, int]:
    def ask(
        leader: int, part: Mapping[TopicPartition, int], left_ms: int
    ) -> Steps[Mapping[TopicPartition, int | KafkaError]]:
        return low_watermarks((yield Ask(leader, delete_records_request(part, left_ms), left_ms)))

    return Inquiry(before, by_leader(known, ask))
