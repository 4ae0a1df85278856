"""The committed offsets of consumer groups: commit and fetch.

Topics go by name: version 10 of both APIs, which has topic ids instead, would need a table of all topics to
say which ones a group has offsets of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.requests.group_offsets import (
    CommittedOffset,
    CommittedOffsets,
    commit_request,
    commit_results,
    committed_offsets,
    fetch_request,
    unstable_in,
)
from ottla.client.requests.membership import Membership
from ottla.errors import KafkaError
from ottla.model import TopicPartition

_LAST_VERSION_BY_NAME: Final = 9


def commit_offsets(
    known: KnownCluster,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    membership: Membership | None = None,
    group_instance_id: str | None = None,
    request_timeout_ms: int | None = None,
) -> Inquiry[TopicPartition, CommittedOffset, None]:
    """Commit as a member, or, without a membership, to a group that has no members."""
    member = membership or Membership()

    def ask(
        coordinator: int, part: Mapping[TopicPartition, CommittedOffset], left_ms: int
    ) -> Steps[Mapping[TopicPartition, KafkaError | None]]:
        request = commit_request(group_id, part, member, group_instance_id)
        wait_ms = _at_most(left_ms, request_timeout_ms)
        response = yield Ask(coordinator, request, wait_ms, at_most=_LAST_VERSION_BY_NAME)
        return commit_results(response, group_id, member)

    return Inquiry(offsets, by_coordinator(known, lambda _: group_id, ask))


def fetch_offsets(
    known: KnownCluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    waits_for_stable: bool = False,
    request_timeout_ms: int | None = None,
) -> Inquiry[str, None, CommittedOffsets]:
    """The committed offsets of these partitions, or of all (None), under the key `group_id`.

    Partitions without a committed offset are left out. With `require_stable`, a partition whose offset an open
    transaction may change has an error; with `waits_for_stable`, the question is repeated meanwhile.
    """
    request = fetch_request(group_id, partitions, require_stable=require_stable)

    def ask(
        coordinator: int, _: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, CommittedOffsets | KafkaError]]:
        wait_ms = _at_most(left_ms, request_timeout_ms)
        response = yield Ask(coordinator, request, wait_ms, at_most=_LAST_VERSION_BY_NAME)
        offsets = committed_offsets(response)
        return {group_id: (unstable_in(offsets) if waits_for_stable else None) or offsets}

    return Inquiry({group_id: None}, by_coordinator(known, lambda group: group, ask))


def _at_most(left_ms: int, request_timeout_ms: int | None) -> int:
    return left_ms if request_timeout_ms is None else min(left_ms, request_timeout_ms)
