"""POST /topics/{topic}: records in, as Confluent's REST v2 takes them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import json_object, to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.idempotent import IdempotentProduce
from ottla.gateway.records.machine.embedded import MEDIA_TYPES, V2, to_bytes
from ottla.gateway.records.machine.produced import RecordToSend, records_in
from ottla.gateway.records.producing import Outcome, produce, ready_producer
from ottla.gateway.rest.machine.outcomes import produce_answer, refusal_of_all
from ottla.gateway.rest.machine.shapes import ANY, NUMBER, TEXT, list_of, nullable, record_of
from ottla.gateway.schema_values.encoding import EncodedRecords, ValueEncoder
from ottla.gateway.schema_values.machine.formats import SCHEMA_MEDIA_TYPES

TAKES = (*MEDIA_TYPES, *SCHEMA_MEDIA_TYPES, JSON)
BODY = record_of(
    ("records",),
    key_schema=TEXT,
    key_schema_id=NUMBER,
    value_schema=TEXT,
    value_schema_id=NUMBER,
    records=list_of(record_of(key=ANY, value=ANY, partition=NUMBER, timestamp=NUMBER)),
)
ANSWER = record_of(
    offsets=list_of(
        record_of(
            partition=nullable(NUMBER),
            offset=nullable(NUMBER),
            error_code=nullable(NUMBER),
            error=nullable(TEXT),
        )
    ),
    key_schema_id=nullable(NUMBER),
    value_schema_id=nullable(NUMBER),
)


class ProduceRoutes:
    """Produce to a topic, and to one of its partitions."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig, encoder: ValueEncoder) -> None:
        self._pool = pool
        self._encoder = encoder
        self._idempotent = IdempotentProduce(settings)

    def routes(self) -> tuple[Route, ...]:
        summaries = {
            "/topics/{topic}": "Send records to a topic: a record's key, or its partition, decides where it goes.",
            "/topics/{topic}/partitions/{partition}": "Send records to one partition.",
        }
        return tuple(
            Route(
                "POST",
                path,
                self._produce,
                summary,
                "produce",
                body="required",
                takes=TAKES,
                gives=(V2, JSON),
                body_schema=BODY,
                answer_schema=ANSWER,
                problems=(400, 401, 403, 404, 409, 413, 415, 422, 501, 503),
            )
            for path, summary in summaries.items()
        )

    async def _produce(self, request: Request) -> Answer:
        partition = partition_in(request) if "partition" in request.params else None
        sent = await self.encoded(request, partition)
        headers: dict[str, str] = {}
        key = request.headers.get("idempotency-key")
        if key is None:
            outcomes = await self._sent(request, sent.records)
        else:
            whose = request.login, request.target
            outcomes, is_repeated = await self._idempotent.outcomes(
                whose, key, request.body, sent.records, lambda records: self._sent(request, records)
            )
            headers["Idempotency-Replayed"] = str(is_repeated).lower()
        if (refusal := refusal_of_all(outcomes)) is not None:
            raise refusal
        answer = produce_answer(outcomes, sent.key_schema_id, sent.value_schema_id)
        return Answer(200, to_json(answer), request.accept, headers)

    async def _sent(self, request: Request, records: Sequence[RecordToSend]) -> list[Outcome]:
        async with self._pool.caller(request.login) as caller:
            return await produce(caller, request.params["topic"], records)

    async def encoded(self, request: Request, partition: int | None) -> EncodedRecords:
        """The records of a request. Raises HttpError, ConnectionError and KafkaError."""
        body, topic = json_object(request.body), request.params["topic"]
        schema_form = SCHEMA_MEDIA_TYPES.get(request.content_type)
        if schema_form is not None:
            async with self._pool.caller(request.login) as caller:
                await ready_producer(caller, topic, ())  # a subject is registered for a topic that is there
            return await self._encoder.records(request.login, topic, body, schema_form, partition)
        form = MEDIA_TYPES.get(request.content_type, "json")
        return EncodedRecords(records_in(body, lambda _, value: to_bytes(form, value), partition), None, None)


def partition_in(request: Request) -> int:
    """The partition of the path. Raises HttpError(404)."""
    text = request.params["partition"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HttpError(
            404, f"{text[:50]!r} is no partition: partitions have numbers from 0 on", error_code=40402
        )
    return int(text)
