"""Fetches records ahead of the application: one request to each broker at a time.

A task fetches from one broker until there is nothing to ask for (the buffers are full, or none of the
partitions is read from the broker any more), and then ends; `pump` starts it again. `on_ready(reader)` is called when a
reader has something for the application, and `on_ready(None)` when fetching failed for good. Rules
- A broker may hold a request while it has no records, but not while the buffer of another of its partitions
  is full: then the empty partitions are polled periodically, and the full one is fetched as soon as it has
  room.
- A new leader must prove that its log is the one that was read, before anything is fetched from it.
- A leader may name a replica in the consumer's rack to read from (nearby.py).
- A broker that is no longer the leader may name the new one (KIP-951); then the next fetch does not wait for
  metadata.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.connections import Connections, hanging_up
from ottla.client.cluster.topology import Topology
from ottla.client.fetching.nearby import NearbyReplicas
from ottla.client.fetching.plan.epoch_check import History, compare, ends_of_epochs, epochs_request, parted
from ottla.client.fetching.plan.fetch_plan import (
    FetchPlan,
    FetchSettings,
    Verdict,
    is_fetchable,
    last_version,
    plan_fetch,
    take_in,
)
from ottla.client.fetching.plan.fetch_session import FetchSession
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.requests.metadata import BrokerInfo, Leader
from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.fetch import FetchResponse, PartitionData
from ottla.protocol.messages.leader_epochs import EpochEndOffset
from ottla.runtime.ordered_set import OrderedSet

# After an error that passes by itself: metadata is asked for meanwhile.
BLOCKED_SECONDS: Final = 0.1
# How often partitions without records are looked at while another one's buffer is full.
LOOK_SECONDS: Final = 0.05


class Fetcher:
    """The readers of a consumer's partitions, and the tasks that fill them.

    With `is_strict`, a reader fails when a new leader lacks records that the application has read, so that
    the application can decide.
    """

    def __init__(
        self,
        connections: Connections,
        topology: Topology,
        settings: FetchSettings,
        on_ready: Callable[[PartitionReader | None], None],
        *,
        is_strict: bool = False,
    ) -> None:
        self._connections = connections
        self._topology = topology
        self._settings = settings
        self._on_ready = on_ready
        self._is_strict = is_strict
        self._nearby = NearbyReplicas(topology, settings.nearby_ms)
        self._background = Background(lambda: on_ready(None))
        self._sessions: defaultdict[int, FetchSession] = defaultdict(FetchSession)
        self._busy: set[int] = set()  # the brokers that have a task
        self._asked: set[int] = set()  # those of them that a request is under way to
        self._has_room = asyncio.Event()
        self._reserved_bytes = 0  # the most that the requests under way may return
        self._is_closed = False
        self.readers: dict[TopicPartition, PartitionReader] = {}
        self._unplaced: OrderedSet[PartitionReader] = OrderedSet()  # may need a position

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these too; each waits for a position."""
        for partition in partitions:
            reader = PartitionReader(partition, check_crcs=self._settings.check_crcs)
            self.readers[partition] = reader
            self._unplaced.add(reader)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions; buffered records are discarded."""
        for partition in partitions:
            self._unplaced.discard(self.readers.pop(partition))
            self._nearby.forget(partition)

    def without_position(self) -> list[PartitionReader]:
        """The readers whose position has to be looked up now."""
        if not self._unplaced:
            return []
        self._unplaced = OrderedSet(
            each for each in self._unplaced if each.position is None or each.is_out_of_range
        )
        return [each for each in self._unplaced if each.needs_position]

    @property
    def failure(self) -> BaseException | None:
        """The failure that ended fetching for good."""
        return self._background.failure

    def pump(self) -> None:
        """Start a fetch from each broker that has something to fetch and no fetch under way."""
        for reader in self.readers.values():
            self.pump_one(reader)

    def pump_one(self, reader: PartitionReader) -> None:
        """The same for one of them, which has just been drained, moved or resumed."""
        self._has_room.set()
        source = self._nearby.source_of(reader.partition)
        if source is None:
            self._topology.request_refresh()
        elif (
            source.node_id not in self._busy
            and not self._is_closed
            and is_fetchable(reader, self._settings)
            and self._room_bytes() > 0
        ):
            self._busy.add(source.node_id)
            self._background.start(self._fetch_from(source.node_id))

    async def close(self) -> None:
        """End all tasks; nothing is fetched any more."""
        self._is_closed = True
        await self._background.close()

    # ---- one broker

    async def _fetch_from(self, node_id: int) -> None:
        try:
            await self._fetch_while_needed(node_id)
        finally:
            self._busy.discard(node_id)
        self.pump()  # other brokers may lead its partitions now

    async def _fetch_while_needed(self, node_id: int) -> None:
        waits = waits_ms()
        while led := self._fetchable(node_id):
            try:
                if unproven := [each[:2] for each in led if not each[0].is_proven_for(each[1].epoch)]:
                    if not self._leave_nearby(reader for reader, _ in unproven):
                        await self._prove(node_id, unproven)
                    continue
                await self._until_room(node_id)
                await self._fetch(node_id)
                waits = waits_ms()
            except (ConnectionError, TimeoutError, KafkaError) as error:
                self._sessions[node_id].restart()
                self._nearby.forget_broker(node_id)
                if isinstance(error, KafkaError) and error.code == ErrorCode.UNSUPPORTED_VERSION:
                    raise
                self._topology.request_refresh()
                await asyncio.sleep(next(waits) / 1000)

    def _leave_nearby(self, readers: Iterable[PartitionReader]) -> bool:
        """Ask the leaders instead of replicas nearby; False if leaders were asked anyway."""
        leaving = [reader for reader in readers if self._nearby.is_named(reader.partition)]
        for reader in leaving:
            self._nearby.forget(reader.partition)
            self.pump_one(reader)
        return bool(leaving)

    def _fetchable(self, node_id: int) -> list[tuple[PartitionReader, Leader, UUID]]:
        """The partitions that can be fetched from a broker now."""
        if self._room_bytes() <= 0:
            return []
        source_of, id_of, settings = self._nearby.source_of, self._topology.id_of, self._settings
        return [
            (reader, source, id_of(reader.partition.topic))
            for reader in self.readers.values()
            if (source := source_of(reader.partition)) is not None
            and source.node_id == node_id
            and is_fetchable(reader, settings)
        ]

    def _is_any_full(self, node_id: int) -> bool:
        return any(
            reader.buffered_bytes >= self._settings.partition_max_bytes
            for reader in self.readers.values()
            if not reader.is_paused
            and (source := self._nearby.source_of(reader.partition)) is not None
            and source.node_id == node_id
        )

    async def _until_room(self, node_id: int) -> None:
        """While a buffer is full, wait until it has room, but not for long: others may have records."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                while self._is_any_full(node_id):
                    self._has_room.clear()
                    await self._has_room.wait()
        except TimeoutError:
            pass

    async def _fetch(self, node_id: int) -> None:
        session = self._sessions[node_id]
        connection = await self._connections.to(node_id)
        led = self._fetchable(node_id)  # again, because much may have happened while connecting
        if not led:
            return
        room_bytes, may_wait = self._share_bytes(len(led)), not self._is_any_full(node_id)
        plan = plan_fetch(session, led, self._settings, max_bytes=room_bytes, may_wait=may_wait)
        version = connection.common_version(ApiKey.FETCH, at_most=last_version(plan))
        wait_ms = self._settings.request_timeout_ms + plan.request.max_wait_ms
        reserved = plan.request.max_bytes
        self._reserved_bytes += reserved
        self._asked.add(node_id)
        try:
            async with hanging_up(connection):
                response: FetchResponse = await connection.ask(plan.request, version, timeout_ms=wait_ms)
        finally:
            self._reserved_bytes -= reserved
            self._asked.discard(node_id)
        session.answered(response)
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code)
        self._take_in(plan, response)
        if response.throttle_time_ms > 0:
            await asyncio.sleep(response.throttle_time_ms / 1000)

    # ---- answers

    def _take_in(self, plan: FetchPlan, response: FetchResponse) -> None:
        for endpoint in response.node_endpoints:
            self._connections.learn(BrokerInfo(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack))
        for asked, data in plan.answers(response):
            reader = asked.reader
            if self.readers.get(reader.partition) is not reader:
                continue  # the partition was given up meanwhile
            if data.error_code != ErrorCode.NONE and self._leave_nearby([reader]):
                continue  # the leader knows better
            if data.preferred_read_replica >= 0:
                self._nearby.name(reader.partition, data.preferred_read_replica)
                self.pump_one(reader)
            verdict = take_in(asked, data)
            if verdict is Verdict.PASSING:
                self._block(reader, data)
                continue
            if verdict is Verdict.FAILED:
                reader.fail(_refused(reader, data))
            elif verdict is Verdict.OUT_OF_RANGE:
                self._unplaced.add(reader)
            elif data.records:
                # To the end of the line: a broker fills a response from the first partition on.
                self.readers[reader.partition] = self.readers.pop(reader.partition)
            if not reader.is_drained or reader.error is not None or reader.is_out_of_range:
                self._on_ready(reader)

    def _block(self, reader: PartitionReader, data: PartitionData) -> None:
        named = Leader(data.current_leader.leader_id, data.current_leader.leader_epoch)
        if named.node_id >= 0 and self._topology.learn_leader(reader.partition, named):
            return  # no need to wait
        self._topology.request_refresh()
        reader.block()
        asyncio.get_running_loop().call_later(BLOCKED_SECONDS, self._unblock, reader)

    def _unblock(self, reader: PartitionReader) -> None:
        reader.unblock()
        self.pump()

    # ---- new leaders

    async def _prove(self, node_id: int, unproven: Sequence[tuple[PartitionReader, Leader]]) -> None:
        connection = await self._connections.to(node_id)
        if connection.offers(ApiKey.OFFSET_FOR_LEADER_EPOCH) is None:
            for reader, leader in unproven:
                reader.prove(leader.epoch)
            return
        asked = {reader: reader.fetch_offset for reader, _ in unproven}
        request, timeout_ms = epochs_request(unproven), self._settings.request_timeout_ms
        async with hanging_up(connection):
            response = await connection.ask(request, timeout_ms=timeout_ms)
        answers = ends_of_epochs(response)
        for reader, leader in unproven:
            if reader.fetch_offset != asked[reader]:
                continue  # the application has moved it
            answer = answers.get(reader.partition)
            match compare(reader, leader, answer):
                case History.UNKNOWN:
                    self._block(reader, PartitionData())
                case History.PARTED if answer is not None:
                    self._part(reader, leader, answer)
                    self._on_ready(reader)

    def _part(self, reader: PartitionReader, leader: Leader, answer: EpochEndOffset) -> None:
        if self._is_strict and (position := reader.position) is not None:
            reader.seek(position, reader.leader_epoch)
            reader.fail(parted(reader, answer))  # and again, until the application seeks
        else:
            reader.seek(answer.end_offset, answer.leader_epoch)
            reader.prove(leader.epoch)

    # ---- room

    def _room_bytes(self) -> int:
        """How many bytes may still be buffered."""
        return self._settings.max_buffered_bytes - sum(
            [reader.buffered_bytes for reader in self.readers.values()]
        )

    def _share_bytes(self, partitions: int) -> int:
        """The limit of one request: no more than its partitions take, and room is left for other brokers."""
        settings = self._settings
        sources = {source.node_id for each in self.readers if (source := self._nearby.source_of(each))}
        idle = max(1, len(sources - self._asked))
        free = (self._room_bytes() - self._reserved_bytes) // idle
        most = min(settings.max_bytes, partitions * settings.partition_max_bytes)
        return min(most, max(free, settings.partition_max_bytes))


def _refused(reader: PartitionReader, data: PartitionData) -> KafkaError:
    error = error_of(data.error_code)
    return KafkaError(error.code, f"{reader.partition} cannot be read: {error.message}")
