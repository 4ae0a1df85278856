"""/consumers/...: the routes of consumer instances, as Confluent's REST v2 has them.

An instance belongs to one gateway: `base_uri` says to which. Requests for it have to go there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

from ottla.client.requests.offsets import OffsetSpec
from ottla.config.gateway import GatewayConfig
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.json_bodies import json_object, to_json
from ottla.gateway.http.machine.message import JSON, NO_CONTENT, Answer, Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import BodyKind, Route
from ottla.gateway.records.machine.embedded import MEDIA_TYPES, V2
from ottla.gateway.rest.instance import UNSUPPORTED_FORMAT
from ottla.gateway.rest.instances import Instances
from ottla.gateway.rest.machine import consumer_bodies
from ottla.gateway.rest.machine.shapes import (
    ANY,
    NUMBER,
    OFFSETS,
    PARTITIONS,
    TEXT,
    Schema,
    list_of,
    record_of,
)
from ottla.gateway.schema_values.machine.formats import SCHEMA_MEDIA_TYPES
from ottla.model import TopicPartition

_INSTANCE: Final = "/consumers/{group}/instances/{instance}"
_FORMATS: Final = {**MEDIA_TYPES, **SCHEMA_MEDIA_TYPES}
_TAKES: Final = (V2, JSON, *_FORMATS)
_MOST_BYTES: Final = 64 << 20
_WAIT = Parameter(
    "timeout", "How many milliseconds to wait for records.", "integer", at_least=0, at_most=2**31 - 1
)
_SIZE = Parameter(
    "max_bytes",
    "The most bytes of keys and values in the answer; one record is returned in any case.",
    "integer",
    default=_MOST_BYTES,
    at_least=1,
    at_most=2**31 - 1,
)
_RECORDS = list_of(record_of(topic=TEXT, key=ANY, value=ANY, partition=NUMBER, offset=NUMBER))
_TOPICS = record_of(topics=list_of(TEXT))
_SETTINGS: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "format": {"type": "string", "enum": ["json", "binary", "avro", "jsonschema", "protobuf"]},
        "auto.offset.reset": {"type": "string", "enum": ["earliest", "latest", "none"]},
        "auto.commit.enable": {"type": ["boolean", "string"]},
        "isolation.level": {"type": "string", "enum": ["read_uncommitted", "read_committed"]},
        "fetch.min.bytes": {"type": ["integer", "string"]},
        "consumer.request.timeout.ms": {"type": ["integer", "string"]},
        "ottla.acknowledgements": {"type": ["boolean", "string"]},
    },
    "additionalProperties": False,
}
_SUBSCRIPTION = record_of(topics=list_of(TEXT), topic_pattern=TEXT)

Handler = Callable[[Request], Awaitable[Answer]]


class ConsumerRoutes:
    """Consumer instances over HTTP."""

    def __init__(self, instances: Instances, settings: GatewayConfig) -> None:
        self._instances = instances
        self._settings = settings

    def routes(self) -> tuple[Route, ...]:
        create = Route(
            "POST",
            "/consumers/{group}",
            self._create,
            "Create a consumer instance in a group.",
            "consumers",
            body="optional",
            takes=_TAKES,
            gives=(V2, JSON),
            body_schema=_SETTINGS,
            answer_schema=record_of(instance_id=TEXT, base_uri=TEXT),
            problems=(400, 401, 403, 409, 415, 422, 429, 503),
        )
        read = Route(
            "GET",
            f"{_INSTANCE}/records",
            self._records,
            "The next records; waits until there are some, or the time is over.",
            "consumers",
            parameters=(_WAIT, _SIZE),
            gives=(*_FORMATS, JSON),
            answer_schema=_RECORDS,
            problems=(307, 400, 401, 403, 404, 406, 409, 416, 422, 501, 503),
        )
        return (create, read, *self._membership(), *self._offsets())

    def _membership(self) -> tuple[Route, ...]:
        made = self._route
        return (
            made("DELETE", "", self._delete, "End an instance: commit and leave the group."),
            made("POST", "/subscription", self._subscribe, "Subscribe to topics.", "required", _SUBSCRIPTION),
            made("GET", "/subscription", self._subscription, "The topics of an instance.", gives=_TOPICS),
            made("DELETE", "/subscription", self._unsubscribe, "Give up all topics and partitions."),
            made("POST", "/assignments", self._assign, "Read these partitions.", "required", PARTITIONS),
            made(
                "GET", "/assignments", self._assignments, "The partitions of an instance.", gives=PARTITIONS
            ),
        )

    def _offsets(self) -> tuple[Route, ...]:
        made = self._route
        return (
            made(
                "POST", "/offsets", self._commit, "Commit offsets; none given: all read.", "optional", OFFSETS
            ),
            made(
                "POST",
                "/acknowledgements",
                self._acknowledge,
                "These records are done: the group goes on at the first that is not.",
                "required",
                record_of(("offsets",), offsets=OFFSETS["properties"]["offsets"], up_to={"type": "boolean"}),
            ),
            made("GET", "/offsets", self._committed, "Committed offsets.", "optional", PARTITIONS, OFFSETS),
            made("POST", "/positions", self._seek, "Go on at these offsets.", "required", OFFSETS),
            made(
                "POST", "/positions/beginning", self._seek_begin, "To the beginning.", "required", PARTITIONS
            ),
            made("POST", "/positions/end", self._seek_end, "To the end.", "required", PARTITIONS),
        )

    @staticmethod
    def _route(
        method: str,
        path: str,
        handler: Handler,
        summary: str,
        body: BodyKind = "none",
        body_schema: Schema | None = None,
        gives: Schema | None = None,
    ) -> Route:
        refused = (400, 415, 422) if body != "none" else ()
        return Route(
            method,
            _INSTANCE + path,
            handler,
            summary,
            "consumers",
            body=body,
            takes=_TAKES,
            gives=(V2, JSON, *_FORMATS),
            body_schema=body_schema or {},
            answer_schema=gives or {},
            status=200 if gives else 204,
            problems=(*refused, 307, 401, 403, 404, 409, 503),
        )

    # ---- the life of an instance

    async def _create(self, request: Request) -> Answer:
        group = request.params["group"]
        settings = consumer_bodies.instance_settings(json_object(request.body) if request.body else {})
        instance = await self._instances.create(group, settings, request.login)
        base = self._settings.advertised_url or request.base_url
        path = f"/consumers/{quote(group, safe='')}/instances/{quote(instance.name, safe='')}"
        return _answer(request, {"instance_id": instance.name, "base_uri": base + path})

    async def _delete(self, request: Request) -> Answer:
        await self._instances.delete(*_names(request), request.login, request.target)
        return NO_CONTENT

    # ---- topics and partitions

    async def _subscribe(self, request: Request) -> Answer:
        topics = consumer_bodies.subscription(json_object(request.body), self._settings.max_topics)
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.subscribe(topics)
        return NO_CONTENT

    async def _subscription(self, request: Request) -> Answer:
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            return _answer(request, {"topics": instance.topics})

    async def _unsubscribe(self, request: Request) -> Answer:
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.unsubscribe()
        return NO_CONTENT

    async def _assign(self, request: Request) -> Answer:
        partitions = consumer_bodies.partitions(json_object(request.body))
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.assign(partitions)
        return NO_CONTENT

    async def _assignments(self, request: Request) -> Answer:
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            return _answer(request, {"partitions": [each._asdict() for each in instance.partitions]})

    # ---- records

    async def _records(self, request: Request) -> Answer:
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            asked = _FORMATS.get(request.accept, instance.form)
            accept = request.headers.get("accept", "*/*")
            if asked != instance.form and "*" not in accept:
                raise HttpError(
                    406,
                    f"the instance has the format {instance.form}, and Accept asks for {asked}",
                    error_code=UNSUPPORTED_FORMAT,
                )
            wait_ms = request.query["timeout"]
            if wait_ms is None:
                wait_ms = self._settings.default_wait_ms if instance.wait_ms is None else instance.wait_ms
            records = await instance.records(
                min(wait_ms, self._settings.max_wait_ms), request.query["max_bytes"]
            )
        return Answer(200, to_json(records), f"application/vnd.kafka.{instance.form}.v2+json")

    # ---- offsets

    async def _commit(self, request: Request) -> Answer:
        offsets = (
            consumer_bodies.offsets_to_commit(json_object(request.body)) if request.body.strip() else None
        )
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.commit(offsets)
        return NO_CONTENT

    async def _acknowledge(self, request: Request) -> Answer:
        body = json_object(request.body)
        records, up_to = consumer_bodies.listed_offsets(body), body.get("up_to", False)
        if not isinstance(up_to, bool):
            raise unprocessable("up_to must be true or false")
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.acknowledge(records, up_to=up_to)
        return NO_CONTENT

    async def _committed(self, request: Request) -> Answer:
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            asked = (
                consumer_bodies.partitions(json_object(request.body)) if request.body else instance.partitions
            )
            found = await instance.committed(asked)
        shown = [
            {**each._asdict(), "offset": place.offset, "metadata": place.metadata}
            for each, place in found.items()
        ]
        return _answer(request, {"offsets": shown})

    async def _seek(self, request: Request) -> Answer:
        positions = consumer_bodies.positions(json_object(request.body))
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.seek(positions)
        return NO_CONTENT

    async def _seek_begin(self, request: Request) -> Answer:
        return await self._seek_to(request, OffsetSpec.EARLIEST)

    async def _seek_end(self, request: Request) -> Answer:
        return await self._seek_to(request, OffsetSpec.LATEST)

    async def _seek_to(self, request: Request, end: OffsetSpec) -> Answer:
        partitions: list[TopicPartition] = consumer_bodies.partitions(json_object(request.body))
        if not partitions:
            raise unprocessable('"partitions" must name one partition at least')
        async with self._instances.used(*_names(request), request.login, request.target) as instance:
            await instance.seek_to(end, partitions)
        return NO_CONTENT


def _names(request: Request) -> tuple[str, str]:
    return request.params["group"], request.params["instance"]


def _answer(request: Request, value: Any) -> Answer:
    return Answer(200, to_json(value), request.accept)
