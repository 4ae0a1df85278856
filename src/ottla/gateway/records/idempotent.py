"""Requests with an `Idempotency-Key`, carried out: see `machine.idempotency` for the rules."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Sequence

from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.config.gateway import GatewayConfig
from ottla.gateway.records.machine.idempotency import IdempotentRequests, Remembered
from ottla.gateway.records.machine.produced import RecordToSend
from ottla.gateway.records.producing import Outcome
from ottla.runtime.clock import monotonic_ms

Send = Callable[[Sequence[RecordToSend]], Awaitable[list[Outcome]]]


class IdempotentProduce:
    """Sends the records of a request once, however often the request comes."""

    def __init__(self, settings: GatewayConfig) -> None:
        self._requests: IdempotentRequests[Outcome] = IdempotentRequests(
            settings.max_idempotency_keys, settings.idempotency_ms, asyncio.Lock
        )
        self._working: set[asyncio.Task[bool]] = set()

    async def outcomes(
        self, whose: Hashable, key: str, body: bytes, records: list[RecordToSend], send: Send
    ) -> tuple[list[Outcome], bool]:
        """The outcomes of all records, and whether the request was carried out before. Raises HttpError(400 or 422)."""
        request = self._requests.begin(whose, key, hashlib.sha256(body).digest(), monotonic_ms())
        # A task of its own: a caller that goes away must not leave records whose outcomes nobody remembers.
        work = asyncio.get_running_loop().create_task(self._work(whose, key, request, records, send))
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        is_repeated = await asyncio.shield(work)
        return request.outcomes, is_repeated

    async def _work(
        self,
        whose: Hashable,
        key: str,
        request: Remembered[Outcome],
        records: list[RecordToSend],
        send: Send,
    ) -> bool:
        try:
            async with request.turn:
                is_repeated = bool(request.outcomes)
                await _carried_out(request, records, send)
                return is_repeated
        finally:
            self._requests.end(whose, key)


async def _carried_out(request: Remembered[Outcome], records: list[RecordToSend], send: Send) -> None:
    if not request.outcomes:
        request.keep(await send(records))
        return
    again = [index for index, each in enumerate(request.outcomes) if _may_be_sent_again(each)]
    if again:
        found = await send([records[index] for index in again])
        made = dict(zip(again, found, strict=True))
        request.keep([made.get(index, each) for index, each in enumerate(request.outcomes)])


def _may_be_sent_again(outcome: Outcome) -> bool:
    return isinstance(outcome, DeliveryError) and not outcome.is_uncertain
