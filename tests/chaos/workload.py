"""Clients that work while the cluster is broken: idempotent producers, a reader of everything, members of a
group.

Each runs on a thread of its own around librdkafka and writes its journal (`history.py`). None of them knows
of the faults: they retry as their users' programs would, and what they cannot get over is a failure of the
test.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.chaos.history import UNKNOWN_OFFSET, Journal, value_of

GROUP: Final = "chaos-group"
# Of the clients in `transactions`, which are named so.
TRANSACTIONAL_IDS: Final = (
    "confluent-writer",
    "own-writer",
    "confluent-processor",
    "own-processor",
    "java-writer",
)
# Longer than any fault: what a producer gives up must be given up because something is wrong.
DELIVERY_TIMEOUT_MS: Final = 90_000
_POLL_S: Final = 0.1
_COMMIT_EVERY_S: Final = 0.5
_ASK_S: Final = 30.0
# Clients that find their way back quickly make more requests in bad moments.
COMMON: Final = {
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 5_000,
    "log_level": 0,
}


class Client(Protocol):
    """The operations that a run needs of a client in any language."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop_producing(self) -> None:
        """Producers: send no more, and return when everything is answered."""

    @abstractmethod
    def finish(self, ends: Mapping[int, int], deadline_s: float) -> None:
        """Readers: go on to these ends, then stop. Raises AssertionError for what went wrong."""

    @abstractmethod
    def abandon(self) -> None:
        """Stop without waiting: the run has failed, and must end."""


class Worker:
    """A thread that does a client's work until it is stopped, and the journal of that client."""

    def __init__(self, name: str, directory: Path, work: Callable[[], None]) -> None:
        self.name = name
        self.journal = Journal(directory / f"{name}.journal")
        self.stopping = threading.Event()
        self.failure: str | None = None
        self._work = work
        # A client that does not come back from a call must not keep a run that failed from its end.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, deadline_s: float) -> None:
        """Tell it to stop and wait for that; AssertionError for what went wrong."""
        self.stopping.set()
        self._thread.join(deadline_s)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        assert self.failure is None, f"{self.name}: {self.failure}"

    @property
    def goes_on(self) -> bool:
        return self.failure is None and not self.stopping.is_set()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = repr(error)


class ConfluentProducer:
    """Sends `rate` records per second, to each partition in turn, with acks=all and idempotence."""

    def __init__(
        self, name: str, reach: Mapping[str, Any], topic: str, partitions: int, rate: float, directory: Path
    ) -> None:
        self._worker = Worker(name, directory, self._work)
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._producer = Producer(
            {
                **COMMON,
                **reach,
                "client.id": name,
                "acks": "all",
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 5,
                "linger.ms": 5,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "request.timeout.ms": 10_000,
                "error_cb": self._on_error,
            }
        )

    def _work(self) -> None:
        number, begun = 0, time.monotonic()
        while self._worker.goes_on:
            due = int((time.monotonic() - begun) * self._rate)
            while number < due and self._send(number % self._partitions, number // self._partitions):
                number += 1
            self._producer.poll(0.005)
        left = self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)
        if left:
            self._worker.failure = f"{left} records were never answered"

    def start(self) -> None:
        self._worker.start()

    def stop_producing(self) -> None:
        self._worker.stop(DELIVERY_TIMEOUT_MS / 1000 + 30)

    def finish(self, ends: Mapping[int, int], deadline_s: float) -> None:
        self._worker.stop(deadline_s)
        self._worker.journal.close()

    def abandon(self) -> None:
        self._worker.stopping.set()

    def log_in_as(self, user: str, password: str) -> None:
        """Connections that are made from now on log in with this password."""
        self._producer.set_sasl_credentials(user, password)

    def _send(self, partition: int, number: int) -> bool:
        """False if there is no room: what waits must be answered first."""
        value = value_of(self._worker.name, partition, number)
        self._worker.journal.write("sent", partition, value)
        try:
            self._producer.produce(
                self._topic, value.encode(), partition=partition, on_delivery=self._on_delivery
            )
        except BufferError:
            return False  # it will be sent, and written down, again; the last time counts
        return True

    def _on_delivery(self, error: Any, message: Message) -> None:
        value = (message.value() or b"").decode()
        if error is None:
            offset = message.offset()
            place = UNKNOWN_OFFSET if offset is None else offset
            self._worker.journal.write("acked", message.partition(), place, value)
        else:
            self._worker.journal.write("failed", message.partition(), value, error)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._worker.failure = f"the producer cannot go on: {error}"


