"""A broker and its network as a model, for tests that drive the producer's machine through everything that
can go wrong.

The broker keeps what Kafka keeps of a producer on a partition: its epoch, and the last five batches. Requests
reach it over connections: what was sent over a connection that is lost may still arrive, in order, or never.
One thing is assumed, as every Kafka client assumes it: what a dead connection has left behind is dealt with
before the broker refuses a batch for good (without that, a batch that is numbered anew could meet its own
ghost).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.batch_answers import Answer
from ottla.errors import ErrorCode
from ottla.records.batch import BatchView
from ottla.records.header import BatchHeader

REFUSALS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE)
UNCLEAR = (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)


@dataclass
class PartitionModel:
    """A log, and what is known of the one producer that writes to it."""

    records: list[bytes] = field(default_factory=list)
    producer_id: int = -1
    epoch: int = -1
    last: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    most_records: int = 1_000  # in a batch; more is MESSAGE_TOO_LARGE
    bad: frozenset[bytes] = frozenset()

    def write(self, data: bytes) -> Answer:
        """Kafka's treatment of a batch."""
        view = BatchView(data)
        assert view.crc_is_valid()
        header, values = view.header, [record.value or b"" for record in view.records()]
        if len(values) > self.most_records:
            return Answer(ErrorCode.MESSAGE_TOO_LARGE)
        if bad := tuple((i, "bad") for i, value in enumerate(values) if value in self.bad):
            return Answer(ErrorCode.INVALID_RECORD, bad_records=bad)
        if header.producer_id >= 0:
            known = self._known(header)
            if known is not None:
                return known
            first = header.base_sequence
            self.last.append((first, first + len(values) - 1, len(self.records)))
        base_offset = len(self.records)
        self.records += values
        return Answer(base_offset=base_offset)

    def forget(self) -> None:
        """The broker loses what it knew of the producer, as after `producer.id.expiration.ms`."""
        self.producer_id = -1
        self.last.clear()

    def _known(self, header: BatchHeader) -> Answer | None:
        first, last = header.base_sequence, header.base_sequence + header.records_count - 1
        if header.producer_id != self.producer_id:
            self.producer_id, self.epoch = header.producer_id, header.producer_epoch
            self.last.clear()
            return None  # an unknown producer is taken with any sequence
        if header.producer_epoch < self.epoch:
            return Answer(ErrorCode.INVALID_PRODUCER_EPOCH)
        if header.producer_epoch > self.epoch:
            if first != 0:
                return Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            self.epoch = header.producer_epoch
            self.last.clear()
            return None
        for known_first, known_last, base_offset in self.last:
            if (first, last) == (known_first, known_last):
                return Answer(base_offset=base_offset)
        if self.last and first != self.last[-1][1] + 1:
            return Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None


@dataclass
class Sent:
    """A request on its way: one batch, as bytes."""

    batch: ProducerBatch
    data: bytes


class Network:
    """One connection at a time to a broker with several partitions; `step` lets one thing happen to it."""

    def __init__(self, random: Random, partitions: int) -> None:
        self._random = random
        self.logs = [PartitionModel() for _ in range(partitions)]
        self._requests: deque[Sent] = deque()
        self._ghosts: deque[Sent] = deque()
        self._answers: deque[tuple[ProducerBatch, Answer]] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._requests and not self._answers

    def send(self, batches: list[ProducerBatch]) -> None:
        self._requests += [Sent(batch, bytes(batch.encoded or b"")) for batch in batches]

    def arrive(self, *, faulty: bool) -> None:
        """The broker handles the next request."""
        if not self._requests:
            return
        request = self._requests.popleft()
        log = self.logs[request.batch.partition.partition]
        chance = self._random.random() if faulty else 1.0
        if chance < 0.1:
            answer = Answer(self._random.choice(REFUSALS))
        else:
            answer = log.write(request.data)
            if not answer.error.retriable and answer.error != ErrorCode.NONE:
                self.exorcise()
            if answer.error == ErrorCode.NONE and chance < 0.2:
                answer = Answer(self._random.choice(UNCLEAR))
        self._answers.append((request.batch, answer))

    def answer(self) -> list[tuple[ProducerBatch, Answer]]:
        """The next answer reaches the producer."""
        return [self._answers.popleft()] if self._answers else []

    def lose(self) -> list[tuple[ProducerBatch, Answer]]:
        """The connection is lost: no answer comes, and some requests are still to arrive."""
        unanswered = [batch for batch, _ in self._answers] + [request.batch for request in self._requests]
        survivors = list(self._requests)[: self._random.randrange(len(self._requests) + 1)]
        self._ghosts += survivors
        self._requests.clear()
        self._answers.clear()
        return [(batch, Answer(ErrorCode.NETWORK_EXCEPTION)) for batch in unanswered]

    def exorcise(self) -> None:
        """Requests of dead connections are gone after a while."""
        self._ghosts.clear()

    def haunt(self) -> None:
        """A request of a dead connection arrives."""
        if self._ghosts:
            ghost = self._ghosts.popleft()
            self.logs[ghost.batch.partition.partition].write(ghost.data)
