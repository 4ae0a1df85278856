"""What is known of topics, so that an unknown name, or an unknown partition, can be refused at once.

A producer waits for a topic to come into being; a caller over HTTP wants to hear that there is none. The number of
partitions is remembered for a few seconds, because every produce request asks for it.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.metadata import TopicInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.cluster.clients import CallerClients
from ottla.gateway.http.machine.http_error import HttpError
from ottla.runtime.clock import monotonic_ms

_REMEMBERED_MS: Final = 10_000
_MOST_REMEMBERED: Final = 10_000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class KnownTopics:
    """The partitions of topics, as one caller may see them."""

    def __init__(self, clients: CallerClients) -> None:
        self._clients = clients
        self._counts: dict[str, tuple[float, int]] = {}

    async def partition_count(self, topic: str) -> int:
        """The number of partitions. Raises HttpError(404) and KafkaError."""
        remembered = self._counts.get(topic)
        if remembered is not None and monotonic_ms() < remembered[0]:
            return remembered[1]
        return len((await self.describe(topic)).partitions)

    async def describe(self, topic: str) -> TopicInfo:
        """A topic as the cluster describes it now. Raises HttpError(404) and KafkaError."""
        if not is_topic_name(topic):
            raise HttpError(404, f"{topic[:100]!r} cannot be the name of a topic", error_code=40401)
        admin = await self._clients.admin()
        found = (await admin.describe_topics([topic]))[topic]
        if isinstance(found, KafkaError):
            self._counts.pop(topic, None)
            if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise HttpError(404, f"there is no topic {topic!r}", error_code=40401)
            raise found
        if len(self._counts) >= _MOST_REMEMBERED:
            self._counts.clear()
        self._counts[topic] = monotonic_ms() + _REMEMBERED_MS, len(found.partitions)
        return found

    async def can_come_into_being(self, topic: str) -> bool:
        """Whether the cluster may create a topic that somebody produces to (auto.create.topics.enable).

        A caller that may not read the setting has to try.
        """
        if not is_topic_name(topic):
            return False
        admin = await self._clients.admin()
        brokers = (await admin.describe_cluster()).brokers
        resource = ConfigResource(ResourceType.BROKER, str(brokers[0].node_id))
        entries = (await admin.describe_configs([resource]))[resource]
        if isinstance(entries, KafkaError):
            return True
        found = entries.get("auto.create.topics.enable")
        return found is None or found.value != "false"

    async def check_partition(self, topic: str, partition: int) -> None:
        """Raises HttpError(404) if there is no such topic or partition."""
        count = await self.partition_count(topic)
        if partition >= count:
            count = len((await self.describe(topic)).partitions)  # it may have been added since
        if not 0 <= partition < count:
            raise HttpError(
                404,
                f"there is no partition {partition} of {topic!r}: it has 0 to {count - 1}",
                error_code=40402,
            )


def is_topic_name(text: str) -> bool:
    """Whether a topic can have this name."""
    return _NAME.fullmatch(text) is not None and text not in (".", "..")
