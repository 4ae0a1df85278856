"""GET /topics/{topic}/events: records as Server-Sent Events, which browsers read with EventSource.

Each event has the JSON of a record. The id of an event says how far every partition was read: a browser that connects
again sends it as Last-Event-ID, and the stream goes on there. Ids stand at the last event of what was read at once,
so a broken connection may repeat records, and never leaves one out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Final

from ottla.client.consumer.consumer import Consumer
from ottla.client.fetching.plan.record_filters import Condition
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.config.gateway import GatewayConfig
from ottla.errors import KafkaError
from ottla.gateway.cluster.failures import problem_of
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.machine.described import described
from ottla.gateway.records.machine.start import Start, parse_start
from ottla.gateway.rest.machine.event_ids import event_id, parse_event_id
from ottla.gateway.rest.reads import DECODE
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.model import TopicPartition
from ottla.runtime.clock import monotonic_ms

EVENT_STREAM: Final = "text/event-stream"
# An id names every partition: with more of them, ids would be longer than records.
_MOST_PARTITIONS: Final = 100
_BATCH: Final = 500
_POLL_MS: Final = 500
_PARAMETERS: Final = (
    Parameter(
        "from", "Where to begin: earliest, latest, or a time such as 2026-11-18T08:00:00Z.", default="latest"
    ),
    DECODE,
    Parameter("partition", "Only this partition.", "integer", at_least=0, at_most=2**31 - 1),
)


class EventRoutes:
    """Serves event streams until they are stopped."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig, decoder: ValueDecoder) -> None:
        self._pool = pool
        self._settings = settings
        self._decoder = decoder
        self._stopping = asyncio.Event()

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                "GET",
                "/topics/{topic}/events",
                self.stream,
                "The records of a topic as they come, as Server-Sent Events.",
                "reads",
                parameters=_PARAMETERS,
                gives=(EVENT_STREAM,),
                answer_schema={"type": "string"},
                problems=(400, 401, 403, 404, 406, 416, 422, 501, 503),
            ),
        )

    def stop(self) -> None:
        """End all streams; browsers connect again by themselves."""
        self._stopping.set()

    async def stream(self, request: Request, condition: Condition | None = None) -> Answer:
        """An endless answer, of the records that fulfil the condition."""
        topic = request.params["topic"]
        try:
            start = parse_start(request.query["from"])
            resumed = parse_event_id(request.headers.get("last-event-id", ""))
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        if start.kind == "offset":
            raise HttpError(
                400, "an event stream begins at earliest, latest or a time; go on with Last-Event-ID"
            )
        decoder = self._decoder if request.query["decode"] == "schema" else None
        if decoder is not None:
            await decoder.check(request.login)
        async with AsyncExitStack() as stack:
            caller = await stack.enter_async_context(self._pool.caller(request.login))
            places = await _places(caller, topic, request.query["partition"])
            positions = await _positions(caller, places, start, resumed)
            consumer = await stack.enter_async_context(self._pool.reader(caller))
            consumer.assign(places)
            for place, offset in positions.items():
                consumer.seek(place, offset)
            ping_ms = self._settings.ping_interval_ms
            stream = EventStream(
                consumer, positions, ping_ms, self._stopping, decoder, stack.pop_all(), condition
            )
        return Answer(200, stream, EVENT_STREAM, {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})


class EventStream:
    """The pieces of one stream. It owns the consumer's lease until `aclose`."""

    def __init__(
        self,
        consumer: Consumer,
        positions: dict[TopicPartition, int],
        ping_ms: int,
        stopping: asyncio.Event,
        decoder: ValueDecoder | None,
        lease: AsyncExitStack,
        condition: Condition | None = None,
    ) -> None:
        self._consumer = consumer
        self._positions = positions
        self._ping_ms = ping_ms
        self._stopping = stopping
        self._decoder = decoder
        self._lease = lease
        self._condition = condition
        self._is_over = False
        self._is_new = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._is_new:  # so that the caller knows at once that it is connected, and from where on
            self._is_new = False
            return b"retry: 2000\nid: " + event_id(self._positions).encode() + b"\n: connected\n\n"
        quiet_until_ms = monotonic_ms() + self._ping_ms
        while not self._stopping.is_set() and not self._is_over:
            try:
                records = await self._consumer.poll(
                    max_records=_BATCH, timeout_ms=min(_POLL_MS, self._ping_ms)
                )
                if self._decoder is not None and records:
                    await self._decoder.prepare(records)
            except (KafkaError, ConnectionError, TimeoutError) as error:
                return self._last_words(error)
            for each in records:
                self._positions[TopicPartition(each.topic, each.partition)] = each.offset + 1
            found = [each for each in records if self._condition is None or self._condition(each)]
            if found:
                by_schema = None if self._decoder is None else self._decoder.shown
                events = [b"data: " + to_json(described(each, by_schema)) for each in found]
                events[-1] += b"\nid: " + event_id(self._positions).encode()
                return b"\n\n".join(events) + b"\n\n"
            if monotonic_ms() >= quiet_until_ms:
                return b": still here\n\n"
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._lease.aclose()

    def _last_words(self, error: Exception) -> bytes:
        self._is_over = True
        problem = problem_of(error)
        assert problem is not None
        return b"event: error\ndata: " + to_json(problem.body()) + b"\n\n"


async def _places(caller: Caller, topic: str, partition: int | None) -> list[TopicPartition]:
    if partition is not None:
        await caller.topics.check_partition(topic, partition)
        return [TopicPartition(topic, partition)]
    count = await caller.topics.partition_count(topic)
    if count > _MOST_PARTITIONS:
        raise HttpError(
            422,
            f"{topic!r} has {count} partitions, and a stream may have {_MOST_PARTITIONS}: name one with partition=",
        )
    return [TopicPartition(topic, number) for number in range(count)]


async def _positions(
    caller: Caller, places: list[TopicPartition], start: Start, resumed: Mapping[int, int]
) -> dict[TopicPartition, int]:
    """Where to begin in each partition: at the place of the last event, else where the request says."""
    admin = await caller.clients.admin()
    spec = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}.get(start.kind, start.number)
    first, wanted, last = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST)),
        admin.list_offsets(dict.fromkeys(places, spec)),
        admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST)),
    )
    begins, found, ends = succeeded(first), succeeded(wanted), succeeded(last)
    positions: dict[TopicPartition, int] = {}
    for place in places:
        end = ends[place].offset
        offset = resumed.get(place.partition, found[place].offset if found[place].offset >= 0 else end)
        if offset > end:
            raise HttpError(
                416, f"{place} ends at {end}: it cannot be read from {offset} on", error_code=41601
            )
        positions[place] = max(offset, begins[place].offset)  # what is deleted cannot be had any more
    return positions
