"""POST .../records: JSON objects, one after the other, on one connection; an answer line for each, in their order.

Records are given to the producer while they arrive, and answered when they are written: a caller may send for as long
as it likes. At most so many records wait for their outcome; then no more are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Final

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.producer.producer import Producer
from ottla.gateway.cluster.failures import problem_of
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.machine.produced import RecordToSend
from ottla.gateway.records.producing import Outcome, given, outcome, ready_producer
from ottla.gateway.rest.machine.shapes import ANY, NUMBER, TEXT, list_of, record_of
from ottla.gateway.rest.v3.machine.json_stream import JsonStream
from ottla.gateway.rest.v3.machine.stream_records import answer_line, record_in
from ottla.gateway.rest.v3.place import CLUSTER, Place, Places

_MOST_UNDER_WAY: Final = 1_000
_PART = record_of(("type",), type={"type": "string", "enum": ["BINARY", "JSON", "STRING"]}, data=ANY)
_RECORD = record_of(
    partition_id=NUMBER,
    headers=list_of(record_of(("name",), name=TEXT, value=TEXT)),
    key=_PART,
    value=_PART,
    timestamp=TEXT,
)
_LINE = record_of(
    error_code=NUMBER, message=TEXT, topic_name=TEXT, partition_id=NUMBER, offset=NUMBER, timestamp=TEXT
)


class RecordRoutes:
    """Streams of records to one topic."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                "POST",
                f"{CLUSTER}/topics/{{topic_name}}/records",
                self._produce,
                "Write records: JSON objects, one after the other; the answer has a line for each.",
                "v3 records",
                body="stream",
                body_schema=_RECORD,
                answer_schema=_LINE,
                problems=(403, 404),
            ),
        )

    async def _produce(self, request: Request) -> Answer:
        assert request.chunks is not None
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(self._places.of(request))
            topic = request.params["topic_name"]
            producer = await ready_producer(place.caller, topic, [RecordToSend(None)])
            lines = AnswerLines(place, topic, producer, request.chunks, stack.pop_all())
        return Answer(200, lines)


_Waiting = tuple[RecordToSend, Delivery | Outcome]


class AnswerLines:
    """The answer lines of one stream. It reads and sends records by a task of its own, and owns the caller's lease."""

    def __init__(
        self,
        place: Place,
        topic: str,
        producer: Producer,
        chunks: AsyncIterator[bytes],
        lease: AsyncExitStack,
    ) -> None:
        self._place = place
        self._topic = topic
        self._producer = producer
        self._lease = lease
        self._sent: asyncio.Queue[_Waiting | HttpError | None] = asyncio.Queue(_MOST_UNDER_WAY)
        self._reading = asyncio.get_running_loop().create_task(self._read(chunks))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        waiting = await self._sent.get()
        if waiting is None:
            raise StopAsyncIteration
        if isinstance(waiting, HttpError):
            return to_json(waiting.body()) + b"\n"
        record, sent = waiting
        found = await outcome(self._place.caller, self._producer, sent)
        if isinstance(found, DeliveryError):
            problem = problem_of(found)
            assert problem is not None
            return to_json(problem.body()) + b"\n"
        return to_json(answer_line(self._place.cluster_id, record, found)) + b"\n"

    async def aclose(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._lease.aclose()

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        """Until the body ends, or cannot be read any more: a record that is wrong is answered, and passed over."""
        stream = JsonStream()
        try:
            async for piece in chunks:
                for text in _objects(stream, piece):
                    await self._sent.put(await self._given(text))
            _finish(stream)
        except HttpError as problem:
            await self._sent.put(problem)
        except ConnectionError:
            pass  # nobody hears it
        await self._sent.put(None)

    async def _given(self, text: bytes) -> _Waiting | HttpError:
        try:
            record = record_in(text)
            if record.partition is not None:
                await self._place.caller.topics.check_partition(self._topic, record.partition)
        except HttpError as problem:
            return problem
        return record, await given(self._producer, self._topic, record)


def _objects(stream: JsonStream, piece: bytes) -> Iterator[bytes]:
    try:
        yield from stream.feed(piece)
    except ValueError as error:
        raise HttpError(400, str(error)) from error


def _finish(stream: JsonStream) -> None:
    try:
        stream.finish()
    except ValueError as error:
        raise HttpError(400, str(error)) from error
