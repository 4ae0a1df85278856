"""/transactions: records of several topics, all of them or none, over REST.

    POST /transactions                           begins one: {"transactional_id": "billing-7"}
    POST /transactions/{id}/topics/{topic}       sends records, as POST /topics/{topic} does
    POST /transactions/{id}/commit, .../abort    ends it
    GET  /transactions/{id}                      says how it is, for a while also after its end

A transaction lives in this gateway and has a producer of its own. One that no request has used for
`ottla.gateway.transaction.idle.ms` is aborted, as is every open one when the gateway stops. When the gateway dies, the
coordinator aborts it after `timeout_ms`, or when the transactional id begins another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.json_bodies import json_object, to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.records.machine.embedded import V2
from ottla.gateway.records.producing import ready_producer
from ottla.gateway.rest.machine.outcomes import produce_answer, refusal_of_all
from ottla.gateway.rest.machine.shapes import NUMBER, TEXT, record_of
from ottla.gateway.rest.machine.transaction_table import Place, TransactionState, TransactionTable
from ottla.gateway.rest.produce import ANSWER, BODY, TAKES
from ottla.gateway.rest.transaction import RestTransaction
from ottla.gateway.schema_values.encoding import EncodedRecords
from ottla.runtime.clock import monotonic_ms

Encode = Callable[[Request, int | None], Awaitable[EncodedRecords]]

_TIMEOUT_MS: Final = 60_000
_MOST_TIMEOUT_MS: Final = 900_000  # a broker's default for transaction.max.timeout.ms
_MOST_CHARACTERS: Final = 249
_SHAPE: Final = record_of(transaction=TEXT, state=TEXT, reason=TEXT)
_PROBLEMS: Final = (400, 401, 403, 404, 409, 429, 500, 503)


class TransactionRoutes:
    """The transactions of this gateway."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig, encode: Encode) -> None:
        self._pool = pool
        self._encode = encode
        self._table: TransactionTable[RestTransaction] = TransactionTable(
            settings.max_transactions, settings.transaction_idle_ms
        )
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return self._table.open_count

    def routes(self) -> tuple[Route, ...]:
        one = "/transactions/{transaction}"
        begin = record_of(("transactional_id",), transactional_id=TEXT, timeout_ms=NUMBER)
        produce_problems = (400, 401, 403, 404, 409, 413, 415, 422, 501, 503)
        return (
            self._route("POST", "/transactions", self._begin, "Begin a transaction.", body_schema=begin),
            self._route(
                "POST",
                f"{one}/topics/{{topic}}",
                self._produce,
                "Send records of a transaction to a topic.",
                takes=TAKES,
                gives=(V2, JSON),
                body_schema=BODY,
                answer_schema=ANSWER,
                problems=produce_problems,
            ),
            self._route("POST", f"{one}/commit", self._commit, "Have all records of a transaction count."),
            self._route("POST", f"{one}/abort", self._abort, "Have no record of a transaction count."),
            self._route("GET", one, self._show, "How a transaction is, or how it ended."),
        )

    def _route(
        self,
        method: str,
        path: str,
        handler: Callable[[Request], Awaitable[Answer]],
        summary: str,
        **given: Any,
    ) -> Route:
        known: dict[str, Any] = {"answer_schema": _SHAPE, "problems": _PROBLEMS, "takes": (V2, JSON)}
        if "body_schema" in given:
            known |= {"body": "required", "problems": (*_PROBLEMS, 413, 415, 422)}
        return Route(method, path, handler, summary, "transactions", **(known | given))

    async def _begin(self, request: Request) -> Answer:
        transactional_id, timeout_ms = _wanted(json_object(request.body))
        name = str(uuid4())
        place = self._table.reserve(name, request.login, monotonic_ms())
        try:
            async with self._pool.caller(request.login) as caller:
                made = caller.clients.transactional_producer(transactional_id, timeout_ms)
                transaction = RestTransaction(made)
                await transaction.begin()
        except BaseException:
            self._table.forget(name)
            raise
        place.fill(transaction, monotonic_ms())
        return _shown(name, place, request.accept)

    async def _produce(self, request: Request) -> Answer:
        place = self._place(request)
        transaction = place.needed()
        place.begin()
        try:
            sent = await self._encode(request, None)
            topic = request.params["topic"]
            async with self._pool.caller(request.login) as caller:
                await ready_producer(caller, topic, sent.records)
            outcomes = await transaction.send(topic, sent.records)
        finally:
            place.end(monotonic_ms())
        if outcomes is None:
            place.needed()  # says how it ended
            raise HttpError(409, "the transaction is being ended")
        if (refusal := refusal_of_all(outcomes)) is not None:
            raise refusal
        answer = produce_answer(outcomes, sent.key_schema_id, sent.value_schema_id)
        return Answer(200, to_json(answer), request.accept)

    async def _commit(self, request: Request) -> Answer:
        return await self._end(request, TransactionState.COMMITTED)

    async def _abort(self, request: Request) -> Answer:
        return await self._end(request, TransactionState.ABORTED)

    async def _end(self, request: Request, wanted: TransactionState) -> Answer:
        place = self._place(request)
        if place.transaction is not None:
            # A task of its own: a caller that goes away must not leave a transaction half ended.
            await asyncio.shield(self._end_soon(place, commits=wanted is TransactionState.COMMITTED))
        if place.state is not wanted:
            place.needed()
            raise HttpError(409, "the transaction is being ended")
        return _shown(request.params["transaction"], place, request.accept)

    async def _show(self, request: Request) -> Answer:
        return _shown(request.params["transaction"], self._place(request), request.accept)

    def _place(self, request: Request) -> Place[RestTransaction]:
        return self._table.find(request.params["transaction"], request.login)

    def sweep(self) -> None:
        """Abort the transactions that nobody uses."""
        for place in self._table.idle(monotonic_ms()):
            self._end_soon(place, commits=False, reason="it was idle for too long")

    async def close(self) -> None:
        """The gateway stops: all open transactions are aborted."""
        for place in self._table.all_open():
            self._end_soon(place, commits=False, reason="the gateway was stopped")
        while self._ending:
            await asyncio.wait(self._ending)

    def _end_soon(
        self, place: Place[RestTransaction], *, commits: bool, reason: str = ""
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(_ended(place, commits, reason))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task


async def _ended(place: Place[RestTransaction], commits: bool, reason: str) -> None:
    transaction = place.transaction
    if transaction is None:
        return
    end = await transaction.end(commits=commits)
    if end is not None:
        state, why = end
        place.close(state, reason or why, monotonic_ms())


def _wanted(body: dict[str, Any]) -> tuple[str, int]:
    """The transactional id, and how long the coordinator waits. Raises HttpError(422)."""
    name, timeout_ms = body.get("transactional_id"), body.get("timeout_ms", _TIMEOUT_MS)
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_CHARACTERS:
        raise unprocessable(f"transactional_id must be a text of 1 to {_MOST_CHARACTERS} characters")
    is_number = isinstance(timeout_ms, int) and not isinstance(timeout_ms, bool)
    if not is_number or not 1_000 <= timeout_ms <= _MOST_TIMEOUT_MS:
        raise unprocessable(f"timeout_ms must be a number from 1000 to {_MOST_TIMEOUT_MS}")
    return name, timeout_ms


def _shown(name: str, place: Place[RestTransaction], accept: str) -> Answer:
    shown = {"transaction": name, "state": place.state.value}
    return Answer(200, to_json(shown | ({"reason": place.reason} if place.reason else {})), accept)
