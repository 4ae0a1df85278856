"""Fetches records ahead of the application: one request to each broker at a time, while there is something to ask for.

A task fetches from one broker until nothing is left to ask for (the buffers are full, or the broker leads none of the
partitions any more), and then ends; `pump` starts it again. `wake()` is called when the application has something new
to look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from ottla.client.background import Background
from ottla.client.connections import Connections
from ottla.client.fetch_plan import (
    FIRST_VERSION_WITH_IDS,
    FetchPlan,
    FetchSettings,
    Verdict,
    is_fetchable,
    plan_fetch,
    take_in,
)
from ottla.client.metadata import TopicPartition
from ottla.client.outcomes import error_of
from ottla.client.partition_reader import PartitionReader
from ottla.client.retries import waits_ms
from ottla.client.topology import Leader, Topology
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.fetch import FetchResponse, PartitionData

# After an error that passes by itself: metadata is asked for meanwhile.
BLOCKED_SECONDS: Final = 0.1


class Fetcher:
    """The readers of a consumer's partitions, and the tasks that fill them."""

    def __init__(
        self,
        connections: Connections,
        topology: Topology,
        settings: FetchSettings,
        wake: Callable[[], None],
    ) -> None:
        self._connections = connections
        self._topology = topology
        self._settings = settings
        self._wake = wake
        self._background = Background(wake)
        self._busy: set[int] = set()  # the brokers that a request is under way to
        self._reserved_bytes = 0  # what the requests under way may bring
        self._is_closed = False
        self.readers: dict[TopicPartition, PartitionReader] = {}

    @property
    def failure(self) -> BaseException | None:
        """What broke fetching for good."""
        return self._background.failure

    def pump(self) -> None:
        """Start what can be fetched and is not being fetched."""
        if self._is_closed or self._room_bytes() <= 0:
            return
        for reader in self.readers.values():
            leader = self._topology.leader_of(reader.partition)
            if leader is None:
                self._topology.request_refresh()
            elif leader.node_id not in self._busy and is_fetchable(reader, self._settings):
                self._busy.add(leader.node_id)
                self._background.start(self._fetch_from(leader.node_id))

    async def close(self) -> None:
        """End all tasks; nothing is fetched any more."""
        self._is_closed = True
        await self._background.close()

    async def _fetch_from(self, node_id: int) -> None:
        try:
            await self._fetch_while_needed(node_id)
        finally:
            self._busy.discard(node_id)
        self.pump()  # what it led may be led by another now

    async def _fetch_while_needed(self, node_id: int) -> None:
        waits = waits_ms()
        while (plan := self._plan(node_id)) is not None:
            try:
                response = await self._ask(node_id, plan)
            except (ConnectionError, TimeoutError, KafkaError) as error:
                if isinstance(error, KafkaError) and error.code == ErrorCode.UNSUPPORTED_VERSION:
                    raise
                self._topology.request_refresh()
                await asyncio.sleep(next(waits) / 1000)
                continue
            waits = waits_ms()
            self._take_in(plan, response)

    def _plan(self, node_id: int) -> FetchPlan | None:
        wanted: list[tuple[PartitionReader, Leader, UUID]] = []
        is_impatient, room_bytes = False, self._room_bytes()
        for reader in self.readers.values():
            leader = self._topology.leader_of(reader.partition)
            if leader is None or leader.node_id != node_id:
                continue
            if is_fetchable(reader, self._settings):
                wanted.append((reader, leader, self._topology.id_of(reader.partition.topic)))
            else:
                is_impatient = is_impatient or reader.buffered_bytes > 0
        if not wanted or room_bytes <= 0:
            return None
        return plan_fetch(wanted, self._settings, room_bytes=room_bytes, is_impatient=is_impatient)

    async def _ask(self, node_id: int, plan: FetchPlan) -> FetchResponse:
        reserved = plan.request.max_bytes
        self._reserved_bytes += reserved
        try:
            connection = await self._connections.to(node_id)
            at_most = None if plan.has_ids else FIRST_VERSION_WITH_IDS - 1
            version = connection.common_version(ApiKey.FETCH, at_most=at_most)
            wait_ms = self._settings.request_timeout_ms + plan.request.max_wait_ms
            response: FetchResponse = await connection.ask(plan.request, version, timeout_ms=wait_ms)
        finally:
            self._reserved_bytes -= reserved
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code)
        return response

    def _take_in(self, plan: FetchPlan, response: FetchResponse) -> None:
        for reader, data in plan.answers(response):
            if self.readers.get(reader.partition) is not reader:
                continue  # the partition was given up meanwhile
            verdict = take_in(reader, data)
            if verdict is Verdict.PASSING:
                self._block(reader)
            elif verdict is Verdict.FAILED:
                reader.error = _refused(reader, data)
            elif data.records:
                # To the end of the line: a broker fills a response from the first partition on.
                self.readers[reader.partition] = self.readers.pop(reader.partition)
        self._wake()

    def _block(self, reader: PartitionReader) -> None:
        self._topology.request_refresh()
        reader.is_blocked = True
        asyncio.get_running_loop().call_later(BLOCKED_SECONDS, self._unblock, reader)

    def _unblock(self, reader: PartitionReader) -> None:
        reader.is_blocked = False
        self.pump()

    def _room_bytes(self) -> int:
        buffered = sum(reader.buffered_bytes for reader in self.readers.values())
        return self._settings.max_buffered_bytes - self._reserved_bytes - buffered


def _refused(reader: PartitionReader, data: PartitionData) -> KafkaError:
    error = error_of(data.error_code)
    return KafkaError(error.code, f"{reader.partition} cannot be read: {error.message}")
