"""Moving the replicas of partitions, and electing their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.cluster.machine.single_brokers import by_any, one_answer
from ottla.client.requests.reassignments import (
    ElectionType,
    Reassignment,
    alter_reassignments_request,
    altered_reassignments,
    elect_leaders_request,
    elected_leaders,
    list_reassignments_request,
    listed_reassignments,
)
from ottla.model import TopicPartition


def alter_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int] | None],
) -> Inquiry[TopicPartition, Sequence[int] | None, None]:
    attempt: Attempt[TopicPartition, Sequence[int] | None, None] = by_any(
        alter_reassignments_request, altered_reassignments
    )
    return Inquiry(replicas, attempt)


def list_reassignments() -> Inquiry[str, None, dict[TopicPartition, Reassignment]]:
    return one_answer(list_reassignments_request, listed_reassignments)


def elect_leaders(
    partitions: Iterable[TopicPartition], election: ElectionType
) -> Inquiry[TopicPartition, None, None]:
    attempt: Attempt[TopicPartition, None, None] = by_any(
        lambda pending, left_ms: elect_leaders_request(pending, election, left_ms), elected_leaders
    )
    return Inquiry(dict.fromkeys(partitions), attempt)
