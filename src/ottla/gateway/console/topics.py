"""Topics: a list that stays usable with thousands, and one topic with partitions, settings, readers and writers."""

from __future__ import annotations

from typing import Any, Final

from ottla.client.requests.configs import ConfigEntry, ConfigResource, ResourceType, is_without_effect
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.metadata import PartitionInfo, TopicInfo
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.listing import LIST_PARAMETERS, named_like, page_of
from ottla.gateway.console.sampling import Sampler
from ottla.gateway.console.topic_figures import Ends, LogSizes, TopicLists, ends_of
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.model import TopicPartition

# Each group is asked for its offsets.
MOST_GROUPS: Final = 200
_MOST_PARTITIONS_ASKED: Final = 200


class TopicPages:
    """What the page shows of topics."""

    def __init__(self, door: Door, sampler: Sampler) -> None:
        self._door = door
        self._sampler = sampler
        self._sizes = LogSizes()
        self._lists = TopicLists()

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        listing = (
            *LIST_PARAMETERS,
            Parameter("internal", "Whether the cluster's own topics are listed, too.", "boolean", False),
            Parameter("troubled", "Only topics with partitions that are not well.", "boolean", False),
        )
        names = (Parameter("names", "Topics, with commas between.", default=""),)
        return (
            reads("/topics", self._list, "Topics, a page at a time.", listing),
            reads("/topic-figures", self._figures, "Records, bytes and rates of some topics.", names),
            reads(
                "/topics/{topic}", self._show, "A topic and a page of its partitions.", LIST_PARAMETERS[1:]
            ),
            reads("/topics/{topic}/configs", self._configs, "The settings of a topic and their sources."),
            reads("/topics/{topic}/readers", self._readers, "The groups that read a topic, with their lag."),
            reads("/topics/{topic}/writers", self._writers, "The producers that a topic's partitions know."),
        )

    async def _list(self, visit: Visit) -> Any:
        topics = await self._lists.of(visit.admin, visit.login, internal=visit.query["internal"])
        found = named_like(topics, visit.query["search"], lambda each: each.name)
        if visit.query["troubled"]:
            found = [each for each in found if not _is_well(each)]
        rows, facts = page_of(found, visit.query["page"], visit.query["per_page"])
        return {
            "topics": [_row(each) for each in rows],
            **facts,
            "partitions": sum(len(each.partitions) for each in found),
            "command": visit.commands.line("topics", "list"),
        }

    async def _figures(self, visit: Visit) -> Any:
        names = [name for name in visit.query["names"].split(",") if name][: LIST_PARAMETERS[2].at_most]
        described = await visit.admin.describe_topics(names) if names else {}
        topics = [each for each in described.values() if isinstance(each, TopicInfo)]
        places = {
            each.name: [TopicPartition(each.name, one.index) for one in each.partitions] for each in topics
        }
        ends = await ends_of(visit.admin, [place for some in places.values() for place in some])
        sizes = await self._sizes.of(visit.admin, visit.login)
        history = self._sampler.history(visit.login)
        return {
            "figures": {
                name: {
                    "records": _sum(ends, some),
                    "bytes": sum(sum(sizes.get(place, {}).values()) for place in some) if sizes else None,
                    "records_per_s": history.rate_of(name),
                }
                for name, some in places.items()
            }
        }

    async def _show(self, visit: Visit) -> Any:
        topic = await visit.caller.topics.describe(visit.params["topic"])
        rows, facts = page_of(topic.partitions, visit.query["page"], visit.query["per_page"])
        places = [TopicPartition(topic.name, each.index) for each in topic.partitions]
        ends = await ends_of(visit.admin, places)
        sizes = await self._sizes.of(visit.admin, visit.login)
        return {
            **_row(topic),
            "topic_id": str(topic.topic_id),
            "records": _sum(ends, places),
            "bytes": sum(sum(sizes.get(place, {}).values()) for place in places) if sizes else None,
            "records_per_s": self._sampler.history(visit.login).rate_of(topic.name),
            "rows": [
                _partition(each, ends.get(place), sizes.get(place, {}))
                for each in rows
                for place in (TopicPartition(topic.name, each.index),)
            ],
            "pages": facts,
            "command": visit.commands.line("topics", "describe", topic.name),
        }

    async def _configs(self, visit: Visit) -> Any:
        name = visit.params["topic"]
        await visit.caller.topics.describe(name)
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = succeeded(await visit.admin.describe_configs([resource]))[resource]
        return {
            "configs": [setting(entry) for _, entry in sorted(entries.items())],
            "command": visit.commands.line("topics", "describe", name),
        }

    async def _readers(self, visit: Visit) -> Any:
        topic = await visit.caller.topics.describe(visit.params["topic"])
        places = [TopicPartition(topic.name, each.index) for each in topic.partitions]
        ends = await ends_of(visit.admin, places)
        listed = await visit.admin.list_groups()
        readers = []
        for group in listed[:MOST_GROUPS]:
            try:
                committed = await visit.admin.list_group_offsets(group.group_id, places)
            except KafkaError:
                continue  # a group that this user may not see
            offsets = {place: each for place, each in committed.items() if isinstance(each, CommittedOffset)}
            if offsets:
                lag = sum(
                    max(0, ends[place].end - each.offset) for place, each in offsets.items() if place in ends
                )
                readers.append(
                    {"group": group.group_id, "state": group.state, "lag": lag, "partitions": len(offsets)}
                )
        return {"readers": readers, "asked": min(len(listed), MOST_GROUPS), "groups": len(listed)}

    async def _writers(self, visit: Visit) -> Any:
        topic = await visit.caller.topics.describe(visit.params["topic"])
        places = [TopicPartition(topic.name, each.index) for each in topic.partitions][
            :_MOST_PARTITIONS_ASKED
        ]
        known = await visit.admin.describe_producers(places)
        writers: dict[int, dict[str, Any]] = {}
        for place, found in known.items():
            for each in () if isinstance(found, KafkaError) else found:
                row = writers.setdefault(
                    each.producer_id,
                    {"producer_id": each.producer_id, "partitions": [], "last_ms": 0, "is_open": False},
                )
                row["partitions"].append(place.partition)
                row["last_ms"] = max(row["last_ms"], each.last_timestamp_ms)
                row["is_open"] = row["is_open"] or each.open_since_offset is not None
        rows = sorted(writers.values(), key=lambda row: -row["last_ms"])
        return {
            "writers": rows[:100],
            "command": visit.commands.line("transactions", "producers", topic.name),
        }


