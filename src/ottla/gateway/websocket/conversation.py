"""One WebSocket: messages in, answers out.

Messages are carried out in the order in which they come. Records to produce are given to the producer in that order,
too, and their outcomes are sent as they come. A message that cannot be used is answered with an error, and the
WebSocket stays open; an error of the subscription ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.producer.producer import Producer
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.web_socket import GOING_AWAY, WebSocket
from ottla.gateway.records.producing import Outcome, given, outcome, ready_producer
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.gateway.subscriptions.machine.wanted import Seek, Wanted
from ottla.gateway.subscriptions.subscription import Subscription
from ottla.gateway.websocket.machine import messages
from ottla.gateway.websocket.pushes import Pushes

# Records whose outcome is not known yet; a caller that produces more has to wait.
_MOST_UNDER_WAY: Final = 256
_FAILED: Final = 1011
_NO_PONG: Final = 1002

Translate = Callable[[Exception], HttpError | None]


class Conversation:
    """Speaks with one caller until one side closes."""

    def __init__(
        self,
        socket: WebSocket,
        pool: ClientPool,
        settings: GatewayConfig,
        decoder: ValueDecoder,
        translate: Translate,
        login: Login | None,
    ) -> None:
        self._socket = socket
        self._pool = pool
        self._settings = settings
        self._decoder = decoder
        self._translate = translate
        self._login = login
        self._caller: Caller | None = None
        self._leases = AsyncExitStack()
        self._subscription: Subscription | None = None
        self._under_way = asyncio.Semaphore(_MOST_UNDER_WAY)
        self._deliveries: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        pings = asyncio.get_running_loop().create_task(self._ping())
        try:
            while (text := await self._socket.receive()) is not None:
                await self._heard(text)
        finally:
            pings.cancel()
            await self._end()

    async def stop(self) -> None:
        """The gateway stops: what is acknowledged is committed, and the caller is told."""
        with contextlib.suppress(ConnectionError):
            await self._unsubscribe()
            await self._socket.close(GOING_AWAY, "the gateway stops: connect again")

    # ---- messages

    async def _heard(self, text: str) -> None:
        number: object = None
        try:
            said = messages.parse_object(text)
            number = said.get("id")
            answer = await self._carried_out(messages.parse_message(said, self._settings.max_topics), number)
        except Exception as error:
            await self._say_error(error, number)
            return
        if answer is not None:
            await self._say(answer if number is None else {**answer, "id": number})

    async def _carried_out(self, message: messages.Message, number: object) -> dict[str, Any] | None:
        """The answer; None if there is none, or if it comes later."""
        match message:
            case messages.Auth(login):
                return await self._authenticate(login)
            case Wanted():
                return await self._subscribe(message)
            case messages.Produce():
                await self._produce(message, number)
                return None
            case messages.Command("ping"):
                return {"type": "pong"}
        subscription = self._needs_subscription()
        match message:
            case messages.Ack(partition, offset, up_to):
                subscription.acknowledge(partition, offset, up_to=up_to)
                return None
            case messages.Credit(count):
                subscription.add_credit(count)
                return None
            case Seek():
                await subscription.seek(message)
            case messages.Command("pause"):
                subscription.pause()
            case messages.Command("resume"):
                subscription.resume()
            case messages.Command("unsubscribe"):
                await self._unsubscribe()
        kind = message.type if isinstance(message, messages.Command) else "seek"
        return {"type": "ok", "of": kind}

    async def _authenticate(self, login: Login) -> dict[str, Any]:
        if self._caller is not None:
            raise HttpError(409, "auth must come before everything else")
        async with self._pool.caller(login) as caller:
            await caller.clients.admin()  # logs in, or says why not
        self._login = login
        return {"type": "ok", "of": "auth"}

    async def _subscribe(self, wanted: Wanted) -> dict[str, Any]:
        if self._subscription is not None:
            raise HttpError(409, "this WebSocket has a subscription: unsubscribe first, or open another one")
        decoder = self._decoder if wanted.by_schema else None
        if decoder is not None:
            await decoder.check(self._login)
        subscription = Subscription(await self._as_caller(), wanted, Pushes(self._say, decoder))
        await subscription.open()
        self._subscription = subscription
        subscription.ended.add_done_callback(self._subscription_ended)
        return {"type": "subscribed", "topics": list(wanted.topics), "group_id": wanted.group_id}

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    def _subscription_ended(self, ended: asyncio.Task[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if isinstance(error, Exception) and not self._socket.is_over:
            task = asyncio.get_running_loop().create_task(self._fail(error))
            self._deliveries.add(task)
            task.add_done_callback(self._deliveries.discard)

    async def _fail(self, error: Exception) -> None:
        """No record will come any more: the caller has to connect again."""
        with contextlib.suppress(ConnectionError):
            await self._say_error(error, None)
            await self._socket.close(_FAILED, "the subscription failed")

    # ---- producing

    async def _produce(self, message: messages.Produce, number: object) -> None:
        caller = await self._as_caller()
        producer = await ready_producer(caller, message.topic, [message.record])
        await self._under_way.acquire()
        sent = await given(producer, message.topic, message.record)
        task = asyncio.get_running_loop().create_task(self._report(caller, producer, sent, number))
        self._deliveries.add(task)
        task.add_done_callback(self._delivered)

    async def _report(
        self, caller: Caller, producer: Producer, sent: Delivery | Outcome, number: object
    ) -> None:
        found = await outcome(caller, producer, sent)
        with contextlib.suppress(ConnectionError):
            if isinstance(found, DeliveryError):
                await self._say_error(found, number)
                return
            shown = {"topic": found.topic, "partition": found.partition, "offset": found.offset}
            answer = {"type": "produced", **shown, "timestamp": found.timestamp_ms}
            await self._say(answer if number is None else {**answer, "id": number})

    def _delivered(self, task: asyncio.Task[None]) -> None:
        self._deliveries.discard(task)
        self._under_way.release()

    # ---- inside

    async def _as_caller(self) -> Caller:
        """The caller's clients, for as long as the WebSocket is open."""
        if self._caller is None:
            self._caller = await self._leases.enter_async_context(self._pool.caller(self._login))
        return self._caller

    def _needs_subscription(self) -> Subscription:
        if self._subscription is None:
            raise HttpError(409, "this WebSocket has no subscription: subscribe first")
        return self._subscription

    async def _say(self, message: dict[str, Any]) -> None:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        await self._socket.send(text.encode("utf-8", "replace").decode("utf-8"))

    async def _say_error(self, error: Exception, number: object) -> None:
        problem = error if isinstance(error, HttpError) else self._translate(error)
        if problem is None:
            raise error
        said = {"type": "error", **problem.body()}
        await self._say(said if number is None else {**said, "id": number})

    async def _ping(self) -> None:
        while not self._socket.is_over:
            answered = self._socket.pongs
            try:
                await self._socket.ping()
                await asyncio.sleep(self._settings.ping_interval_ms / 1000)
                if self._socket.pongs == answered:
                    await self._socket.close(_NO_PONG, "a ping was not answered")
            except ConnectionError:
                return

    async def _end(self) -> None:
        await self._unsubscribe()
        if self._deliveries:
            await asyncio.wait(self._deliveries)
        await self._leases.aclose()
