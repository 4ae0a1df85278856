"""Which broker leads what a client reads or writes, kept fresh in the background.

Rules
- Metadata is asked for when something said that it is out of date, when it is older than `max_age_ms`, and every second
  while a topic that is wanted does not exist: it may be created any moment. Who has it created asks sooner, with growing pauses.
- What is known stays until something newer is known. A cluster that does not answer is asked again, with growing pauses.
- A leader of an older epoch than the one known is not believed: the broker that named it has not heard yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from ottla.client.cluster.connections import Connections
from ottla.client.cluster.retries import waits_ms
from ottla.client.requests.metadata import Leader, PartitionInfo, TopicInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID

ABSENT_TOPIC_AGE_MS: Final = 1_000
# What a broker says of a topic that the question itself had created.
_BEING_CREATED: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
# Several partitions tell at once that their leader moved; one question answers them all.
_GATHER_SECONDS: Final = 0.02


class Topology:
    """What is known of the topics that are wanted. `run` keeps it fresh, and calls `on_change` after each answer."""

    def __init__(
        self,
        connections: Connections,
        *,
        max_age_ms: int,
        on_change: Callable[[], None],
        may_create_topics: bool = False,
    ) -> None:
        self._connections = connections
        self._max_age_ms = max_age_ms
        self._on_change = on_change
        self._may_create_topics = may_create_topics
        self._wanted: frozenset[str] = frozenset()
        self._matches: Callable[[str], bool] | None = None
        self._topics: dict[str, TopicInfo] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._errors: dict[str, KafkaError] = {}
        self._refresh_wanted = asyncio.Event()

    def want(self, topics: Iterable[str], matches: Callable[[str], bool] | None = None) -> None:
        """These are the topics that matter from now on, and those whose names match; internal ones never match."""
        is_new_pattern = matches is not None and matches != self._matches
        self._wanted, self._matches = frozenset(topics), matches
        if is_new_pattern or not self._wanted <= self._topics.keys():
            self.request_refresh()

    def request_refresh(self) -> None:
        """Something said that what is known is out of date."""
        self._refresh_wanted.set()

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        return self._leaders.get(partition)

    def error_of(self, topic: str) -> KafkaError | None:
        """Why nothing is known of a topic, if a broker said so."""
        return self._errors.get(topic)

    def learn_leader(self, partition: TopicPartition, leader: Leader) -> bool:
        """A broker that does not lead the partition any more named the one that does; False if that is no news."""
        known = self._leaders.get(partition)
        if partition.topic not in self._topics or (known is not None and leader.epoch <= known.epoch):
            return False
        self._leaders[partition] = leader
        return True

    def id_of(self, topic: str) -> UUID:
        """The id of a topic; the zero id if it, or the broker, has none."""
        known = self._topics.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    @property
    def matching_topics(self) -> frozenset[str]:
        """The topics that are known and match."""
        return self._matching(self._topics)

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has, as far as known; a topic that does not exist has none."""
        return {
            topic: len(self._topics[topic].partitions) if topic in self._topics else 0 for topic in topics
        }

    async def run(self) -> None:
        """Keep what is known fresh, until cancelled."""
        waits = waits_ms()
        while True:
            await self._until_stale()
            try:
                await self.refresh()
            except (ConnectionError, TimeoutError, KafkaError):
                self.request_refresh()
            if self._refresh_wanted.is_set():  # it did not help: no leader yet, or nobody who answers
                await asyncio.sleep(next(waits) / 1000)
            else:
                waits = waits_ms()
                await asyncio.sleep(_GATHER_SECONDS)

    async def refresh(self) -> None:
        """Ask now for everything that is wanted."""
        self._refresh_wanted.clear()
        topics = sorted(self._wanted) if self._matches is None else None
        metadata = await self._connections.refresh(topics, may_create=self._may_create_topics)
        wanted = self._wanted | self._matching(metadata.topics)
        for name in wanted & metadata.topics.keys():
            self._learn(name, metadata.topics[name])
        # Who is asked for all topics says nothing about those that are not there.
        gone = self._wanted - metadata.topics.keys() if topics is None else frozenset()
        for name in (self._topics.keys() - wanted) | gone:
            self._forget(name)
        for name in self._errors.keys() - wanted:
            del self._errors[name]
        self._on_change()

    def _matching(self, topics: Mapping[str, TopicInfo | KafkaError]) -> frozenset[str]:
        matches = self._matches
        if matches is None:
            return frozenset()
        return frozenset(
            name
            for name, topic in topics.items()
            if isinstance(topic, TopicInfo) and _is_match(topic, matches)
        )

    async def _until_stale(self) -> None:
        is_all_there = self._wanted <= self._topics.keys()
        age_ms = self._max_age_ms if is_all_there else min(self._max_age_ms, ABSENT_TOPIC_AGE_MS)
        try:
            async with asyncio.timeout(age_ms / 1000):
                await self._refresh_wanted.wait()
        except TimeoutError:
            pass

    def _learn(self, name: str, topic: TopicInfo | KafkaError) -> None:
        if isinstance(topic, TopicInfo):
            self._errors.pop(name, None)
            is_new = self.id_of(name) != topic.topic_id
            if is_new:
                self._forget(name)  # a topic that was deleted and made again begins with new epochs
            self._topics[name] = topic
            for partition in topic.partitions:
                self._lead(TopicPartition(name, partition.index), partition)
            return
        self._errors[name] = topic
        if topic.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._forget(name)
        if self._may_create_topics and topic.code in _BEING_CREATED:
            self.request_refresh()

    def _lead(self, key: TopicPartition, partition: PartitionInfo) -> None:
        known = self._leaders.get(key)
        if partition.leader is None:
            self._leaders.pop(key, None)
            self.request_refresh()
        elif known is None or partition.leader_epoch >= known.epoch or partition.leader_epoch < 0:
            self._leaders[key] = Leader(partition.leader, partition.leader_epoch)
        else:
            self.request_refresh()

    def _forget(self, name: str) -> None:
        topic = self._topics.pop(name, None)
        for partition in topic.partitions if topic else ():
            self._leaders.pop(TopicPartition(name, partition.index), None)


def _is_match(topic: TopicInfo, matches: Callable[[str], bool]) -> bool:
    return not topic.is_internal and matches(topic.name)
