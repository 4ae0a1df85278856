"""Reads without an instance: a request says where to begin, its answer says where to go on.

    GET /topics/orders/partitions/0/records?from=earliest&wait=1000

Nothing is kept between two requests, so any gateway can answer the next one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.machine.described import ShownPart, described
from ottla.gateway.records.machine.start import Start, parse_start
from ottla.gateway.rest.machine.shapes import ANY, NUMBER, TEXT, list_of, record_of
from ottla.gateway.rest.produce import partition_in
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.model import TopicPartition

OUT_OF_RANGE: Final = 41601
# Records that are there are waited for this long, whatever `wait` says.
_LEAST_WAIT_MS: Final = 5_000
_MOST_RECORDS: Final = 10_000
_RECORD = record_of(
    topic=TEXT,
    partition=NUMBER,
    offset=NUMBER,
    timestamp=NUMBER,
    key=ANY,
    value=ANY,
    key_encoding=TEXT,
    value_encoding=TEXT,
    key_schema_id=NUMBER,
    value_schema_id=NUMBER,
    key_problem=TEXT,
    value_problem=TEXT,
    headers={"type": "object"},
)
DECODE = Parameter(
    "decode",
    "schema: keys and values by the schemas of the registry that they name; bytes: as they are.",
    default="bytes",
    choices=("bytes", "schema"),
)
_PARAMETERS = (
    Parameter(
        "from", "Where to begin: earliest, latest, an offset, or a time such as 2026-11-18T08:00:00Z.", default="latest"
    ),
    Parameter(
        "wait", "How many milliseconds to wait for records.", "integer", default=0, at_least=0, at_most=2**31 - 1
    ),
    DECODE,
    Parameter("max_records", "The most records.", "integer", default=500, at_least=1, at_most=_MOST_RECORDS),
    Parameter("max_bytes", "The most bytes of keys and values.", "integer", default=1 << 20, at_least=1, at_most=64 << 20),
)  # fmt: skip


class ReadRoutes:
    """Stateless reads of one partition."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig, decoder: ValueDecoder) -> None:
        self._pool = pool
        self._settings = settings
        self._decoder = decoder

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                "GET",
                "/topics/{topic}/partitions/{partition}/records",
                self._read,
                "Records of a partition from a place on, without a consumer instance.",
                "reads",
                parameters=_PARAMETERS,
                gives=(JSON,),
                answer_schema=record_of(records=list_of(_RECORD), next_offset=NUMBER),
                problems=(400, 401, 403, 404, 406, 416, 501, 503),
            ),
        )

    async def _read(self, request: Request) -> Answer:
        place = TopicPartition(request.params["topic"], partition_in(request))
        try:
            start = parse_start(request.query["from"])
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        wait_ms = min(request.query["wait"], self._settings.max_wait_ms)
        by_schema = request.query["decode"] == "schema"
        if by_schema:
            await self._decoder.check(request.login)
        async with self._pool.caller(request.login) as caller:
            await caller.topics.check_partition(*place)
            offset, end = await _resolved(caller, place, start)
            if offset >= end and not wait_ms:
                return _answer([], offset)
            least_ms = _LEAST_WAIT_MS if offset < end else 0
            async with self._pool.reader(caller) as consumer:
                consumer.assign([place])
                consumer.seek(place, offset)
                records = await _taken(consumer, request.query, max(wait_ms, least_ms))
                position = consumer.position(place)
        next_offset = records[-1].offset + 1 if records else position
        if by_schema:
            await self._decoder.prepare(records)
        shown = self._decoder.shown if by_schema else None
        return _answer(records, offset if next_offset is None else next_offset, shown)


async def _resolved(caller: Caller, place: TopicPartition, start: Start) -> tuple[int, int]:
    """The offset to begin at, and the end of the partition. Raises HttpError(416)."""
    admin = await caller.clients.admin()
    first_spec = start.number if start.kind == "time" else OffsetSpec.EARLIEST
    first, last = await asyncio.gather(
        admin.list_offsets({place: first_spec}), admin.list_offsets({place: OffsetSpec.LATEST})
    )
    begin, end = succeeded(first)[place].offset, succeeded(last)[place].offset
    if start.kind == "time":
        return (end if begin < 0 else begin), end
    if start.kind == "offset" and not begin <= start.number <= end:
        raise HttpError(
            416,
            f"{place} has the offsets {begin} to {end}: {start.number} lies outside",
            error_code=OUT_OF_RANGE,
        )
    return {"earliest": begin, "latest": end, "offset": start.number}[start.kind], end


async def _taken(consumer: Consumer, query: Any, wait_ms: int) -> list[ConsumerRecord]:
    """The records that are there when the first ones have come, within both limits."""
    records: list[ConsumerRecord] = []
    size_bytes = 0
    found = await consumer.poll(max_records=query["max_records"], timeout_ms=wait_ms)
    while found:
        for record in found:
            size_bytes += len(record.key or b"") + len(record.value or b"")
            if records and size_bytes > query["max_bytes"]:
                return records
            records.append(record)
        left = query["max_records"] - len(records)
        found = await consumer.poll(max_records=left, timeout_ms=0) if left else []
    return records


def _answer(records: list[ConsumerRecord], next_offset: int, by_schema: ShownPart | None = None) -> Answer:
    shown = [described(each, by_schema) for each in records]
    return Answer(200, to_json({"records": shown, "next_offset": next_offset}))
