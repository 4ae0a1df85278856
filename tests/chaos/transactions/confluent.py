"""Transactional writers, processors and readers around librdkafka, as its documentation tells to write them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
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
from tests.chaos.workload import COMMON
from tests.simulation.stories.ledger import Partition, name_of
from tests.simulation.stories.transactions.book import Transaction

_CALL_S: Final = 60.0
_OFFSETS_S: Final = (
    30.0  # longer than the time until a coordinator is replaced, and than the transaction's timeout
)
_POLL_S: Final = 0.2
_AT_ONCE: Final = 40


class _RefusedError(Exception):
    """librdkafka asked for the transaction to be aborted."""


class HungError(AbandonedError):
    """A call of librdkafka does not return: the application is restarted, and its transaction stays open."""


class ConfluentTransactions(TransactionalClient):
    """Has a transactional producer."""

    def make_producer(self) -> Any:
        producer = Producer(
            {
                **COMMON,
                "bootstrap.servers": self.places.bootstrap,
                "client.id": self.name,
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 2,
            }
        )
        self.repeated(producer.init_transactions, _CALL_S)
        return producer

    def repeated(self, call: Any, *arguments: Any) -> None:
        """Call until it is done; raises for what cannot be repeated."""
        while True:
            try:
                call(*arguments)
                return
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.txn_requires_abort():
                    raise _RefusedError(str(error)) from failure
                if error.fatal() or not error.retriable():
                    raise

    def send_offsets(self, producer: Any, offsets: list[TopicPartition], metadata: Any) -> None:
        """Within a thread of its own: with a group coordinator that is gone, librdkafka 2.16 may wait beyond every
        timeout until a connection to any broker changes its state (librdkafka#5456, #5511).
        """
        outcome: Future[None] = Future()

        def call() -> None:
            try:
                self.repeated(producer.send_offsets_to_transaction, offsets, metadata, _CALL_S)
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        Thread(target=call, name=f"{self.name}-offsets", daemon=True).start()
        try:
            outcome.result(_OFFSETS_S)
        except TimeoutError:
            raise HungError("send_offsets_to_transaction does not return") from None

    def send(self, producer: Any, transaction: Transaction, place: Partition, more: str = "") -> None:
        name = self.book.send(transaction, place)
        producer.produce(place[0], f"{name}~{more}".encode(), partition=place[1])

    def commit(self, producer: Any, transaction: Transaction) -> None:
        """Commit, or raise ChangedMindError after an abort that was refused by the cluster."""
        transaction.may_commit = True
        self.repeated(producer.commit_transaction, _CALL_S)

    def ended(self, producer: Any) -> ChangedMindError:
        self.repeated(producer.abort_transaction, _CALL_S)
        return ChangedMindError()


class ConfluentWriter(ConfluentTransactions):
    """Writes transactions to the source topic."""

    def live(self) -> None:
        try:
            producer = self.make_producer()
            while self.goes_on:
                self._transact(producer)
                time.sleep(BETWEEN_TRANSACTIONS_S)
        except (KafkaException, _RefusedError, AbandonedError) as error:
            self.note(error)

    def _transact(self, producer: Any) -> None:
        with self.transaction() as transaction:
            producer.begin_transaction()
            try:
                for place in self.records_to_send():
                    self.send(producer, transaction, place)
                producer.poll(0)
                self.change_mind(WRITER_ABORTS)
                self.commit(producer, transaction)
            except (ChangedMindError, _RefusedError):
                raise self.ended(producer) from None


class ConfluentProcessor(ConfluentTransactions):
    """A member of the group: reads, writes and commits its offsets in one transaction."""

    def __init__(self, name: str, places: Places, book: SharedBook, directory: Path, *, group: str) -> None:
        super().__init__(name, places, book, directory)
        self._group = group

    def live(self) -> None:
        consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": self.places.bootstrap,
                "client.id": self.name,
                "group.id": self._group,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            producer = self.make_producer()
            consumer.subscribe([SOURCE])
            while self.goes_on:
                found = _records(consumer.consume(self.dice.randrange(1, _AT_ONCE), _POLL_S))
                if found and not self._process(consumer, producer, found):
                    return  # its positions are past the offsets that count
        except (KafkaException, _RefusedError, AbandonedError) as error:
            self.note(error)
        finally:
            consumer.close()

    def _process(self, consumer: Any, producer: Any, found: list[Records]) -> bool:
        with self.transaction() as transaction:
            producer.begin_transaction()
            try:
                for place, origin in self.outputs_of(found):
                    self.send(producer, transaction, place, origin)
                ends: dict[int, int] = {}
                for record in found:
                    ends[record.place[1]] = record.offset + 1
                offsets = [TopicPartition(SOURCE, partition, end) for partition, end in ends.items()]
                metadata = consumer.consumer_group_metadata()
                self.send_offsets(producer, offsets, metadata)
                self.change_mind(PROCESSOR_ABORTS)
                self.commit(producer, transaction)
                return True
            except (ChangedMindError, _RefusedError):
                raise self.ended(producer) from None
        return False


class ConfluentReader(TransactionalClient):
    """Reads both topics from their beginning."""

    def __init__(
        self, name: str, places: Places, book: SharedBook, directory: Path, *, committed: bool
    ) -> None:
        super().__init__(name, places, book, directory)
        self._level = "read_committed" if committed else "read_uncommitted"
        self._places = [*places.of(SOURCE), *places.of(TARGET)]
        self.readings = Readings(self._places, book.runs if committed else book.uncommitted_runs)

    def live(self) -> None:
        consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": self.places.bootstrap,
                "client.id": self.name,
                "group.id": f"{self.name}-has-no-group",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": self._level,
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition(*place, 0) for place in self._places])
        while self.goes_on:
            for record in _records(consumer.consume(200, _POLL_S)):
                self.readings.take(record, name_of(record.value))
        consumer.close()


def _records(messages: Iterable[Message]) -> list[Records]:
    found = []
    for message in messages:
        error = message.error()
        if error is None:
            place = (message.topic() or "", message.partition() or 0)
            found.append(Records(place, message.offset() or 0, message.value() or b""))
        elif error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise AssertionError(f"a reader cannot go on: {error}")
    return found
