"""Topics of the target that are like those of the source: as many partitions, the same settings of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import ConfigResource, ConfigSource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

# The records of the source were checked there, some by schemas that are deleted by now.
_CHECKS: Final = "schema.validation"


async def chosen_topics(source: Admin, names: Iterable[str]) -> list[str]:
    """The named topics, or all but internal ones. Raises KafkaError for a name that is none."""
    known = [topic.name for topic in await source.list_topics()]
    missing = sorted({*names} - {*known})
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the source has no topic {', '.join(missing)}"
        )
    return sorted(names) or sorted(name for name in known if not name.startswith("__"))


async def prepare(source: Admin, target: Admin, names: list[str]) -> list[TopicPartition]:
    """Make what the target lacks; the partitions to copy. Raises KafkaError if a topic there cannot be used."""
    topics = succeeded(await source.describe_topics(names))
    there = await target.describe_topics(names)
    for name, topic in topics.items():
        count, known = len(topic.partitions), there[name]
        if isinstance(known, KafkaError):
            if known.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise known
            succeeded(await target.create_topics([NewTopic(name, count, configs=await _own(source, name))]))
        elif len(known.partitions) < count:
            succeeded(await target.create_partitions({name: count}))
    return [TopicPartition(name, each.index) for name, topic in topics.items() for each in topic.partitions]


async def _own(source: Admin, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    entries = succeeded(await source.describe_configs([resource]))[resource]
    return {
        each.name: each.value
        for each in entries.values()
        if each.source is ConfigSource.TOPIC and each.value is not None and _CHECKS not in each.name
    }