class ConfluentReader:
    """Reads all partitions from their beginning, as far as they go."""

    def __init__(
        self, name: str, reach: Mapping[str, Any], topic: str, partitions: int, directory: Path
    ) -> None:
        self._worker = Worker(name, directory, self._work)
        self._topic, self._partitions = topic, partitions
        self._positions = dict.fromkeys(range(partitions), 0)
        self._consumer = Consumer(
            {
                **COMMON,
                **reach,
                "client.id": name,
                "group.id": f"{name}-has-no-group",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
            }
        )

    def _work(self) -> None:
        for partition in range(self._partitions):
            self._worker.journal.write("begun", partition, 0)
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in range(self._partitions)])
        while self._worker.goes_on:
            message = self._consumer.poll(_POLL_S)
            if message is not None:
                self._take(message)
        self._consumer.close()

    def start(self) -> None:
        self._worker.start()

    def stop_producing(self) -> None:
        """It produces nothing."""

    def finish(self, ends: Mapping[int, int], deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while self._worker.goes_on and time.monotonic() < deadline and not self._has_read(ends):
            time.sleep(0.02)
        self._worker.stop(deadline_s)
        self._worker.journal.close()
        name, positions = self._worker.name, self._positions
        assert self._has_read(ends), f"{name} is at {positions} and should be at {dict(ends)}"

    def log_in_as(self, user: str, password: str) -> None:
        """Connections that are made from now on log in with this password."""
        self._consumer.set_sasl_credentials(user, password)

    def abandon(self) -> None:
        self._worker.stopping.set()

    def _has_read(self, ends: Mapping[int, int]) -> bool:
        return all(self._positions[partition] >= end for partition, end in ends.items())

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            value = (message.value() or b"").decode()
            self._worker.journal.write("read", message.partition(), message.offset(), value)
            self._positions[message.partition()] = message.offset() + 1
        elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
            self._worker.failure = f"the reader cannot go on: {error}"


class ConfluentMember:
    """A member of the group: reads what it is given, commits as it goes."""

    def __init__(self, name: str, reach: Mapping[str, Any], topic: str, directory: Path) -> None:
        self._worker = Worker(name, directory, self._work)
        self._topic = topic
        self._read: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **COMMON,
                **reach,
                "client.id": name,
                "group.id": GROUP,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )

    def _work(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        committed = time.monotonic()
        while self._worker.goes_on:
            message = self._consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                value = (message.value() or b"").decode()
                self._worker.journal.write("read", message.partition(), message.offset(), value)
                self._read[message.partition()] = message.offset() + 1
            if time.monotonic() > committed + _COMMIT_EVERY_S:
                self._commit()
                committed = time.monotonic()
        self._commit()
        self._consumer.close()

    def start(self) -> None:
        self._worker.start()

    def stop_producing(self) -> None:
        """It produces nothing."""

    def finish(self, ends: Mapping[int, int], deadline_s: float) -> None:
        self._worker.stop(deadline_s)
        self._worker.journal.close()

    def log_in_as(self, user: str, password: str) -> None:
        """Connections that are made from now on log in with this password."""
        self._consumer.set_sasl_credentials(user, password)

    def abandon(self) -> None:
        self._worker.stopping.set()

    def _commit(self) -> None:
        offsets = [TopicPartition(self._topic, each, end) for each, end in self._read.items()]
        if not offsets:
            return
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # the coordinator is away, or somebody else has the partition: what is not committed is read again
        for each in done or ():
            if each.error is None:
                self._worker.journal.write("committed", each.partition, each.offset)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        while self._worker.goes_on:
            asked = time.monotonic_ns()
            try:
                found = consumer.committed(partitions, timeout=_ASK_S)
                break
            except KafkaException:
                continue
        else:
            return
        for each in found:
            offset = max(each.offset, -1)
            self._worker.journal.write("resumed", each.partition, offset, asked)
            self._worker.journal.write("begun", each.partition, max(offset, 0))
        consumer.assign([TopicPartition(self._topic, each.partition, max(each.offset, 0)) for each in found])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        for each in partitions:
            self._read.pop(each.partition, None)
        consumer.unassign()
