"""The questions of an administrator that Spark's planner asks, without an event loop.

For a process that lives for one plan, or waits for most of its life (Spark starts one for each stream): it
needs neither an event loop nor a thread, and imports a fifth of the modules that `Admin` does. The questions
are the same as `Admin`'s, from `cluster.machine`, and failures that pass by themselves are retried in the
same way until `timeout_ms` is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.cluster.machine.topic_inquiries import (
    cluster_metadata_inquiry,
    describe_topics,
    list_offsets,
    topics_of,
)
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset
from ottla.client.requests.outcomes import succeeded
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.errors import KafkaError
from ottla.model import TopicPartition, parse_addresses
from ottla.security.settings import PLAINTEXT, Security

if TYPE_CHECKING:
    from ottla.client.requests.remote_segments import ReadableSegment


class PlannerAdmin:
    """Connects when it is first asked. Used by one thread at a time.

    The first question raises CannotConnectError at once if no broker can be reached; later ones wait for the
    cluster.
    """

    def __init__(
        self, bootstrap: str, *, client_id: str, timeout_ms: int, security: Security = PLAINTEXT
    ) -> None:
        self._brokers = BlockingBrokers(
            parse_addresses(bootstrap), client_id=client_id, timeout_ms=timeout_ms, security=security
        )

    def close(self) -> None:
        """Close all connections."""
        self._brokers.close()

    def list_topics(self) -> list[TopicInfo]:
        """All topics that are not internal, by name."""
        outcomes = self._brokers.settle(cluster_metadata_inquiry(self._brokers.known))
        return topics_of(succeeded(outcomes)[""])

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """The named topics with their partitions."""
        return self._brokers.settle(describe_topics(self._brokers.known, names))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Offsets by `OffsetSpec`, or of the first record at or after a timestamp in milliseconds."""
        return self._brokers.settle(list_offsets(self._brokers.known, wanted, read_committed=read_committed))

    def remote_segments(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, list[ReadableSegment]]:
        """The segments in an object store with records of ranges [start, end), in order; none where nobody can say."""
        # Few planners ask, and these modules cost the start of all.
        from ottla.client.cluster.machine.remote_inquiries import NOT_TOLD, list_remote_segments

        found: dict[TopicPartition, list[ReadableSegment]] = {partition: [] for partition in ranges}
        pending = dict(ranges)
        while pending:
            try:
                outcomes = self._brokers.settle(list_remote_segments(self._brokers.known, pending))
            except KafkaError as refused:
                if refused.code in NOT_TOLD:
                    break
                raise
            for partition, outcome in outcomes.items():
                if isinstance(outcome, KafkaError):
                    if outcome.code not in NOT_TOLD:
                        raise outcome
                    del pending[partition]
                    continue
                found[partition] += outcome.segments
                if outcome.is_complete:
                    del pending[partition]
                elif outcome.segments:
                    pending[partition] = outcome.segments[-1].next_offset, pending[partition][1]
        return found

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group that has no members; the group is created if it does not exist."""
        # Not every planner commits, and these modules cost its start.
        from ottla.client.cluster.machine.group_inquiries import commit_offsets
        from ottla.client.requests.group_offsets import CommittedOffset

        committed = {partition: CommittedOffset(offset) for partition, offset in offsets.items()}
        return self._brokers.settle(commit_offsets(self._brokers.known, group_id, committed))
