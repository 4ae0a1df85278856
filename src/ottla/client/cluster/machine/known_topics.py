"""The topics that a client reads or writes, and when to ask for their metadata again.

Rules
- Knowledge stays until newer knowledge replaces it.
- A leader with an older epoch than the known one is ignored: the broker that named it has not heard of the
  newer one.
- Metadata is out of date when a partition has no leader, when a broker named an older leader, or when a topic
  is being created. While a wanted topic does not exist, metadata is old after a second: the topic may be
  created at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from ottla.client.requests.metadata import ClusterMetadata, Leader, PartitionInfo, TopicInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID

_ABSENT_TOPIC_AGE_MS: Final = 1_000
# The answer about a topic whose creation the same question has started.
_BEING_CREATED: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


class KnownTopics:
    """The knowledge of the wanted topics.

    When `is_outdated`, the shell fetches metadata for `request()` and passes it to `learn`.
    """

    def __init__(self, *, max_age_ms: int, may_create_topics: bool) -> None:
        self._max_age_ms = max_age_ms
        self._may_create_topics = may_create_topics
        self._wanted: frozenset[str] = frozenset()
        self._matches: Callable[[str], bool] | None = None
        self._topics: dict[str, TopicInfo] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._errors: dict[str, KafkaError] = {}
        self.is_outdated = False

    def want(self, topics: Iterable[str], matches: Callable[[str], bool] | None) -> None:
        """The topics that matter from now on, and those whose names match; internal topics never match."""
        is_new_pattern = matches is not None and matches != self._matches
        self._wanted, self._matches = frozenset(topics), matches
        if is_new_pattern or not self._wanted <= self._topics.keys():
            self.is_outdated = True

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        return self._leaders.get(partition)

    def error_of(self, topic: str) -> KafkaError | None:
        """Why nothing is known of a topic, if a broker said so."""
        return self._errors.get(topic)

    def id_of(self, topic: str) -> UUID:
        """The id of a topic; the zero id if the topic is not known, or the broker knows no ids."""
        known = self._topics.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each topic; 0 for a topic that is not known."""
        return {
            topic: len(self._topics[topic].partitions) if topic in self._topics else 0 for topic in topics
        }

    @property
    def matching_topics(self) -> frozenset[str]:
        """The known topics whose names match."""
        return self._matching(self._topics)

    # ---- asking for metadata

    @property
    def age_limit_ms(self) -> int:
        """After how long metadata is fetched again although nothing says that it is out of date."""
        is_all_there = self._wanted <= self._topics.keys()
        return self._max_age_ms if is_all_there else min(self._max_age_ms, _ABSENT_TOPIC_AGE_MS)

    def request(self) -> list[str] | None:
        """The topics to ask for now; None for all. Metadata is not out of date from then on."""
        self.is_outdated = False
        return sorted(self._wanted) if self._matches is None else None

    def learn(self, metadata: ClusterMetadata, *, of_all_topics: bool) -> None:
        """The answer to `request`; `of_all_topics` if that was None."""
        wanted = self._wanted | self._matching(metadata.topics)
        for name in wanted & metadata.topics.keys():
            self._learn(name, metadata.topics[name])
        # A broker that is asked for all topics says nothing about those that do not exist.
        gone = self._wanted - metadata.topics.keys() if of_all_topics else frozenset()
        for name in (self._topics.keys() - wanted) | gone:
            self._forget(name)
        for name in self._errors.keys() - wanted:
            del self._errors[name]

    def learn_leader(self, partition: TopicPartition, leader: Leader) -> bool:
        """Learn the leader that a former leader named; False if it is not newer than the known one."""
        known = self._leaders.get(partition)
        if partition.topic not in self._topics or (known is not None and leader.epoch <= known.epoch):
            return False
        self._leaders[partition] = leader
        return True

    def _matching(self, topics: Mapping[str, TopicInfo | KafkaError]) -> frozenset[str]:
        matches = self._matches
        if matches is None:
            return frozenset()
        return frozenset(
            name
            for name, topic in topics.items()
            if isinstance(topic, TopicInfo) and not topic.is_internal and matches(topic.name)
        )

    def _learn(self, name: str, topic: TopicInfo | KafkaError) -> None:
        if isinstance(topic, TopicInfo):
            self._errors.pop(name, None)
            if self.id_of(name) != topic.topic_id:
                self._forget(name)  # a topic that was deleted and created again starts with new epochs
            self._topics[name] = topic
            for partition in topic.partitions:
                self._lead(TopicPartition(name, partition.index), partition)
            return
        self._errors[name] = topic
        if topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._forget(name)
        if self._may_create_topics and topic.code in _BEING_CREATED:
            self.is_outdated = True

    def _lead(self, key: TopicPartition, partition: PartitionInfo) -> None:
        known = self._leaders.get(key)
        if partition.leader is None:
            self._leaders.pop(key, None)
            self.is_outdated = True
        elif known is None or partition.leader_epoch >= known.epoch or partition.leader_epoch < 0:
            self._leaders[key] = Leader(partition.leader, partition.leader_epoch)
        else:
            self.is_outdated = True

    def _forget(self, name: str) -> None:
        topic = self._topics.pop(name, None)
        for partition in topic.partitions if topic else ():
            self._leaders.pop(TopicPartition(name, partition.index), None)
