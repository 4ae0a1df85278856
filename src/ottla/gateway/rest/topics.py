"""GET /topics and /brokers: what there is, as Confluent's REST v2 shows it."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.metadata import PartitionInfo
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.machine.embedded import V2
from ottla.gateway.rest.machine.shapes import NUMBER, TEXT, list_of, record_of
from ottla.gateway.rest.produce import partition_in
from ottla.model import TopicPartition

_REPLICA = record_of(broker=NUMBER, leader={"type": "boolean"}, in_sync={"type": "boolean"})
_PARTITION = record_of(partition=NUMBER, leader=NUMBER, replicas=list_of(_REPLICA))
_TOPIC = record_of(name=TEXT, configs={"type": "object"}, partitions=list_of(_PARTITION))
_ENDS = record_of(beginning_offset=NUMBER, end_offset=NUMBER)
_BROKERS = record_of(brokers=list_of(NUMBER))


class TopicRoutes:
    """Topics, partitions, their offsets, and brokers."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool

    def routes(self) -> tuple[Route, ...]:
        described = (
            ("/topics", self._topics, "The names of all topics.", list_of(TEXT)),
            ("/topics/{topic}", self._topic, "A topic with its settings and partitions.", _TOPIC),
            (
                "/topics/{topic}/partitions",
                self._partitions,
                "The partitions of a topic.",
                list_of(_PARTITION),
            ),
            ("/topics/{topic}/partitions/{partition}", self._partition, "One partition.", _PARTITION),
            (
                "/topics/{topic}/partitions/{partition}/offsets",
                self._offsets,
                "The ends of a partition.",
                _ENDS,
            ),
            ("/brokers", self._brokers, "The ids of all brokers.", _BROKERS),
        )
        return tuple(
            Route(
                "GET",
                path,
                handler,
                summary,
                "topics",
                gives=(V2, JSON),
                answer_schema=shape,
                problems=(401, 403, 404, 503) if "{" in path else (401, 503),
            )
            for path, handler, summary, shape in described
        )

    async def _topics(self, request: Request) -> Answer:
        async with self._pool.caller(request.login) as caller:
            topics = await (await caller.clients.admin()).list_topics()
        return _answer(request, [each.name for each in topics])

    async def _topic(self, request: Request) -> Answer:
        name = request.params["topic"]
        async with self._pool.caller(request.login) as caller:
            topic = await caller.topics.describe(name)
            resource = ConfigResource(ResourceType.TOPIC, name)
            admin = await caller.clients.admin()
            entries = succeeded(await admin.describe_configs([resource]))[resource]
        configs = {entry: value.value for entry, value in sorted(entries.items())}
        return _answer(
            request, {"name": name, "configs": configs, "partitions": list(map(_shown, topic.partitions))}
        )

    async def _partitions(self, request: Request) -> Answer:
        async with self._pool.caller(request.login) as caller:
            topic = await caller.topics.describe(request.params["topic"])
        return _answer(request, list(map(_shown, topic.partitions)))

    async def _partition(self, request: Request) -> Answer:
        number, name = partition_in(request), request.params["topic"]
        async with self._pool.caller(request.login) as caller:
            topic = await caller.topics.describe(name)
        for each in topic.partitions:
            if each.index == number:
                return _answer(request, _shown(each))
        raise HttpError(404, f"there is no partition {number} of {name!r}", error_code=40402)

    async def _offsets(self, request: Request) -> Answer:
        place = TopicPartition(request.params["topic"], partition_in(request))
        async with self._pool.caller(request.login) as caller:
            await caller.topics.check_partition(*place)
            admin = await caller.clients.admin()
            first, last = await asyncio.gather(
                admin.list_offsets({place: OffsetSpec.EARLIEST}),
                admin.list_offsets({place: OffsetSpec.LATEST}),
            )
        begin, end = succeeded(first)[place].offset, succeeded(last)[place].offset
        return _answer(request, {"beginning_offset": begin, "end_offset": end})

    async def _brokers(self, request: Request) -> Answer:
        async with self._pool.caller(request.login) as caller:
            cluster = await (await caller.clients.admin()).describe_cluster()
        return _answer(request, {"brokers": sorted(each.node_id for each in cluster.brokers)})


def _shown(partition: PartitionInfo) -> dict[str, Any]:
    leader = -1 if partition.leader is None else partition.leader
    replicas = [
        {"broker": each, "leader": each == leader, "in_sync": each in partition.isr}
        for each in partition.replicas
    ]
    return {"partition": partition.index, "leader": leader, "replicas": replicas}


def _answer(request: Request, value: Any) -> Answer:
    return Answer(200, to_json(value), request.accept)
