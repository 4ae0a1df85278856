"""Sends the markers of ended transactions to the leaders of their partitions, until each has its marker.

One request at a time goes to a broker, with all markers that wait for it. A partition whose leader is not
known, not reachable or no longer the leader is tried again without end, each time with the leader of then. A
partition that is not in the metadata is gone with its topic, and needs no marker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Final, Protocol

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER, TopicPartition
from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.records.control import TransactionMarker
from ottla.server.quorum.quorum import Quorum
from ottla.transaction.decision import Markers
from ottla.wire.stream import ConnectionLostError

logger = logging.getLogger(__name__)

_PURPOSE: Final = "markers"
_REQUEST_TIMEOUT_MS: Final = 10_000
# An answer to so many markers takes some ten milliseconds of the other broker's loop.
_TRANSACTIONS_PER_REQUEST: Final = 500
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5

WriteHere = Callable[[str, int, TransactionMarker], Awaitable[ErrorCode]]
# By producer and partition.
_Answers = dict[tuple[int, TopicPartition], int]


class Owner(Protocol):
    """The coordinator that decided on a transaction."""

    @property
    def is_current(self) -> bool:
        """Whether the coordinator still answers for the transaction."""

    @property
    def coordinator_epoch(self) -> int:
        """The epoch by which partitions tell the coordinator from earlier ones."""

    def markers_written(self, markers: Markers, partitions: frozenset[TopicPartition]) -> None:
        """Hear of partitions that have the marker."""


class _Sending:
    """One transaction whose markers are on their way."""

    __slots__ = ("_pause_s", "markers", "owner")

    def __init__(self, markers: Markers, owner: Owner) -> None:
        self.markers = markers
        self.owner = owner
        self._pause_s = _FIRST_PAUSE_S

    def next_pause_s(self) -> float:
        """How long to wait before the next attempt: longer each time."""
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return pause_s

    def marker(self) -> TransactionMarker:
        """What a partition of this broker is given."""
        markers = self.markers
        return TransactionMarker(
            markers.producer_id,
            markers.producer_epoch,
            self.owner.coordinator_epoch,
            markers.is_commit,
            markers.transaction_version,
        )

    def message(self, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
        """What another broker is sent."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(topic, []).append(partition)
        return WritableTxnMarker(
            producer_id=self.markers.producer_id,
            producer_epoch=self.markers.producer_epoch,
            transaction_result=self.markers.is_commit,
            topics=[WritableTxnMarkerTopic(topic, numbers) for topic, numbers in topics.items()],
            coordinator_epoch=self.owner.coordinator_epoch,
            transaction_version=self.markers.transaction_version,
        )


_Queue = dict[_Sending, set[TopicPartition]]


class MarkerSender:
    """The markers that this broker's coordinators have to send. `write_here` writes those of its own
    partitions.
    """

    def __init__(self, quorum: Quorum, write_here: WriteHere) -> None:
        self._quorum = quorum
        self._write_here = write_here
        self._queues: dict[int, _Queue] = {}
        self._lanes: dict[int, asyncio.Task[None]] = {}
        self._is_stopped = False

    def send(self, markers: Markers, owner: Owner) -> None:
        """Send markers; `owner` hears of each partition that has its marker."""
        self._route(_Sending(markers, owner), markers.partitions)

    async def stop(self) -> None:
        """Send nothing more: the next coordinator does."""
        self._is_stopped = True
        self._queues.clear()
        lanes = list(self._lanes.values())
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    def _route(self, sending: _Sending, partitions: Iterable[TopicPartition]) -> None:
        if self._is_stopped or not sending.owner.is_current:
            return
        gone, waiting = set(), set()
        for partition in sorted(partitions):
            leader = self._leader_of(partition)
            if leader is None:
                gone.add(partition)
            elif leader == NO_LEADER:
                waiting.add(partition)
            else:
                self._queues.setdefault(leader, {}).setdefault(sending, set()).add(partition)
                self._open_lane(leader)
        if waiting:
            self._route_later(sending, waiting)
        if gone:
            sending.owner.markers_written(sending.markers, frozenset(gone))

    def _leader_of(self, partition: TopicPartition) -> int | None:
        topic = self._quorum.image.topics_by_name.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        return topic.partitions[partition.partition].leader

    def _route_later(self, sending: _Sending, partitions: Iterable[TopicPartition]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(sending.next_pause_s(), self._route, sending, frozenset(partitions))

    # One broker

    def _open_lane(self, leader: int) -> None:
        if leader not in self._lanes:
            lane = asyncio.get_running_loop().create_task(self._deliver(leader))
            self._lanes[leader] = lane
            lane.add_done_callback(lambda _: self._close_lane(leader))

    def _close_lane(self, leader: int) -> None:
        del self._lanes[leader]
        if leader in self._queues and not self._is_stopped:
            # Came after the lane had looked for the last time.
            self._open_lane(leader)

    async def _deliver(self, leader: int) -> None:
        while leader in self._queues:
            queue = self._queues.pop(leader)
            entries = iter(queue.items())
            while some := dict(islice(entries, _TRANSACTIONS_PER_REQUEST)):
                wanted = {sending: left for sending, left in some.items() if sending.owner.is_current}
                if wanted:
                    self._settle(wanted, await self._ask(leader, wanted))

    async def _ask(self, leader: int, queue: _Queue) -> _Answers:
        if leader == self._quorum.node_id:
            return await self._ask_here(queue)
        request = WriteTxnMarkersRequest(
            [sending.message(partitions) for sending, partitions in queue.items()]
        )
        try:
            response: WriteTxnMarkersResponse = await self._quorum.peers.ask(
                leader, request, purpose=_PURPOSE, timeout_ms=_REQUEST_TIMEOUT_MS
            )
        except (OSError, TimeoutError, ConnectionLostError, KafkaError) as problem:
            logger.info("markers for node %d have to wait: %s", leader, problem)
            return {}
        return {
            (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): partition.error_code
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }

    async def _ask_here(self, queue: _Queue) -> _Answers:
        # All are appended before the first is waited for.
        written = {
            (sending.markers.producer_id, one): self._write_here(one.topic, one.partition, sending.marker())
            for sending, partitions in queue.items()
            for one in sorted(partitions)
        }
        return {key: await outcome for key, outcome in written.items()}

    def _settle(self, queue: _Queue, answers: _Answers) -> None:
        """Tell the owners which partitions have the marker, and try the others again."""
        for sending, partitions in queue.items():
            producer_id = sending.markers.producer_id
            errors = {
                one: answers.get((producer_id, one), ErrorCode.NETWORK_EXCEPTION)
                for one in sorted(partitions)
            }
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in errors.values():
                # Another coordinator answers for the transaction, and sends the markers.
                continue
            written = {one for one, error in errors.items() if error in _SETTLED}
            if written:
                _note_refusals(sending.markers, errors)
                sending.owner.markers_written(sending.markers, frozenset(written))
            if len(written) < len(errors):
                self._route_later(sending, errors.keys() - written)


# A partition that knows a later epoch of the producer has no transaction of this one open.
_SETTLED: Final = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)


def _note_refusals(markers: Markers, errors: dict[TopicPartition, int]) -> None:
    for partition, error in errors.items():
        if error == ErrorCode.INVALID_PRODUCER_EPOCH:
            logger.warning(
                "%s takes no marker of '%s': it knows a later epoch than %d",
                partition,
                markers.transactional_id,
                markers.producer_epoch,
            )
