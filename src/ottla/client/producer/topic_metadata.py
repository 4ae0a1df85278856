"""The topics that a producer writes to: metadata for the accumulator, and a limit for missing topics.

A topic that does not exist may be created at any moment, and metadata may lag behind a creation; so it is
waited for, up to `max_block_ms`. An error that does not pass (an invalid name, a topic that must not be
written to) fails at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from ottla.client.cluster.topology import Topology
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.delivery_report import Failure
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.runtime.ordered_set import OrderedSet


class ProducerTopics:
    """The topics of one producer. `on_failure` is called when the wait for a topic has ended in vain."""

    def __init__(
        self,
        accumulator: Accumulator,
        topology: Topology,
        max_block_ms: int,
        on_failure: Callable[[], None],
    ) -> None:
        self._accumulator = accumulator
        self._on_failure = on_failure
        self._topology = topology
        self._max_block_ms = max_block_ms
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wanted: OrderedSet[str] = OrderedSet()
        self._askers: defaultdict[str, list[asyncio.Future[int]]] = defaultdict(list)
        self._loads: dict[int, float] = {}

    def want(self, name: str) -> None:
        """A record is for a topic that is not known yet."""
        if name not in self._wanted:
            self._wanted.add(name)
            self._topology.want(self._wanted)
        self._watch(name)

    async def partitions_count(self, name: str) -> int:
        """How many partitions a topic has. Raises KafkaError if that cannot be learned."""
        known = self._accumulator.topics.get(name)
        if known is not None:
            return known.partitions.count
        asker = asyncio.get_running_loop().create_future()
        self._askers[name].append(asker)
        self.want(name)
        count: int = await asker
        return count

    def weigh(self, loads: dict[int, float]) -> None:
        """How busy each broker is, from 0 to 1: partitioners see it."""
        self._loads = loads
        self.learn()

    def leaders(self) -> set[int]:
        """The brokers that lead a partition of these topics."""
        found: set[int] = set()
        for name, count in self._topology.partition_counts(self._wanted).items():
            for index in range(count):
                leader = self._topology.leader_of(TopicPartition(name, index))
                if leader is not None:
                    found.add(leader.node_id)
        return found

    def learn(self) -> None:
        """Something new is known of the cluster."""
        counts = self._topology.partition_counts(self._wanted)
        for name, count in counts.items():
            error = self._topology.error_of(name)
            if count:
                self._unwatch(name)
                self._accumulator.open_topic(name, count)
                self._describe(name)
                self._answer(name, count)
            elif error is not None and not error.code.retriable:
                self._give_up(name, error)
            elif name in self._accumulator.topics:
                self._watch(name)  # it was there, and is not any more

    def close(self) -> None:
        """Stop waiting for anything."""
        for name in list(self._timers):
            self._unwatch(name)
        closed = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")
        for name in list(self._askers):
            self._answer(name, closed)

    def _answer(self, name: str, outcome: int | KafkaError) -> None:
        for asker in self._askers.pop(name, ()):
            if asker.done():
                continue
            if isinstance(outcome, int):
                asker.set_result(outcome)
            else:
                asker.set_exception(KafkaError(outcome.code, outcome.message))

    def _describe(self, name: str) -> None:
        """Tell partitioners which partitions have a leader, and the load of those leaders."""
        partitions = self._accumulator.topics[name].partitions
        leaders = {
            index: leader.node_id
            for index in range(partitions.count)
            if (leader := self._topology.leader_of(TopicPartition(name, index))) is not None
        }
        loads = self._loads
        partitions.describe(
            list(leaders) or range(partitions.count),
            {index: loads[node_id] for index, node_id in leaders.items() if node_id in loads},
        )

    def _watch(self, name: str) -> None:
        if name not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(self._max_block_ms / 1000, self._not_found, name)

    def _unwatch(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _not_found(self, name: str) -> None:
        error = self._topology.error_of(name)
        if error is None:
            message = f'nothing could be learned about the topic "{name}"'
            error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
        limit = f"{self._max_block_ms} ms (max_block_ms)"
        message = f"{error.message.rstrip('.')}, and waiting for {limit} did not help"
        self._give_up(name, KafkaError(error.code, message))

    def _give_up(self, name: str, error: KafkaError) -> None:
        """Fail the records and callers that wait. The next record for the topic starts another search."""
        self._unwatch(name)
        self._wanted.discard(name)
        self._topology.want(self._wanted)
        self._answer(name, error)
        self._accumulator.fail_topic(name, Failure(error.code, error.message))
        self._on_failure()
