"""The topics in use, kept up to date in the background.

`machine.known_topics` decides when metadata is out of date. This shell fetches it then, and calls
`on_change`. A cluster that does not answer is asked again, with growing pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.conversation import refreshed
from ottla.client.cluster.machine.known_topics import KnownTopics
from ottla.client.requests.metadata import Leader
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

# Several partitions say at once that their leader moved; one request answers for all of them.
_GATHER_SECONDS: Final = 0.02
# Kinds of notices.
_SILENT: Final = "silent"
_ABSENT: Final = "absent"


class Topology:
    """The knowledge of the wanted topics.

    `run` keeps it up to date, and calls `on_change` after each answer.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        max_age_ms: int,
        on_change: Callable[[], None],
        may_create_topics: bool = False,
    ) -> None:
        self._connections = connections
        self._on_change = on_change
        self._may_create_topics = may_create_topics
        self._topics = KnownTopics(max_age_ms=max_age_ms, may_create_topics=may_create_topics)
        self._refresh_wanted = asyncio.Event()
        self._has_learned = False
        self._is_contradicted = False

    def want(self, topics: Iterable[str], matches: Callable[[str], bool] | None = None) -> None:
        """The topics that matter from now on, and those whose names match; internal topics never match."""
        self._topics.want(topics, matches)
        self._wake_if_outdated()

    def request_refresh(self) -> None:
        """Fetch metadata soon: a broker's answer contradicts the present knowledge."""
        self._is_contradicted = self._has_learned
        self._refresh_wanted.set()

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        return self._topics.leader_of(partition)

    def error_of(self, topic: str) -> KafkaError | None:
        """Why nothing is known of a topic, if a broker said so."""
        return self._topics.error_of(topic)

    def learn_leader(self, partition: TopicPartition, leader: Leader) -> bool:
        """Learn the leader that a former leader named; False if it is not newer than the known one."""
        return self._topics.learn_leader(partition, leader)

    def id_of(self, topic: str) -> UUID:
        """The id of a topic; the zero id if the topic is not known, or the broker knows no ids."""
        return self._topics.id_of(topic)

    @property
    def matching_topics(self) -> frozenset[str]:
        """The known topics whose names match."""
        return self._topics.matching_topics

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each topic; 0 for a topic that is not known."""
        return self._topics.partition_counts(topics)

    async def run(self) -> None:
        """Fetch metadata whenever it is out of date, until cancelled."""
        waits = waits_ms()
        while True:
            await self._until_outdated()
            try:
                await self.refresh()
            except (ConnectionError, TimeoutError, KafkaError) as error:
                self._connections.notices.say(_SILENT, f"no broker answers, asking again: {error}")
                self.request_refresh()
            if self._refresh_wanted.is_set():  # the answer did not help: no leader yet, or no broker answered
                await asyncio.sleep(next(waits) / 1000)
            else:
                waits = waits_ms()
                await asyncio.sleep(_GATHER_SECONDS)

    async def refresh(self) -> None:
        """Fetch the metadata of everything that is wanted now."""
        self._refresh_wanted.clear()
        topics, connections = self._topics.request(), self._connections
        if self._is_contradicted:
            connections.known.ask_another()
        self._has_learned = self._is_contradicted = False
        steps = refreshed(connections.known, topics, may_create=self._may_create_topics)
        metadata = await connections.converse(steps)
        self._topics.learn(metadata, of_all_topics=topics is None)
        self._has_learned = True
        self._tell_of_absent_topics(topics or ())
        self._wake_if_outdated()
        self._on_change()

    def _tell_of_absent_topics(self, topics: Iterable[str]) -> None:
        notices = self._connections.notices
        for topic in () if self._may_create_topics else topics:
            error = self._topics.error_of(topic)
            if error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                notices.say((_ABSENT, topic), f'the topic "{topic}" does not exist; it is waited for')

    def _wake_if_outdated(self) -> None:
        if self._topics.is_outdated:
            self._refresh_wanted.set()

    async def _until_outdated(self) -> None:
        try:
            async with asyncio.timeout(self._topics.age_limit_ms / 1000):
                await self._refresh_wanted.wait()
        except TimeoutError:
            pass
