"""One topic in detail, gathered from several answers: partitions, offsets, sizes, its own settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
    is_without_effect,
)
from ottla.client.requests.metadata import PartitionInfo, TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import KafkaError
from ottla.log.files.uuids import uuid_text
from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionDetails:
    """A partition; offsets and size are None where no broker answered.

    `damaged_replicas` are those of the offline replicas whose brokers run.
    """

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    damaged_replicas: tuple[int, ...]
    log_start_offset: int | None
    high_watermark: int | None
    size_bytes: int | None
    # Of a topic with tiered storage: where its local part starts, and its last offset in the object store.
    local_start_offset: int | None = None
    latest_tiered_offset: int | None = None


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic; `configs` holds only the settings that were made for this topic, `without_effect` the names of
    those that the brokers only keep.
    """

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDetails, ...]
    configs: dict[str, str | None]
    without_effect: tuple[str, ...]


Offsets = Mapping[TopicPartition, ListedOffset | KafkaError]


async def gather_details(admin: Admin, topics: Iterable[TopicInfo]) -> list[TopicDetails]:
    """Ask for everything about these topics, in few requests."""
    topics = list(topics)
    led = [
        TopicPartition(topic.name, each.index)
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    ]
    first = await admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.EARLIEST)))
    last = await admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.LATEST)))
    sizes = await _sizes(admin, {each.leader for topic in topics for each in topic.partitions})
    configs = await _own_configs(admin, [topic.name for topic in topics])
    live = {broker.node_id for broker in (await admin.describe_cluster()).brokers}
    tiered = [each for each in led if _is_tiered(configs.get(each.topic, {}))]
    local = await admin.list_offsets(dict.fromkeys(tiered, int(OffsetSpec.EARLIEST_LOCAL)))
    remote = await admin.list_offsets(dict.fromkeys(tiered, int(OffsetSpec.LATEST_TIERED)))
    return [
        TopicDetails(
            name=topic.name,
            topic_id=uuid_text(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=tuple(
                _with_tier(_partition(topic.name, each, first, last, sizes, live), topic.name, local, remote)
                for each in topic.partitions
            ),
            configs={name: entry.value for name, entry in configs.get(topic.name, {}).items()},
            without_effect=tuple(
                name for name, entry in configs.get(topic.name, {}).items() if is_without_effect(entry)
            ),
        )
        for topic in topics
    ]


def details_as_json(details: TopicDetails) -> dict[str, Any]:
    """The same for programs."""
    return asdict(details)


def _partition(
    topic: str,
    info: PartitionInfo,
    first: Offsets,
    last: Offsets,
    sizes: Mapping[tuple[int | None, TopicPartition], int],
    live: Collection[int],
) -> PartitionDetails:
    key = TopicPartition(topic, info.index)
    return PartitionDetails(
        partition=info.index,
        leader=info.leader,
        leader_epoch=info.leader_epoch,
        replicas=info.replicas,
        isr=info.isr,
        offline_replicas=info.offline_replicas,
        damaged_replicas=tuple(node_id for node_id in info.offline_replicas if node_id in live),
        log_start_offset=_offset(first.get(key)),
        high_watermark=_offset(last.get(key)),
        size_bytes=sizes.get((info.leader, key)),
    )


def _is_tiered(configs: Mapping[str, ConfigEntry]) -> bool:
    entry = configs.get("remote.storage.enable")
    return entry is not None and entry.value == "true"


def _with_tier(details: PartitionDetails, topic: str, local: Offsets, remote: Offsets) -> PartitionDetails:
    key = TopicPartition(topic, details.partition)
    return replace(
        details,
        local_start_offset=_offset(local.get(key)),
        latest_tiered_offset=_offset(remote.get(key)),
    )


def _offset(listed: ListedOffset | KafkaError | None) -> int | None:
    return listed.offset if isinstance(listed, ListedOffset) else None


async def _sizes(admin: Admin, leaders: Iterable[int | None]) -> dict[tuple[int | None, TopicPartition], int]:
    """The size of each log on each of the brokers."""
    answers = await admin.describe_log_dirs([leader for leader in leaders if leader is not None])
    return {
        (node_id, partition): replica.size_bytes
        for node_id, log_dirs in answers.items()
        if not isinstance(log_dirs, KafkaError)
        for log_dir in log_dirs
        for partition, replica in log_dir.replicas.items()
        if not replica.is_future
    }


async def _own_configs(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
    described = await admin.describe_configs(ConfigResource(ResourceType.TOPIC, name) for name in names)
    return {
        resource.name: {name: entry for name, entry in entries.items() if entry.source == ConfigSource.TOPIC}
        for resource, entries in described.items()
        if not isinstance(entries, KafkaError)
    }
