"""Topics, partitions and the settings of topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from ottla.client.requests.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from ottla.client.requests.outcomes import succeeded
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import json_object
from ottla.gateway.http.machine.message import NO_CONTENT, Answer, Request
from ottla.gateway.http.machine.routes import BodyKind, Route
from ottla.gateway.rest.machine.shapes import NUMBER, TEXT, Schema, list_of, record_of
from ottla.gateway.rest.v3.machine import resources, topic_bodies
from ottla.gateway.rest.v3.place import CLUSTER, Place, Places, answer

_TOPICS: Final = f"{CLUSTER}/topics"
_TOPIC: Final = f"{_TOPICS}/{{topic_name}}"
_CONFIG: Final = f"{_TOPIC}/configs/{{name}}"
_FLAG: Final[Schema] = {"type": "boolean"}
_SETTING = record_of(("name",), name=TEXT, value=TEXT)
_NEW = record_of(
    ("topic_name",),
    topic_name=TEXT,
    partitions_count=NUMBER,
    replication_factor=NUMBER,
    configs=list_of(_SETTING),
    validate_only=_FLAG,
)
_ALTER = record_of(
    ("data",), data=list_of(record_of(("name",), name=TEXT, value=TEXT, operation=TEXT)), validate_only=_FLAG
)

Handler = Callable[[Request], Awaitable[Answer]]


class TopicRoutesV3:
    """Shows, creates, changes and deletes topics."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def routes(self) -> tuple[Route, ...]:
        made = _route
        return (
            made("GET", _TOPICS, self._list, "All topics."),
            made("POST", _TOPICS, self._create, "Create a topic.", 201, "required", _NEW),
            made("GET", _TOPIC, self._show, "A topic."),
            made("DELETE", _TOPIC, self._delete, "Delete a topic with all its records.", 204),
            made("GET", f"{_TOPIC}/partitions", self._partitions, "The partitions of a topic."),
            made("GET", f"{_TOPIC}/partitions/{{partition_id}}", self._partition, "A partition."),
            made("GET", f"{_TOPIC}/configs", self._configs, "The settings of a topic."),
            made(
                "POST",
                f"{_TOPIC}/configs:alter",
                self._alter,
                "Change several settings.",
                204,
                "required",
                _ALTER,
            ),
            made("GET", _CONFIG, self._config, "A setting."),
            made(
                "PUT",
                _CONFIG,
                self._set,
                "Change a setting.",
                204,
                "required",
                record_of(("value",), value=TEXT),
            ),
            made("DELETE", _CONFIG, self._unset, "Give a setting its default again.", 204),
        )

    # ---- topics

    async def _list(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            topics = await place.admin.list_topics(include_internal=True)
            shown = [resources.topic(place.base, place.cluster_id, each) for each in topics]
            return answer(resources.listing("Topic", f"{place.base}/topics", shown))

    async def _create(self, request: Request) -> Answer:
        topic, only_checks = topic_bodies.new_topic(json_object(request.body))
        async with self._places.of(request) as place:
            outcomes = await place.admin.create_topics([topic], validate_only=only_checks)
            created = succeeded(outcomes)[topic.name]
            url = f"{place.base}/topics/{topic.name}"
            shown = resources.resource(
                "Topic",
                url,
                cluster_id=place.cluster_id,
                topic_name=topic.name,
                is_internal=False,
                replication_factor=created.replication_factor,
                partitions_count=created.partitions,
                partitions=resources.related(f"{url}/partitions"),
                configs=resources.related(f"{url}/configs"),
            )
            return answer(shown, 201)

    async def _show(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            topic = await place.caller.topics.describe(request.params["topic_name"])
            return answer(resources.topic(place.base, place.cluster_id, topic))

    async def _delete(self, request: Request) -> Answer:
        name = request.params["topic_name"]
        async with self._places.of(request) as place:
            await place.caller.topics.describe(name)
            succeeded(await place.admin.delete_topics([name]))
        return NO_CONTENT

    # ---- partitions

    async def _partitions(self, request: Request) -> Answer:
        name = request.params["topic_name"]
        async with self._places.of(request) as place:
            topic = await place.caller.topics.describe(name)
            shown = [
                resources.partition(place.base, place.cluster_id, name, each) for each in topic.partitions
            ]
            return answer(resources.listing("Partition", f"{place.base}/topics/{name}/partitions", shown))

    async def _partition(self, request: Request) -> Answer:
        name, number = request.params["topic_name"], request.params["partition_id"]
        async with self._places.of(request) as place:
            topic = await place.caller.topics.describe(name)
            for each in topic.partitions:
                if str(each.index) == number:
                    return answer(resources.partition(place.base, place.cluster_id, name, each))
        raise HttpError(404, f"there is no partition {number[:50]!r} of {name!r}", error_code=40402)

    # ---- settings

    async def _configs(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            name = request.params["topic_name"]
            entries = await _entries(place, name)
            shown = [
                resources.topic_config(place.base, place.cluster_id, name, each)
                for _, each in sorted(entries.items())
            ]
            return answer(resources.listing("TopicConfig", f"{place.base}/topics/{name}/configs", shown))

    async def _config(self, request: Request) -> Answer:
        async with self._places.of(request) as place:
            entry = await _entry(place, request)
            return answer(
                resources.topic_config(place.base, place.cluster_id, request.params["topic_name"], entry)
            )

    async def _set(self, request: Request) -> Answer:
        value = topic_bodies.config_value(json_object(request.body))
        return await self._change_one(request, ConfigChange(request.params["name"], value))

    async def _unset(self, request: Request) -> Answer:
        return await self._change_one(
            request, ConfigChange(request.params["name"], None, ConfigOperation.DELETE)
        )

    async def _change_one(self, request: Request, change: ConfigChange) -> Answer:
        async with self._places.of(request) as place:
            await _entry(place, request)
            await _alter(place, request.params["topic_name"], [change], only_checks=False)
        return NO_CONTENT

    async def _alter(self, request: Request) -> Answer:
        changes, only_checks = topic_bodies.config_changes(json_object(request.body))
        name = request.params["topic_name"]
        async with self._places.of(request) as place:
            await place.caller.topics.describe(name)
            await _alter(place, name, changes, only_checks=only_checks)
        return NO_CONTENT


async def _entries(place: Place, name: str) -> dict[str, ConfigEntry]:
    await place.caller.topics.describe(name)
    resource = ConfigResource(ResourceType.TOPIC, name)
    return succeeded(await place.admin.describe_configs([resource]))[resource]


async def _entry(place: Place, request: Request) -> ConfigEntry:
    entries = await _entries(place, request.params["topic_name"])
    found = entries.get(request.params["name"])
    if found is None:
        raise HttpError(404, f"a topic has no setting {request.params['name'][:100]!r}")
    return found


async def _alter(place: Place, name: str, changes: list[ConfigChange], *, only_checks: bool) -> None:
    resource = ConfigResource(ResourceType.TOPIC, name)
    succeeded(await place.admin.alter_configs({resource: changes}, validate_only=only_checks))


def _route(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    status: int = 200,
    body: BodyKind = "none",
    body_schema: dict[str, Any] | None = None,
) -> Route:
    return Route(
        method,
        path,
        handler,
        summary,
        "v3 topics",
        body=body,
        body_schema=body_schema or {},
        answer_schema={} if status == 204 else {"type": "object"},
        status=status,
        problems=(403, 404, 422) if body != "none" else (403, 404),
    )
