"""Carries out the accumulator's decisions: one task per request, and a timer for lingering batches.

Requests of one broker go out over one connection, in the order in which they were taken. A broker that does
not answer in time loses its connection: the fate of its batches is unknown, and they are sent again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.topology import Topology
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.batch_answers import Answer
from ottla.client.producer.machine.partition_queue import NEVER
from ottla.client.producer.machine.settings import ProducerSettings
from ottla.client.producer.machine.transaction_requests import LAST_EXPLICIT
from ottla.client.producer.produce_requests import (
    TOPIC_IDS_SINCE,
    answer_of,
    named_brokers,
    named_leader,
    produce_answers,
    produce_request,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from ottla.runtime.clock import monotonic_s
from ottla.wire.connection import CannotConnectError, Connection

# The broker gives up waiting for replicas before we give up waiting for the broker, so that its answer can
# arrive.
_BROKER_SHARE: Final = 0.8

Answers = dict[ProducerBatch, Answer]


class Sender:
    """`on_pumped` is called with batches that have ended, each time after batches were looked for.

    `on_failure` is called when nothing can be sent any more.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        connections: Connections,
        topology: Topology,
        settings: ProducerSettings,
        *,
        on_pumped: Callable[[list[ProducerBatch]], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._accumulator = accumulator
        self._connections = connections
        self._topology = topology
        self._settings = settings
        self._on_pumped = on_pumped
        self._background = Background(on_failure)
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._throttled_until: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER
        self._is_closed = False

    @property
    def failure(self) -> BaseException | None:
        """The failure that ended sending for good."""
        return self._background.failure

    def wake_at(self, due_ms: float) -> None:
        """Look for batches to send at this time of the loop's clock, in milliseconds."""
        if due_ms >= self._timer_ms or self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        wait_seconds = max(0.0, due_ms / 1000 - monotonic_s())
        self._timer = asyncio.get_running_loop().call_later(wait_seconds, self.pump)

    def pump(self) -> None:
        """Send the batches that are due, and report finished ones to their senders.

        An unexpected failure ends the producer: the records must not wait for a pump that cannot come.
        """
        if self._is_closed:
            return
        try:
            self._pump()
        except Exception as error:
            self._background.fail(error)

    def _pump(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, NEVER
        accumulator = self._accumulator
        while parcels := accumulator.take(self._leader_of, self._has_slot):
            for node_id, batches in parcels.items():
                self._in_flight[node_id] += 1
                self._background.start(self._deliver(node_id, batches))
        if accumulator.lacks_leaders:
            self._topology.request_refresh()
        self._on_pumped(accumulator.ledger.take_done())
        if accumulator.due_ms < NEVER:
            self.wake_at(accumulator.due_ms)

    def stop(self) -> None:
        """Send no more batches. Answers to sent ones are waited for until `close`."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    async def close(self) -> None:
        """Stop, and end all tasks."""
        self.stop()
        await self._background.close()

    async def _deliver(self, node_id: int, batches: list[ProducerBatch]) -> None:
        try:
            answers = await self._answers(node_id, batches)
        finally:
            self._in_flight[node_id] -= 1
        for batch in batches:
            self._accumulator.answered(batch, answers[batch])
        self.pump()

    async def _answers(self, node_id: int, batches: list[ProducerBatch]) -> Answers:
        """The answer for each batch, also if its broker cannot be reached or does not answer."""
        was_sent = False
        try:
            connection = await self._connections.to(node_id)
            was_sent = True
            return await self._ask(connection, batches)
        except TimeoutError as error:
            await self._drop(node_id)
            return self._unanswered(batches, str(error), was_sent=was_sent)
        except ConnectionError as error:
            was_sent = was_sent and not isinstance(error, CannotConnectError)
            return self._unanswered(batches, str(error), was_sent=was_sent)
        except KafkaError as error:
            if error.code == ErrorCode.BROKER_NOT_AVAILABLE:  # it has left the cluster
                return self._unanswered(batches, error.message, was_sent=False)
            return dict.fromkeys(batches, Answer(error.code, message=error.message, was_sent=False))

    async def _ask(self, connection: Connection, batches: list[ProducerBatch]) -> Answers:
        topics = {batch.partition.topic for batch in batches}
        topic_ids = {topic: self._topology.id_of(topic) for topic in topics}
        has_ids = ZERO_UUID not in topic_ids.values()
        version = connection.common_version(ApiKey.PRODUCE, at_most=self._last_version(has_ids=has_ids))
        patience_ms = self._settings.request_timeout_ms
        request = produce_request(
            batches,
            topic_ids,
            transactional_id=self._settings.transactional_id,
            acks=self._settings.acks,
            timeout_ms=int(patience_ms * _BROKER_SHARE),
        )
        if self._settings.acks == 0:
            await connection.tell(request, version)
            return dict.fromkeys(batches, Answer())
        response: ProduceResponse = await connection.ask(request, version, timeout_ms=patience_ms)
        self._obey_throttle(connection, response)
        return self._learn(batches, response, produce_answers(request, response, version))

    def _last_version(self, *, has_ids: bool) -> int | None:
        """The last version of Produce that says what is meant; None if there is no bound."""
        transaction = self._accumulator.transaction
        if transaction is not None and not transaction.is_implicit:
            return LAST_EXPLICIT[ApiKey.PRODUCE]
        return None if has_ids else TOPIC_IDS_SINCE - 1

    def _learn(
        self,
        batches: list[ProducerBatch],
        response: ProduceResponse,
        found: dict[TopicPartition, PartitionProduceResponse],
    ) -> Answers:
        """Each batch's answer; leaders that the response names are learned."""
        for broker in named_brokers(response):
            self._connections.learn(broker)
        answers: Answers = {}
        for batch in batches:
            answer = found.get(batch.partition)
            leader = named_leader(answer)
            is_known = leader is not None and self._topology.learn_leader(batch.partition, leader)
            answers[batch] = answer_of(answer, is_leader_known=is_known)
            if answers[batch].error.retriable and not is_known:
                self._topology.request_refresh()
        return answers

    def _unanswered(self, batches: list[ProducerBatch], message: str, *, was_sent: bool) -> Answers:
        self._topology.request_refresh()
        partition = batches[0].partition
        self._connections.notices.say(
            ("undelivered", partition), f"records for {partition} could not be sent, trying again: {message}"
        )
        answer = Answer(ErrorCode.NETWORK_EXCEPTION, message=message, was_sent=was_sent)
        return dict.fromkeys(batches, answer)

    async def _drop(self, node_id: int) -> None:
        if self._connections.is_open_to(node_id):
            await (await self._connections.to(node_id)).close()

    def _obey_throttle(self, connection: Connection, response: ProduceResponse) -> None:
        if response.throttle_time_ms > 0:
            seconds = response.throttle_time_ms / 1000
            self._throttled_until[self._connections.node_of(connection)] = monotonic_s() + seconds
            asyncio.get_running_loop().call_later(seconds, self.pump)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        leader = self._topology.leader_of(partition)
        return None if leader is None else leader.node_id

    def _has_slot(self, node_id: int) -> bool:
        if self._throttled_until.get(node_id, 0.0) > monotonic_s():
            return False
        # One request opens the connection; the others follow when it is there.
        most = self._settings.max_in_flight if self._connections.is_open_to(node_id) else 1
        return self._in_flight[node_id] < most
