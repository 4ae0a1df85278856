"""Clients of a simulated cluster: producers that never give up, and consumers that read on.

An idempotent producer sends several batches at once, in order, and begins again with the first one that was not acknowledged, to
whoever leads by then. A careless one (acks=1, no sequences) writes what may be lost: it makes logs part. A consumer reads up to the
watermark of whoever it takes for the leader. What they are told is handed to the checks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.simulation.broker_log import NO_PRODUCER
from tests.simulation.cluster import US_PER_MS
from tests.simulation.raft_checks import require
from tests.simulation.site import (
    AskMetadata,
    Consume,
    Consumed,
    Outgoing,
    Produce,
    Produced,
    Site,
    TopicPartition,
)
from tests.simulation.wire import REFUSED, Question

from ottla.errors import ErrorCode
from ottla.model import ACKS_ALL

FIRST_CLIENT_ID: Final = 100
BACKOFF_MS: Final = 12
ACKS_LEADER: Final = 1


class Client:
    """What all clients have: an end of the wire, and an idea of who leads what."""

    def __init__(self, site: Site, node_id: int) -> None:
        self.site = site
        self.node_id = node_id
        self.life = 0
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self._is_asking = False
        site.wire.ends[node_id] = self

    def hear(self, life: int, action: Callable[[], None]) -> None:
        action()

    def receive(self, question: Question) -> None:
        """Nobody asks a client."""

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.site.cluster.schedule.after(delay_ms * US_PER_MS, action)

    def ask(self, to: int, request: Any, answered: Callable[[Any], None]) -> None:
        self.site.wire.ask(self, to, request, answered, self.site.timing.request_timeout_ms)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The newest leader it has heard of."""
        leader, _ = self.leaders.get(partition, (-1, -1))
        return leader if leader >= 0 else None

    def refresh(self) -> None:
        """Ask somebody who leads what."""
        if not self._is_asking:
            self._is_asking = True
            self.ask(self.anyone(), AskMetadata(), self._refreshed)

    def anyone(self) -> int:
        return self.site.cluster.random.choice(list(self.site.nodes))

    def _refreshed(self, answer: Any) -> None:
        self._is_asking = False
        if answer is None or answer is REFUSED:
            return
        for partition, (leader, epoch) in answer.items():
            if epoch >= self.leaders.get(partition, (-1, -1))[1]:
                self.leaders[partition] = (leader, epoch)


class Lane:
    """A producer's batches for one partition that are not acknowledged yet."""

    __slots__ = ("is_asking", "next_sequence", "unacknowledged")

    def __init__(self) -> None:
        self.next_sequence = 0
        self.unacknowledged: deque[Outgoing] = deque()
        self.is_asking = False


class Producer:
    """Writes with acks=all and sequences."""

    def __init__(
        self, client: Client, producer_id: int, new_values: Callable[[int], tuple[int, ...]]
    ) -> None:
        self.client = client
        self._producer_id = producer_id
        self._new_values = new_values
        self._lanes: dict[TopicPartition, Lane] = {}
        self.in_flight = client.site.cluster.random.choice((1, 1, 3, 5))

    @property
    def is_idle(self) -> bool:
        return all(not lane.unacknowledged for lane in self._lanes.values())

    @property
    def waiting(self) -> dict[TopicPartition, int]:
        return {p: len(lane.unacknowledged) for p, lane in self._lanes.items() if lane.unacknowledged}

    def write(self, partition: TopicPartition) -> None:
        lane = self._lanes.setdefault(partition, Lane())
        if len(lane.unacknowledged) >= 2 * self.in_flight:
            return
        values = self._new_values(self.client.site.cluster.random.choice((1, 1, 2, 3)))
        lane.unacknowledged.append(Outgoing(self._producer_id, lane.next_sequence, values))
        lane.next_sequence += len(values)
        self._send(partition, lane)

    def _send(self, partition: TopicPartition, lane: Lane) -> None:
        if lane.is_asking or not lane.unacknowledged:
            return
        lane.is_asking = True
        leader = self.client.leader_of(partition)
        if leader is None:
            self._retry_later(partition, lane)
            return
        # Until the first batch is in, it goes alone: a leader takes any first sequence of a producer that it does not know.
        count = self.in_flight if lane.unacknowledged[0].base_sequence else 1
        batches = tuple(lane.unacknowledged)[:count]
        request = Produce(partition, ACKS_ALL, batches)
        self.client.ask(leader, request, partial(self._answered, partition, lane, batches))

    def _retry_later(self, partition: TopicPartition, lane: Lane) -> None:
        self.client.refresh()
        self.client.after(BACKOFF_MS, partial(self._retry, partition, lane))

    def _retry(self, partition: TopicPartition, lane: Lane) -> None:
        lane.is_asking = False
        self._send(partition, lane)

    def _answered(
        self, partition: TopicPartition, lane: Lane, batches: tuple[Outgoing, ...], answer: Any
    ) -> None:
        if answer is None or answer is REFUSED:
            self._retry_later(partition, lane)
            return
        for batch, produced in zip(batches, answer, strict=True):
            if not self._is_written(partition, batch, produced):
                self._retry_later(partition, lane)
                return
            lane.unacknowledged.popleft()
        self._retry(partition, lane)

    def _is_written(self, partition: TopicPartition, batch: Outgoing, produced: Produced) -> bool:
        if produced.error is ErrorCode.NONE:
            self.client.site.checks.acknowledged(partition, batch, produced.base_offset)
            return True
        self.client.site.checks.counts[f"produce: {produced.error.name}"] += 1
        return False


class CarelessProducer:
    """Writes with acks=1 and forgets."""

    def __init__(self, client: Client, new_values: Callable[[int], tuple[int, ...]]) -> None:
        self.client = client
        self._new_values = new_values

    def write(self, partition: TopicPartition) -> None:
        leader = self.client.leader_of(partition)
        if leader is None:
            self.client.refresh()
            return
        request = Produce(partition, ACKS_LEADER, (Outgoing(NO_PRODUCER, -1, self._new_values(1)),))
        self.client.ask(leader, request, self._answered)

    def _answered(self, answer: Any) -> None:
        if answer is None or answer is REFUSED or answer[0].error is not ErrorCode.NONE:
            self.client.refresh()


class Consumer:
    """Reads every partition it knows of, from the beginning."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.positions: dict[TopicPartition, int] = {}
        self._asking: set[TopicPartition] = set()

    def poll(self, partition: TopicPartition) -> None:
        leader = self.client.leader_of(partition)
        if leader is None:
            self.client.refresh()
        elif partition not in self._asking:
            self._asking.add(partition)
            position = self.positions.get(partition, 0)
            request = Consume(partition, position, self.client.leaders[partition][1])
            self.client.ask(leader, request, partial(self._answered, partition, position))

    def _answered(self, partition: TopicPartition, position: int, answer: Any) -> None:
        self._asking.discard(partition)
        if not isinstance(answer, Consumed):
            self.client.refresh()
        elif answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            require(
                position < answer.log_start_offset,
                f"a consumer at {position} of {partition} is out of the range of its leader: {answer}",
            )
            self.positions[partition] = answer.log_start_offset
        elif answer.error is not ErrorCode.NONE:
            self.client.refresh()
        elif answer.batches:
            self.client.site.checks.read(partition, position, answer.batches)
            self.positions[partition] = answer.batches[-1].end_offset
