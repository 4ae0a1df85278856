"""ConsumerService: subscriptions as streams, commits, offsets.

A commit needs a member of the group while the group has any. So a Commit goes through the subscription of the same
login, at this gateway, that reads the partition; only where there is none it goes to the group itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from ottla.client.consumer.consumer import ConsumerRecord
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.config.gateway import GatewayConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.grpc.calls import StreamMethod, UnaryMethod
from ottla.gateway.grpc.machine import requests as asked
from ottla.gateway.grpc.messages import message
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.subscriptions.machine.wanted import Wanted
from ottla.gateway.subscriptions.subscription import Audience, Subscription
from ottla.model import TopicPartition

_AT_ONCE: Final = 100
_Message, _Header, _Place = message("Message"), message("Header"), message("TopicPartition")
_Response, _Messages, _Partitions = message("ConsumeResponse"), message("Messages"), message("Partitions")
_Committed, _Offsets, _Ends = (
    message(each) for each in ("CommitResponse", "GetOffsetsResponse", "PartitionOffsets")
)


class ConsumerService:
    """Serves subscriptions until it is stopped."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig) -> None:
        self._pool = pool
        self._settings = settings
        self._open: dict[Subscription, Login | None] = {}
        self._stopping = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    def methods(self) -> dict[str, UnaryMethod | StreamMethod]:
        return {
            "Subscribe": self._subscribe,
            "Consume": self._consume,
            "Commit": self._commit,
            "GetOffsets": self._get_offsets,
        }

    def stop(self) -> None:
        """End all subscriptions: what is acknowledged is committed, and the callers are told."""
        self._stopping.set()

    async def closed(self) -> None:
        """Wait until all subscriptions that have ended have left their groups."""
        while self._closing:
            await asyncio.wait(self._closing)

    # ---- subscriptions

    async def _subscribe(self, login: Login | None, requests: AsyncIterator[Any], context: Any) -> None:
        request = await anext(requests)
        wanted = asked.wanted(request, self._settings.max_topics, is_acknowledged=False)
        async with self._opened(login, wanted, _EachRecord(context), 1) as subscription:
            await self._until_ended(subscription)

    async def _consume(self, login: Login | None, requests: AsyncIterator[Any], context: Any) -> None:
        first = await anext(requests, None)
        if first is None or first.WhichOneof("request") != "subscribe":
            raise unprocessable("the first request of Consume must be subscribe")
        wanted = asked.wanted(first.subscribe, self._settings.max_topics, is_acknowledged=True)
        async with self._opened(login, wanted, _Batches(context), _AT_ONCE) as subscription:
            loop = asyncio.get_running_loop()
            hearing = loop.create_task(_hear(subscription, requests))
            pushing = loop.create_task(self._until_ended(subscription))
            try:
                done, _ = await asyncio.wait((hearing, pushing), return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    await each  # raises why it ended
            finally:
                for each in (hearing, pushing):
                    each.cancel()
                await asyncio.gather(hearing, pushing, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _opened(
        self, login: Login | None, wanted: Wanted, audience: Audience, at_once: int
    ) -> AsyncIterator[Subscription]:
        async with self._pool.caller(login) as caller:
            subscription = Subscription(caller, wanted, audience, at_once)
            await subscription.open()
            self._open[subscription] = login
            try:
                yield subscription
            finally:
                del self._open[subscription]
                # A caller that is gone must not interrupt the last commit.
                closing = asyncio.get_running_loop().create_task(subscription.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
                await asyncio.shield(closing)

    async def _until_ended(self, subscription: Subscription) -> None:
        """Raises what ended the subscription."""
        stopping = asyncio.get_running_loop().create_task(self._stopping.wait())
        try:
            await asyncio.wait((subscription.ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if subscription.ended.done():
            await subscription.ended
        raise HttpError(503, "the gateway stops: subscribe again")

    # ---- offsets

    async def _commit(self, login: Login | None, request: Any) -> Any:
        offsets = asked.offsets_to_commit(request)
        for subscription in self._subscriptions(login, request.group_id):
            here = {place: offsets.pop(place) for place in subscription.assignment & offsets.keys()}
            if here:
                await subscription.commit(here)
        if offsets:
            async with self._pool.caller(login) as caller:
                await _commit_alone(caller, request.group_id, offsets)
        return _Committed()

    def _subscriptions(self, login: Login | None, group_id: str) -> list[Subscription]:
        return [each for each, whose in self._open.items() if whose == login and each.group_id == group_id]

    async def _get_offsets(self, login: Login | None, request: Any) -> Any:
        places = asked.places(request.partitions)
        if not places and not request.group_id:
            raise unprocessable("GetOffsets needs partitions, or a group_id")
        async with self._pool.caller(login) as caller:
            for place in places:
                await caller.topics.check_partition(*place)
            admin = await caller.clients.admin()
            committed: Mapping[TopicPartition, Any] = {}
            if request.group_id:
                committed = await admin.list_group_offsets(request.group_id, places or None)
            places = places or sorted(committed)
            return _Offsets(offsets=await _ends(caller, places, committed))


async def _commit_alone(
    caller: Caller, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Commit for a group without members."""
    for place in offsets:
        await caller.topics.check_partition(*place)
    outcomes = await (await caller.clients.admin()).alter_group_offsets(group_id, offsets)
    try:
        succeeded(outcomes)
    except KafkaError as error:
        if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            raise
        raise HttpError(
            409,
            f"the group {group_id!r} has members, and none with this login reads {next(iter(offsets))} at this"
            " gateway: commit over the connection that subscribes",
            kafka_code=error.code,
        ) from error


async def _ends(
    caller: Caller, places: list[TopicPartition], committed: Mapping[TopicPartition, Any]
) -> list[Any]:
    if not places:
        return []
    admin = await caller.clients.admin()
    first, last = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST)),
        admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST)),
    )
    begins, ends = succeeded(first), succeeded(last)
    shown = []
    for place in places:
        each = _Ends(**place._asdict(), beginning_offset=begins[place].offset, end_offset=ends[place].offset)
        found = committed.get(place)
        if isinstance(found, KafkaError):
            raise found
        if found is not None:
            each.committed_offset, each.metadata = found.offset, found.metadata
        shown.append(each)
    return shown


async def _hear(subscription: Subscription, requests: AsyncIterator[Any]) -> None:
    """What the caller says after its subscription, until it says no more. Raises HttpError."""
    async for request in requests:
        match request.WhichOneof("request"):
            case "ack":
                done = request.ack
                subscription.acknowledge(asked.place(done), done.offset, up_to=done.up_to)
            case "credit":
                subscription.add_credit(asked.credit_in(request.credit.count))
            case "seek":
                await subscription.seek(asked.seek(request.seek))
            case "pause":
                subscription.pause()
            case "resume":
                subscription.resume()
            case "subscribe":
                raise HttpError(409, "this stream has a subscription: open another one")
            case _:
                raise unprocessable("a request of Consume must have one of its fields")


class _EachRecord:
    """The audience of Subscribe: every record is a message."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def records(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            await self._context.write(shown_record(record))

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None: ...
    async def revoked(self, partitions: Iterable[TopicPartition]) -> None: ...


class _Batches:
    """The audience of Consume."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def records(self, records: list[ConsumerRecord]) -> None:
        await self._context.write(_Response(messages=_Messages(messages=list(map(shown_record, records)))))

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        await self._context.write(_Response(assigned=shown_places(partitions)))

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        await self._context.write(_Response(revoked=shown_places(partitions)))


def shown_record(record: ConsumerRecord) -> Any:
    """A record as a message."""
    return _Message(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=[_Header(name=name, value=value) for name, value in record.headers],
    )


def shown_places(places: Iterable[TopicPartition]) -> Any:
    """Partitions as a message."""
    return _Partitions(partitions=[_Place(**each._asdict()) for each in places])
