"""The few questions of an administrator that a planner asks, without an event loop.

The sibling of `Admin` for a process that lives for one plan, or waits for most of its life (Spark starts one for each stream): it needs
neither an event loop nor a thread, and imports a fifth of what `Admin` does. Rules
- What passes by itself is asked again until `timeout_ms` is over, as `Admin` does. A cluster that cannot be reached at the first question is not
  waited for: the address may be wrong.
- Leaders and coordinators are remembered, and forgotten when they fail: a question that follows another costs one round trip.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from ottla.client.cluster.retries import passes, unanswered, waits_ms
from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset
from ottla.client.requests.outcomes import outcome, succeeded
from ottla.client.sync.raw_cluster import RawCluster
from ottla.errors import KafkaError
from ottla.model import TopicPartition, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.wire.failures import CannotConnectError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_LAST_COMMIT_VERSION_BY_NAME: Final = 9
_GROUP: Final = 0


class RawAdmin:
    """Connects when it is first asked. Used by one thread at a time."""

    def __init__(self, bootstrap: str, *, client_id: str, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._cluster = RawCluster(parse_addresses(bootstrap), client_id=client_id, timeout_ms=timeout_ms)
        self._coordinators: dict[str, int] = {}
        self._has_answered = False

    def close(self) -> None:
        """Close all connections."""
        self._cluster.close()

    def list_topics(self) -> list[TopicInfo]:
        """All topics that are not internal, by name."""
        metadata = succeeded(self._settled({"": None}, lambda _: {"": self._cluster.metadata(None)}))[""]
        topics = (topic for topic in metadata.topics.values() if isinstance(topic, TopicInfo))
        return sorted((each for each in topics if not each.is_internal), key=lambda each: each.name)

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo | KafkaError]:
        """The named topics with their partitions."""
        return self._settled(
            dict.fromkeys(names), lambda pending: self._cluster.metadata(list(pending)).topics
        )

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Offsets by `OffsetSpec`, or of the first record at or after a timestamp in milliseconds."""
        return self._settled(
            wanted, lambda pending: self._cluster.offsets_at(pending, read_committed=read_committed)
        )

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group that has no members; the group comes into being if it is not there."""
        return self._settled(offsets, lambda pending: self._committed(group_id, pending))

    def _settled(
        self, items: Mapping[K, V], attempt: Callable[[Mapping[K, V]], Mapping[K, T | KafkaError]]
    ) -> dict[K, T | KafkaError]:
        """The sibling of `retries.settle`, for requests that do no harm when they are carried out twice."""
        deadline, pending = time.monotonic() + self._timeout_ms / 1000, dict(items)
        outcomes: dict[K, T | KafkaError] = {}
        for wait_ms in waits_ms():
            failure = None
            try:
                outcomes.update(attempt(pending) if pending else {})
                self._has_answered = True
                pending = {
                    key: item for key, item in pending.items() if passes(outcomes.get(key), repeatable=True)
                }
            except (ConnectionError, TimeoutError) as error:
                if isinstance(error, CannotConnectError) and not self._has_answered:
                    raise
                failure = error
            if pending and time.monotonic() + wait_ms / 1000 < deadline:
                time.sleep(wait_ms / 1000)
            elif failure:
                raise failure
            else:
                break
        return {key: outcomes[key] if key in outcomes else unanswered(key) for key in items}

    # ---- groups

    def _committed(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, KafkaError | None]:
        """What the coordinator says of each; it is looked up again next time if it refuses or does not answer."""
        try:
            answers = self._commit(group_id, offsets)
        except KafkaError as error:
            answers = dict.fromkeys(offsets, error)
        except (ConnectionError, TimeoutError):
            self._coordinators.pop(group_id, None)
            raise
        if any(answers.values()):
            self._coordinators.pop(group_id, None)
        return answers

    def _commit(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        from ottla.protocol.messages.offsets import (  # not every planner commits
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
            OffsetCommitResponse,
        )

        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(partition)
        connection = self._cluster.connection_to(self._coordinator(group_id))
        version = connection.common_version(ApiKey.OFFSET_COMMIT, at_most=_LAST_COMMIT_VERSION_BY_NAME)
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))
        response: OffsetCommitResponse = connection.ask(request, version)
        return {
            TopicPartition(topic.name, each.partition_index): outcome(each.error_code, None)
            for topic in response.topics
            for each in topic.partitions
        }

    def _coordinator(self, group_id: str) -> int:
        from ottla.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse

        if group_id not in self._coordinators:
            # Version 4 brought many keys in one question, and took the single one away.
            request = FindCoordinatorRequest(key=group_id, key_type=_GROUP, coordinator_keys=[group_id])
            response: FindCoordinatorResponse = self._cluster.ask_any(request)
            found = response.coordinators[0] if response.coordinators else response
            node_id = outcome(found.error_code, found.node_id, found.error_message)
            if isinstance(node_id, KafkaError):
                raise node_id
            self._coordinators[group_id] = node_id
        return self._coordinators[group_id]