def setting(entry: ConfigEntry) -> dict[str, Any]:
    """A setting with where its value comes from."""
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "is_own": entry.source.name == "TOPIC",
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "is_without_effect": is_without_effect(entry),
        "doc": entry.documentation,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": each.source.name} for each in entry.synonyms
        ],
    }


def partition_in(visit: Visit) -> int:
    """The partition that the path names. Raises HttpError(404)."""
    text = visit.params["partition"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HttpError(404, f"{text[:50]!r} is no partition", error_code=40402)
    return int(text)


def _sum(ends: dict[TopicPartition, Ends], places: list[TopicPartition]) -> int:
    return sum(ends[place].end - ends[place].start for place in places if place in ends)


def _is_well(topic: TopicInfo) -> bool:
    return all(each.leader is not None and set(each.isr) == set(each.replicas) for each in topic.partitions)


def _row(topic: TopicInfo) -> dict[str, Any]:
    return {
        "name": topic.name,
        "is_internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "leaderless": sum(each.leader is None for each in topic.partitions),
        "under_replicated": sum(set(each.isr) < set(each.replicas) for each in topic.partitions),
    }


def _partition(found: PartitionInfo, ends: Ends | None, sizes: dict[int, int]) -> dict[str, Any]:
    return {
        "partition": found.index,
        "leader": found.leader,
        "leader_epoch": found.leader_epoch,
        "replicas": [
            {"broker": each, "in_sync": each in found.isr, "is_offline": each in found.offline_replicas}
            for each in found.replicas
        ],
        "start": None if ends is None else ends.start,
        "end": None if ends is None else ends.end,
        "bytes": sizes.get(found.leader) if found.leader is not None else None,
    }
