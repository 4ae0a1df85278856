"""A client without a library that is an idempotent producer as librdkafka is one, and is never told that it is not.

It has several batches of one partition in flight, and after a refusal sends all that is not acknowledged again, in
order, with the same sequences. Whatever brokers refused in between, OUT_OF_ORDER_SEQUENCE_NUMBER is never true:
every batch was sent after the one before it. librdkafka would send records twice, or drop some, after that answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.stories.clients import Client
from tests.simulation.stories.ledger import Content, Promise
from tests.simulation.stories.pipelines import PipelinedConnection, record_of
from tests.simulation.stories.settings import HOSTS_PORT, OPEN_PORT

from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_ALL
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.records.builder import build_batch

if TYPE_CHECKING:
    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.world.node import Node
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

# Not in every story: one client more changes a story from its first step on, and with it what its seed finds.
SEQUENCED_EVERY: Final = 7
_PRODUCE_VERSION: Final = 12
_PRODUCER_ID_VERSION: Final = 4
_IN_FLIGHT: Final = 5
_PATIENCE_S: Final = 2.5
_ACKS_TIMEOUT_MS: Final = 1_500


@dataclass(slots=True)
class _Batch:
    sequence: int
    name: str
    content: Content
    is_acknowledged: bool = False


class _Producer:
    """A producer id, its partition, and the batches that are not acknowledged."""

    def __init__(self, producer_id: int, writer: str, place: Partition, ledger: Ledger) -> None:
        self.place = place
        self.error = ErrorCode.NONE
        self._id = producer_id
        self._writer = writer
        self._ledger = ledger
        self._sent = 0
        self._window: list[_Batch] = []

    def batches(self, wanted: int) -> list[_Batch]:
        """What to send now: everything that is not acknowledged, and new batches up to `wanted` in all."""
        self._window = [batch for batch in self._window if not batch.is_acknowledged]
        while len(self._window) < wanted:
            name, content = self._ledger.send(self._writer, self._sent, self.place, Promise.ONCE)
            self._window.append(_Batch(self._sent, name, content))
            self._sent += 1
        return self._window

    def request(self, batch: _Batch) -> ProduceRequest:
        records = build_batch(
            [record_of(batch.content)],
            producer_id=self._id,
            producer_epoch=0,
            base_sequence=batch.sequence,
        )
        data = PartitionProduceData(index=self.place[1], records=memoryview(records))
        topic = TopicProduceData(name=self.place[0], partition_data=[data])
        return ProduceRequest(acks=ACKS_ALL, timeout_ms=_ACKS_TIMEOUT_MS, topic_data=[topic])

    def answered(self, batch: _Batch, response: ProduceResponse) -> None:
        (answer,) = response.responses[0].partition_responses
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            said = answer.error_message
            self._ledger.broken.append(f"{self.place}: {batch.name} was sent in order, and refused: {said}")
        if code is ErrorCode.NONE:
            batch.is_acknowledged = True
            self._ledger.acknowledge(batch.name, answer.base_offset)
        else:
            self.error = code

    def close(self) -> None:
        self._ledger.closed(self._writer)

    def give_up(self) -> None:
        """Nobody knows what became of these."""
        for batch in self._window:
            if not batch.is_acknowledged:
                self._ledger.fail(batch.name)


class SequencedWriter(Client):
    """Writes to one partition after the other, with a new producer id for each."""

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        partitions: Callable[[], list[Partition]],
        leader_of: Callable[[Partition], Node | None],
    ) -> None:
        self._partitions = partitions
        self._leader_of = leader_of
        self._producers = 0
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        place = dice.choice(self._partitions())
        producer_id = await self._producer_id(process, place)
        self._producers += 1
        producer = _Producer(producer_id, f"{self.name}#{life}.{self._producers}", place, self.ledger)
        rounds = dice.randrange(2, 30)
        while rounds > 0 or producer.batches(0):
            rounds = 0 if self.is_stopping else rounds - 1
            try:
                await self._round(process, producer, is_last=rounds <= 0)
            except (ConnectionError, TimeoutError):
                await asyncio.sleep(0.05)
            if producer.error and not producer.error.retriable:
                producer.give_up()
                return
        producer.close()

    async def _round(self, process: ProcessLoop, producer: _Producer, *, is_last: bool) -> None:
        """Send some bursts on one connection, until something is refused."""
        connection = await self._connected(process, producer.place)
        producer.error = ErrorCode.NONE
        dice = self.world.dice
        try:
            for _ in range(dice.randrange(1, 12)):
                is_over = is_last or self.is_stopping
                batches = producer.batches(0 if is_over else dice.randrange(1, _IN_FLIGHT + 1))
                if not batches or producer.error or connection.is_lost:
                    break
                async with asyncio.timeout(_PATIENCE_S):
                    for batch in batches:
                        answered = partial(producer.answered, batch)
                        connection.ask([(producer.request(batch), _PRODUCE_VERSION, answered)])
                        # The leader may change between two requests, or two of them may come in one read.
                        await asyncio.sleep(dice.choice((0, dice.random() * 0.02)))
                    await connection.answered()
                await asyncio.sleep(dice.random() ** 2 * 0.2)
        finally:
            connection.close()
        await asyncio.sleep(0.05 if producer.error else 0)

    async def _producer_id(self, process: ProcessLoop, place: Partition) -> int:
        connection = await self._connected(process, place)
        told: list[InitProducerIdResponse] = []
        try:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
            async with asyncio.timeout(_PATIENCE_S):
                connection.ask([(request, _PRODUCER_ID_VERSION, told.append)])
                await connection.answered()
        finally:
            connection.close()
        if not told or told[0].error_code:
            raise KafkaError(ErrorCode(told[0].error_code) if told else ErrorCode.NETWORK_EXCEPTION)
        return told[0].producer_id

    async def _connected(self, process: ProcessLoop, place: Partition) -> PipelinedConnection:
        leader = self._leader_of(place)
        if leader is None:
            await asyncio.sleep(0.05)
            raise ConnectionError(f"nobody leads {place}")
        port = (OPEN_PORT if self.access else HOSTS_PORT) + leader.number
        connection = PipelinedConnection(self.ledger.broken.append)
        await process.create_connection(lambda: connection, "127.0.0.1", port)
        return connection
