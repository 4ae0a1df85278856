"""Transactional writers, processors and readers with Ottla's own clients."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from pathlib import Path
from typing import Any, Final

from tests.chaos.transactions.client import (
    BETWEEN_TRANSACTIONS_S,
    PROCESSOR_ABORTS,
    SOURCE,
    TARGET,
    TRANSACTION_TIMEOUT_MS,
    WRITER_ABORTS,
    AbandonedError,
    ChangedMindError,
    Places,
    Readings,
    Records,
    SharedBook,
    TransactionalClient,
)
from tests.simulation.stories.ledger import Partition, name_of
from tests.simulation.stories.transactions.book import Transaction

import ottla

_POLL_MS: Final = 200
_QUICK: Final[dict[str, Any]] = {"request_timeout_ms": 10_000}


class OwnTransactions(TransactionalClient):
    """Has a transactional producer."""

    def producer(self) -> ottla.Producer:
        return ottla.Producer(
            self.places.bootstrap,
            client_id=self.name,
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=2,
            **_QUICK,
        )

    def live(self) -> None:
        try:
            asyncio.run(self.live_in_loop())
        except (ottla.KafkaError, AbandonedError) as error:
            self.note(error)
        except ConnectionError as error:
            # A client that is opened while all brokers are down says so at once, and is opened again.
            self.note(error)
            self.worker.stopping.wait(BETWEEN_TRANSACTIONS_S)

    @abstractmethod
    async def live_in_loop(self) -> None:
        """One life of the client."""

    def send(
        self, producer: ottla.Producer, transaction: Transaction, place: Partition, more: str = ""
    ) -> None:
        name = self.book.send(transaction, place)
        producer.send_soon(place[0], f"{name}~{more}".encode(), partition=place[1])


class OwnWriter(OwnTransactions):
    """Writes transactions to the source topic. A producer that is left behind is fenced by the next one."""

    async def live_in_loop(self) -> None:
        async with self.producer() as producer:
            while self.goes_on:
                with self.transaction() as transaction:
                    await self._transact(producer, transaction)
                await asyncio.sleep(BETWEEN_TRANSACTIONS_S)

    async def _transact(self, producer: ottla.Producer, transaction: Transaction) -> None:
        try:
            async with producer.transaction():
                for place in self.records_to_send():
                    self.send(producer, transaction, place)
                await _left_open(self, producer, WRITER_ABORTS)
                transaction.may_commit = True
        except ottla.TransactionAbortedError as error:
            self.note(error)
            raise ChangedMindError from error


class OwnProcessor(OwnTransactions):
    """A member of the group: reads, writes and commits its offsets in one transaction."""

    def __init__(self, name: str, places: Places, book: SharedBook, directory: Path, *, group: str) -> None:
        super().__init__(name, places, book, directory)
        self._group = group

    async def live_in_loop(self) -> None:
        async with (
            ottla.Consumer(
                self.places.bootstrap,
                client_id=self.name,
                group_id=self._group,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=10_000,
                heartbeat_interval_ms=500,
                **_QUICK,
            ) as consumer,
            self.producer() as producer,
        ):
            consumer.subscribe([SOURCE])
            while self.goes_on:
                records = await consumer.poll(max_records=self.dice.randrange(1, 40), timeout_ms=_POLL_MS)
                if records and not await self._process(consumer, producer, records):
                    return  # its positions are past the offsets that count

    async def _process(self, consumer: ottla.Consumer, producer: ottla.Producer, records: list[Any]) -> bool:
        found = [Records((each.topic, each.partition), each.offset, each.value or b"") for each in records]
        with self.transaction() as transaction:
            try:
                async with producer.transaction():
                    for place, origin in self.outputs_of(found):
                        self.send(producer, transaction, place, origin)
                    await producer.send_offsets(consumer)
                    await _left_open(self, producer, PROCESSOR_ABORTS)
                    transaction.may_commit = True
            except ottla.TransactionAbortedError as error:
                self.note(error)
                raise ChangedMindError from error
            return True
        return False


async def _left_open(client: TransactionalClient, producer: ottla.Producer, aborted_share: float) -> None:
    """Abort at times; at times let another producer take over the id, as after a crash of the program."""
    try:
        client.change_mind(aborted_share)
    except AbandonedError:
        await producer.flush()
        async with ottla.Producer(
            client.places.bootstrap, transactional_id=client.name, **_QUICK
        ):  # fences the one before
            raise


class OwnReader(TransactionalClient):
    """Reads both topics from their beginning."""

    def __init__(
        self, name: str, places: Places, book: SharedBook, directory: Path, *, committed: bool
    ) -> None:
        super().__init__(name, places, book, directory)
        self._is_committed = committed
        self._places = [*places.of(SOURCE), *places.of(TARGET)]
        self.readings = Readings(self._places, book.runs if committed else book.uncommitted_runs)

    def live(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        async with ottla.Consumer(
            self.places.bootstrap,
            client_id=self.name,
            auto_offset_reset="none",
            isolation_level="read_committed" if self._is_committed else "read_uncommitted",
            **_QUICK,
        ) as consumer:
            partitions = [ottla.TopicPartition(*place) for place in self._places]
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
            while self.goes_on:
                for record in await consumer.poll(max_records=500, timeout_ms=_POLL_MS):
                    place = (record.topic, record.partition)
                    self.readings.take(
                        Records(place, record.offset, record.value or b""), name_of(record.value)
                    )
