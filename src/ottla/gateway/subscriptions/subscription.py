"""One subscription: a consumer whose records are pushed as fast as the caller takes them.

In a group, what the caller acknowledged is committed every second, when partitions go, and at the end. Without a
group nothing is committed: the caller remembers its offsets and gives them when it subscribes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import OffsetSpec
from ottla.errors import KafkaError
from ottla.gateway.cluster.clients import CLIENT_ID
from ottla.gateway.cluster.pool import Caller
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.subscriptions.machine.flow import Flow
from ottla.gateway.subscriptions.machine.wanted import Seek, Wanted
from ottla.model import TopicPartition

logger = logging.getLogger(__name__)

_COMMIT_INTERVAL_S: Final = 1.0
# A caller without room is looked at this often, so that its group can rebalance.
_STALLED_S: Final = 0.5
_POLL_MS: Final = 500


class Audience(Protocol):
    """The caller of a subscription. Each method returns when the caller's connection has room again."""

    async def records(self, records: list[ConsumerRecord]) -> None: ...
    async def assigned(self, partitions: Iterable[TopicPartition]) -> None: ...
    async def revoked(self, partitions: Iterable[TopicPartition]) -> None: ...


class Subscription:
    """Pushes records from `open` to `close`, at most so many at once. `ended` has the error that ended it."""

    def __init__(self, caller: Caller, wanted: Wanted, audience: Audience, most_at_once: int = 1) -> None:
        self._caller = caller
        self._wanted = wanted
        self._audience = audience
        self._most_at_once = most_at_once
        has_acknowledgements = wanted.group_id is not None and wanted.is_acknowledged
        self._flow = Flow(has_group=has_acknowledgements, credit=wanted.credits)
        self._consumer: Consumer | None = None
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect and begin. Raises HttpError, KafkaError and ConnectionError."""
        wanted = self._wanted
        consumer = self._caller.clients.consumer(
            client_id=CLIENT_ID,
            group_id=wanted.group_id,
            auto_offset_reset=wanted.reset,
            enable_auto_commit=False,
        )
        partitions = [] if wanted.group_id is not None else await self._all_partitions()
        await consumer.__aenter__()
        try:
            self._begin(consumer, partitions)
        except BaseException:
            await consumer.close()
            raise
        self._consumer = consumer
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._push(consumer))]
        if wanted.group_id is not None:
            self._tasks.append(loop.create_task(self._commit_again_and_again()))

    @property
    def ended(self) -> asyncio.Task[None]:
        """Done when no record will be pushed any more; it raises why."""
        return self._tasks[0]

    async def close(self) -> None:
        """Commit what is acknowledged, and leave the group."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            await self._commit(consumer)
            await consumer.close()
        except (KafkaError, ConnectionError, TimeoutError, ValueError) as error:
            logger.warning("a subscription of group %s ended badly: %s", self._wanted.group_id, error)

    @property
    def group_id(self) -> str | None:
        return self._wanted.group_id

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read here now."""
        return frozenset() if self._consumer is None else frozenset(self._consumer.assignment)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit as this member of the group. Raises KafkaError and ConnectionError."""
        await self._open_consumer().commit(offsets)

    # ---- what the caller says

    def acknowledge(self, partition: TopicPartition, offset: int, *, up_to: bool) -> None:
        """Raises HttpError."""
        self._change(lambda: self._flow.acknowledge(partition, offset, up_to=up_to))

    def add_credit(self, count: int) -> None:
        """Raises HttpError."""
        self._change(lambda: self._flow.add_credit(count))

    def pause(self) -> None:
        self._flow.pause()

    def resume(self) -> None:
        self._change(self._flow.resume)

    async def seek(self, wanted: Seek) -> None:
        """Raises HttpError for a partition that is not read here."""
        consumer = self._open_consumer()
        place = wanted.partition
        if place not in consumer.assignment:
            raise HttpError(404, f"{place} is not assigned to this subscription", error_code=40402)
        await self._commit(consumer, frozenset((place,)))  # acknowledgements of the old place end here
        if isinstance(wanted.offset, int):
            consumer.seek(place, wanted.offset)
        else:
            end = OffsetSpec.EARLIEST if wanted.offset == "earliest" else OffsetSpec.LATEST
            await consumer.seek_to(end, [place])
        # In the same turn of the loop: what was read before must not follow.
        self._flow.drop([place])
        self._changed.set()

    def _change(self, what: Callable[[], None]) -> None:
        try:
            what()
        except ValueError as error:
            raise HttpError(422, str(error)) from error
        self._changed.set()

    # ---- inside

    async def _all_partitions(self) -> list[TopicPartition]:
        places: list[TopicPartition] = []
        for topic in self._wanted.topics:
            count = await self._caller.topics.partition_count(topic)
            places += [TopicPartition(topic, number) for number in range(count)]
        for place, _ in self._wanted.offsets:
            if place not in places:
                raise HttpError(404, f"offsets names {place}, which is not subscribed to", error_code=40402)
        return places

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._wanted.group_id is None:
            consumer.assign(partitions)
            for place, offset in self._wanted.offsets:
                consumer.seek(place, offset)
            return
        consumer.subscribe(
            self._wanted.topics, on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost
        )

    async def _push(self, consumer: Consumer) -> None:
        flow = self._flow
        while True:
            while records := flow.take(self._most_at_once):
                await self._audience.records(records)
            room = flow.room
            if room:
                flow.read(await consumer.poll(max_records=room, timeout_ms=_POLL_MS))
                continue
            self._changed.clear()
            try:
                async with asyncio.timeout(_STALLED_S):
                    await self._changed.wait()
            except TimeoutError:
                await consumer.poll(max_records=0, timeout_ms=0)

    async def _commit_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_INTERVAL_S)
            if self._consumer is not None:
                try:
                    await self._commit(self._consumer)
                except (KafkaError, ConnectionError, TimeoutError) as error:
                    logger.warning("group %s: offsets were not committed: %s", self._wanted.group_id, error)

    async def _commit(self, consumer: Consumer, partitions: frozenset[TopicPartition] | None = None) -> None:
        if self._wanted.group_id is None:
            return
        offsets = self._flow.to_commit(partitions)
        if offsets:
            await consumer.commit(offsets)
            self._flow.committed(offsets)

    async def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await self._audience.assigned(sorted(partitions))

    async def _revoked(self, partitions: frozenset[TopicPartition]) -> None:
        if self._consumer is not None:
            await self._commit(self._consumer, partitions)
        await self._lost(partitions)

    async def _lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._flow.drop(partitions)
        if self._consumer is not None:
            await self._audience.revoked(sorted(partitions))

    def _open_consumer(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer
