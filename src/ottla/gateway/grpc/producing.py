"""ProducerService: records in, an outcome for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.errors import ErrorCode
from ottla.gateway.cluster.failures import problem_of
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.grpc.calls import StreamMethod, UnaryMethod
from ottla.gateway.grpc.machine.requests import records_in
from ottla.gateway.grpc.machine.statuses import status_of
from ottla.gateway.grpc.messages import message
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.records.producing import Outcome, produce

# Requests of one stream whose outcomes are not known yet; then no more are read.
_MOST_UNDER_WAY: Final = 64
_Response, _Outcome, _Error = message("ProduceResponse"), message("Outcome"), message("Error")


class ProducerService:
    """Writes records with the caller's rights."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool

    def methods(self) -> dict[str, UnaryMethod | StreamMethod]:
        return {"Produce": self._produce, "ProduceStream": self._stream}

    async def _produce(self, login: Login | None, request: Any) -> Any:
        records = records_in(request)
        async with self._pool.caller(login) as caller:
            return _answer(await produce(caller, request.topic, records))

    async def _stream(self, login: Login | None, requests: AsyncIterator[Any], context: Any) -> None:
        """Requests are given to the producer while they come; responses leave in the order of the requests."""
        waiting: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue(_MOST_UNDER_WAY)
        async with self._pool.caller(login) as caller:
            reading = asyncio.get_running_loop().create_task(_read(caller, requests, waiting))
            try:
                while (task := await waiting.get()) is not None:
                    await context.write(await task)
                await reading
            finally:
                left = [reading, *_taken(waiting)]
                for each in left:
                    each.cancel()
                await asyncio.gather(*left, return_exceptions=True)


def _taken(waiting: asyncio.Queue[asyncio.Task[Any] | None]) -> list[asyncio.Task[Any]]:
    """What nobody hears any more: the caller is gone."""
    left = []
    while not waiting.empty():
        left.append(waiting.get_nowait())
    return [each for each in left if each is not None]


async def _read(
    caller: Caller, requests: AsyncIterator[Any], waiting: asyncio.Queue[asyncio.Task[Any] | None]
) -> None:
    # Tasks begin in the order in which they are made, and a lock is given in the order in which it is asked for: so
    # the producer gets the records in the order of the requests.
    turn = asyncio.Lock()
    async for request in requests:
        await waiting.put(asyncio.get_running_loop().create_task(_answered(caller, request, turn)))
    await waiting.put(None)


async def _answered(caller: Caller, request: Any, turn: asyncio.Lock) -> Any:
    """The response to one request of a stream; a request that cannot be used is answered in its place."""
    count = max(1, len(request.records))
    try:
        outcomes = await produce(caller, request.topic, records_in(request), turn)
    except Exception as error:
        problem = error if isinstance(error, HttpError) else problem_of(error)
        if problem is None:
            raise
        status = status_of(problem)
        retriable = ErrorCode[status.reason].retriable
        refused = _Error(name=status.reason, message=status.message, is_retriable=retriable)
        return _Response(outcomes=[_Outcome(partition=-1, offset=-1, error=refused)] * count)
    return _answer(outcomes)


def _answer(outcomes: Sequence[Outcome]) -> Any:
    return _Response(outcomes=list(map(_shown, outcomes)))


def _shown(outcome: Outcome) -> Any:
    if not isinstance(outcome, DeliveryError):
        return _Outcome(partition=outcome.partition, offset=outcome.offset, timestamp_ms=outcome.timestamp_ms)
    error = _Error(
        name=outcome.code.name,
        message=outcome.message,
        is_retriable=outcome.code.retriable,
        is_uncertain=outcome.is_uncertain,
    )
    return _Outcome(partition=-1, offset=-1, error=error)
