"""The records that a producer has taken and not yet delivered: batches by partition (PRO-2, PRO-4).

Rules
- A record joins the open batch of its partition. The batch is closed when the next record does not fit. It is
  sent when it is closed, when it has waited for `linger_ms`, or on a flush; a batch that a caller waits for
  lingers only while other batches of its partition are under way (Nagle's rule), so that a caller that sends
  one record at a time does not wait for nothing.
- All batches together take `buffer_memory` at most; a record for which there is no room is refused.
- Records of a topic whose partitions are not known yet wait until they are (`hold`, then `open_topic`).
- A batch is sent again until it is written, until it is refused for good, or until its time
  (`delivery_timeout_ms`) is over. Its records are then done, whatever answer comes afterwards. A batch takes records
  for half of that time only: each record has the other half.
- `take` returns the batches to send now, and sets `due_ms`: the time at which more can be sent.

The machine knows no clock but the one it is given, and sends nothing itself; the ledger hands out finished
batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.client.producer.machine.batch import ProducerBatch, RecordBlock, record_bytes
from ottla.client.producer.machine.batch_answers import Answer, Answers
from ottla.client.producer.machine.delivery_report import (
    BufferFullError,
    DeliveryError,
    Failure,
    ProducerRecord,
)
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.memory_ledger import Ledger
from ottla.client.producer.machine.partition_queue import NEVER, PartitionQueue
from ottla.client.producer.machine.partitioners import STEADY, Partitioner, TopicPartitions
from ottla.client.producer.machine.settings import ProducerSettings
from ottla.client.producer.machine.topic_queues import TopicQueues, UnassignedRecords
from ottla.client.producer.machine.transaction import TransactionalProducer
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.header import HEADER_BYTES
from ottla.records.record import Header

# A batch takes room from the buffer in steps that double, so that not every record has to. This is the first.
ROOM_STEP_BYTES: Final = 4096
_UNASSIGNED: Final = -1
# Keys come again and again, and looking one up costs a tenth of its hash.
KEYS_REMEMBERED: Final = 1 << 16


class Accumulator:
    """The machine. `on_due` is called when a batch can be sent earlier than was known before.

    `clock` returns milliseconds and never goes back; `draw` returns a random number from 0 to 1. With a
    `transaction`, batches are sent only to partitions that it admits.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        partitioner: Partitioner,
        *,
        clock: Callable[[], float],
        draw: Callable[[], float],
        on_due: Callable[[float], None],
        transaction: TransactionalProducer | None = None,
    ) -> None:
        self._settings = settings
        self.transaction = transaction
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._buffer_memory: float = settings.buffer_memory
        self._partitioner = partitioner
        self._is_steady = partitioner in STEADY
        self._clock = clock
        self._draw = draw
        self._on_due = on_due
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self.ledger = Ledger()
        self._answers = Answers(settings, self.ledger, clock, draw)
        self._topics: dict[str, TopicQueues] = {}
        self.topics: dict[str, TopicQueues] = {}  # those that records can be appended to
        self.unassigned: dict[str, UnassignedRecords] = {}
        self.turns = 0  # it moves when something could be sent if others had a turn
        self._home: object = None
        self._hurries = 0
        self.is_hurried = False  # no batch lingers: a caller flushes, or waits for room
        self.identity: ProducerIdentity | None = None
        self.due_ms = NEVER
        self.lacks_leaders = False

    @property
    def lacks_identity(self) -> bool:
        return self._settings.enable_idempotence and self.identity is None

    @property
    def is_idle(self) -> bool:
        """Whether no batch waits or is under way."""
        return not self._active and not self.unassigned

    def belong_to(self, home: object) -> None:
        """The event loop that the producer belongs to, which every batch carries."""
        self._home = home

    def adopt_identity(self, identity: ProducerIdentity) -> None:
        """The producer id and epoch that a broker granted."""
        self.identity = identity

    def restart(self, identity: ProducerIdentity, *, is_refused_unknown: bool) -> None:
        """Write with another identity from now on; no batch is under way.

        `is_refused_unknown`: brokers refuse the second batch of a producer that they do not know.
        """
        self.identity = identity
        heard_ms = self._clock() if is_refused_unknown else -NEVER
        for topic in self._topics.values():
            for queue in topic.queues:
                queue.restart(heard_ms)

    def hurry(self) -> None:
        """Let no batch linger while a caller flushes or waits for room, until as many calls of `unhurry`."""
        self._hurries += 1
        self.is_hurried = True

    def unhurry(self) -> None:
        """A caller that was in a hurry does not wait any more."""
        self._hurries -= 1
        self.is_hurried = self._hurries > 0

    def next_turn(self) -> None:
        """Some time has passed: `drain` may find batches to send."""
        self.turns += 1

    # ---- records in

    def append(
        self,
        topic: TopicQueues,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
        partition: int | None,
    ) -> tuple[ProducerBatch, int]:
        """Take a record; returns its batch, and its index there.

        Raises DeliveryError with the record if it cannot be taken.
        """
        size = record_bytes(value, key, headers)
        partitions, queues = topic.partitions, topic.queues
        try:
            if partition is not None:
                chosen = partition
            elif key is not None and (place := topic.places.get(key)) is not None:
                chosen = place.partition.partition  # hashing a key costs more than all the rest of this
            else:
                chosen = self._partitioner(key, partitions)
            batch = queues[chosen].open if 0 <= chosen < partitions.count else None
        except Exception as error:  # of the application's own partitioner
            record = ProducerRecord(partitions.topic, value, key, partition, tuple(headers), timestamp_ms)
            raise _not_chosen(record, error) from error
        if batch is None or batch.size_bytes + size > batch.limit_bytes:
            record = ProducerRecord(partitions.topic, value, key, partition, tuple(headers), timestamp_ms)
            batch = self._make_room(topic, chosen, record, size)
        if partition is None:
            self._remember(topic, key, batch)
        return batch, batch.append(value, key, headers, timestamp_ms, size)

    def append_block(self, topic: TopicQueues, block: RecordBlock) -> None:
        """Take records that are encoded: a batch of their own, which nothing joins. Raises DeliveryError."""
        first = ProducerRecord(block.topic, None, None, block.partition, (), block.timestamp_ms)
        _check_partition(topic.partitions, block.partition, first)
        self._check_room(first, sum(map(len, block.encoded)))
        queue = topic.queues[block.partition]
        if queue.open is not None:
            self._fill(queue)
        self._begin(queue).fill(block)
        self._fill(queue)

    def hasten(self, batch: ProducerBatch) -> None:
        """A caller waits for this batch: it lingers only while others of its partition are under way."""
        if not batch.is_urgent and batch.partition.partition != _UNASSIGNED:
            batch.is_urgent = True
            if not self._queue(batch.partition).in_flight:
                self._due(self._clock())

    def hold(self, record: ProducerRecord) -> tuple[ProducerBatch, int]:
        """Take a record whose topic is not known yet.

        Its key and value must be bytes, and it needs a timestamp.
        """
        value, key, timestamp_ms = record.value, record.key, record.timestamp_ms
        assert value is None or isinstance(value, bytes)
        assert key is None or isinstance(key, bytes)
        assert timestamp_ms is not None
        size = record_bytes(value, key, record.headers)
        self._check_room(record, size)
        held = self.unassigned.get(record.topic)
        if held is None:
            now_ms = self._clock()
            batch = ProducerBatch(TopicPartition(record.topic, _UNASSIGNED), now_ms, now_ms, self._home)
            self.unassigned[record.topic] = held = UnassignedRecords(batch, [])
            self.ledger.enter(batch)
        held.partitions.append(record.partition)
        self.turns += 1
        self.ledger.hold(held.batch, held.batch.held_bytes + size)
        return held.batch, held.batch.append(value, key, record.headers, timestamp_ms, size)

    def open_topic(self, name: str, partitions_count: int) -> TopicQueues:
        """A topic has `count` partitions. It may have had fewer before, and records may wait for it."""
        known = self._topics.get(name)
        if known is None:
            known = self._topics[name] = TopicQueues(TopicPartitions(name, partitions_count, self._draw))
        self.topics[name] = known
        partitions, queues = known.partitions, known.queues
        if partitions.count != partitions_count or not queues:
            partitions.count, partitions.current = partitions_count, -1
            partitions.available = range(partitions_count)
            known.places.clear()
            added = range(len(queues), partitions_count)
            queues += [PartitionQueue(TopicPartition(name, index), self._batch_size) for index in added]
        if held := self.unassigned.pop(name, None):
            self._assign(known, held)
        return known

    # ---- batches out

    def take(
        self, leader_of: Callable[[TopicPartition], int | None], has_slot: Callable[[int], bool]
    ) -> dict[int, list[ProducerBatch]]:
        """The batches of one request for each broker that has a slot and something to send."""
        now_ms, parcels = self._clock(), dict[int, list[ProducerBatch]]()
        sizes: dict[int, int] = {}
        self.due_ms, self.lacks_leaders = NEVER, False
        for partition, queue in list(self._active.items()):
            self._expire(queue, now_ms)
            if not self._is_sendable(queue, now_ms):
                continue
            node_id = leader_of(partition)
            if node_id is None:
                self.lacks_leaders = True
                continue
            size = sizes.get(node_id, 0) + queue.waiting[0].size_bytes
            if not has_slot(node_id) or (node_id in parcels and size > self._settings.max_request_size):
                continue
            sizes[node_id] = size
            parcels.setdefault(node_id, []).append(self._send(queue))
        return parcels

    def answered(self, batch: ProducerBatch, answer: Answer) -> None:
        """A batch that was taken has its answer."""
        queue = self._queue(batch.partition)
        queue.in_flight.remove(batch)
        if not batch.is_done:  # else its time was over before the answer came
            self._answers.take_in(queue, batch, answer)
        if batch.is_done:
            batch.encoded = None  # who keeps a Delivery need not keep all of its batch's bytes
        self._note(queue)

    def fail_topic(self, name: str, failure: Failure) -> None:
        """Nothing that waits for this topic will be delivered; it is not known any more."""
        self.topics.pop(name, None)
        self._fail_waiting(name, failure)

    def fail_waiting(self, failure: Failure) -> None:
        """Fail all records but those under way."""
        for name in [*self.unassigned, *self._topics]:
            self._fail_waiting(name, failure)

    def _fail_waiting(self, name: str, failure: Failure) -> None:
        if held := self.unassigned.pop(name, None):
            self.ledger.fail(held.batch, failure)
        known = self._topics.get(name)
        for queue in known.queues if known else ():
            queue.close_open()
            while queue.waiting:
                batch = queue.waiting.popleft()
                self.ledger.fail(batch, failure._replace(is_uncertain=batch.may_be_written))
            self._note(queue)

    def fail_all(self, failure: Failure) -> None:
        """Fail all records, also those under way: none can be delivered any more."""
        for name in {*self.unassigned, *self._topics}:
            self.fail_topic(name, failure)
        for batch in list(self.ledger.incomplete):
            if batch.moved is None:
                self.ledger.fail(batch, failure._replace(is_uncertain=True))

    # ---- inside

    def _remember(self, topic: TopicQueues, key: bytes | None, batch: ProducerBatch) -> None:
        """Where the next record of this kind can go without asking again."""
        index = batch.partition.partition
        if key is None:
            if index == topic.partitions.current:
                topic.sticky = batch
        elif self._is_steady:
            if len(topic.places) >= KEYS_REMEMBERED:
                topic.places.clear()
            topic.places[key] = topic.queues[index]

    def _make_room(
        self, topic: TopicQueues, chosen: int, record: ProducerRecord, size_bytes: int
    ) -> ProducerBatch:
        """A batch with room for the record: the open one, if it may grow, else a new one."""
        partitions, queues = topic.partitions, topic.queues
        _check_partition(partitions, chosen, record)
        self._check_room(record, size_bytes)
        batch = queues[chosen].open
        if batch is not None and not self._grow(queues[chosen], batch, size_bytes):
            self._fill(queues[chosen])
            if record.partition is None:  # perhaps there is another one to stick to now
                assert record.key is None or isinstance(record.key, bytes)
                try:
                    chosen = self._partitioner(record.key, partitions)
                except Exception as error:
                    raise _not_chosen(record, error) from error
                _check_partition(partitions, chosen, record)
        batch = queues[chosen].open
        if batch is None or not self._grow(queues[chosen], batch, size_bytes):
            if batch is not None:
                self._fill(queues[chosen])
            batch = self._begin(queues[chosen])
            self._grow(queues[chosen], batch, size_bytes)
        return batch

    def _grow(self, queue: PartitionQueue, batch: ProducerBatch, size_bytes: int) -> bool:
        """Let the batch take a record of this size, and some more; False if it would become too large."""
        needed = batch.size_bytes + size_bytes
        if needed > queue.most_bytes and len(batch):
            return False
        if needed > batch.limit_bytes:
            left = self._buffer_memory - self.ledger.buffered_bytes + batch.held_bytes
            step = max(ROOM_STEP_BYTES, batch.size_bytes)
            batch.limit_bytes = int(max(needed, min(needed + step, queue.most_bytes, left)))
            self.ledger.hold(batch, batch.limit_bytes)
        return True

    def _check_room(self, record: ProducerRecord, size_bytes: int) -> None:
        most, buffered_bytes = self._settings.max_request_size, self.ledger.buffered_bytes
        if size_bytes > most:
            message = f"a record for {record.topic} takes {size_bytes} bytes: max_request_size allows {most}"
            raise DeliveryError(ErrorCode.MESSAGE_TOO_LARGE, message, (record,))
        if buffered_bytes + HEADER_BYTES + size_bytes > self._buffer_memory:
            raise BufferFullError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"{buffered_bytes} bytes wait to be delivered and buffer_memory is {self._settings.buffer_memory}: "
                "await producer.drain() between records, or use await producer.send()",
                (record,),
            )

    def _begin(self, queue: PartitionQueue) -> ProducerBatch:
        now_ms = self._clock()
        deadline_ms = now_ms + self._settings.delivery_timeout_ms
        batch = ProducerBatch(queue.partition, now_ms, deadline_ms, self._home)
        queue.begin(batch)
        self.ledger.enter(batch)
        self._active[queue.partition] = queue
        due_ms = now_ms if self.is_hurried else now_ms + self._settings.linger_ms
        self._due(due_ms)
        return batch

    def _close(self, queue: PartitionQueue) -> None:
        """The batch takes no more records."""
        if queue.open is not None:
            self.ledger.hold(queue.open, queue.open.size_bytes)
        queue.close_open()
        self._partitions(queue).current = -1
        self._note(queue)

    def _fill(self, queue: PartitionQueue) -> None:
        """The batch is full, and can be sent."""
        self._close(queue)
        self.turns += 1
        self._due(self._clock())

    def _due(self, due_ms: float) -> None:
        if due_ms < self.due_ms:
            self.due_ms = due_ms
            self._on_due(due_ms)

    def _assign(self, topic: TopicQueues, held: UnassignedRecords) -> None:
        """The records that waited for their topic get their partitions; those that cannot, fail."""
        batch, places = held.batch, list[tuple[ProducerBatch, int]]()
        failures: list[tuple[ProducerBatch, Failure]] = []
        self._buffer_memory = NEVER  # they had room before
        for index, partition in enumerate(held.partitions):
            value, key, headers, timestamp_ms = batch.fields(index)
            try:
                places.append(self.append(topic, value, key, headers, timestamp_ms, partition))
            except DeliveryError as error:
                refused = batch.part(index)
                refused.append(value, key, headers, timestamp_ms, 0)
                self.ledger.enter(refused)
                places.append((refused, 0))
                failures.append((refused, Failure(error.code, error.message)))
        self._buffer_memory = self._settings.buffer_memory
        self.ledger.move(batch, places)
        for refused, failure in failures:
            self.ledger.fail(refused, failure)

    def _is_sendable(self, queue: PartitionQueue, now_ms: float) -> bool:
        if not queue.waiting:
            return False
        self.due_ms = min(self.due_ms, queue.waiting[0].deadline_ms)
        if self.transaction is not None and (
            # The next epoch may be that of another producer, whose transaction the batch would become a part of.
            queue.has_gap or not self.transaction.admits(queue.partition)
        ):
            return False
        is_idempotent = self._settings.enable_idempotence
        if is_idempotent and not queue.settle(self.identity):
            if self.identity is not None and queue.sequence.has_spent(self.identity):
                self.identity = None  # another one is needed
            return False
        if not queue.may_send(is_idempotent=is_idempotent, is_acknowledged=self._settings.acks != 0):
            return False
        due_ms = queue.due_ms(0 if self.is_hurried else self._settings.linger_ms)
        if due_ms > now_ms:
            self.due_ms = min(self.due_ms, due_ms)
        return due_ms <= now_ms

    def _send(self, queue: PartitionQueue) -> ProducerBatch:
        settings = self._settings
        if queue.waiting[0] is queue.open:
            self._partitions(queue).current = -1
        batch = queue.take(self._clock())
        # To the end of the line: the first queue of a request gets most of its room.
        self._active[queue.partition] = self._active.pop(queue.partition)
        self._note(queue)
        if settings.enable_idempotence:
            queue.sequence.assign(batch)
        if batch.encoded is None:
            batch.encode(
                settings.compression,
                settings.compression_level,
                settings.compression_threshold,
                is_transactional=settings.is_transactional,
            )
        batch.attempts += 1
        return batch

    def _expire(self, queue: PartitionQueue, now_ms: float) -> None:
        """Fail the records whose time is over. Batches under way stay until they are answered."""
        while queue.waiting and queue.waiting[0].deadline_ms <= now_ms:
            if queue.waiting[0] is queue.open:
                queue.close_open()
            batch = queue.waiting.popleft()
            self.ledger.fail(batch, self._too_late(batch))
        if queue.open is not None:
            closes_ms = queue.open.deadline_ms - self._settings.delivery_timeout_ms / 2
            if closes_ms > now_ms:
                self.due_ms = min(self.due_ms, closes_ms)
            else:
                self._close(queue)
        for batch in queue.in_flight:
            if batch.deadline_ms > now_ms:
                self.due_ms = min(self.due_ms, batch.deadline_ms)
            elif not batch.is_done:
                self.ledger.fail(batch, self._too_late(batch)._replace(is_uncertain=True))
        self._note(queue)

    def _too_late(self, batch: ProducerBatch) -> Failure:
        timeout_ms, attempts = self._settings.delivery_timeout_ms, batch.attempts
        tried = f"sent {attempts} times" if attempts else "not sent: no leader could be reached"
        limit = f"{timeout_ms} ms (delivery_timeout_ms)"
        message = f"{batch.partition} did not take the record within {limit}; it was {tried}"
        return Failure(ErrorCode.REQUEST_TIMED_OUT, message, batch.may_be_written)

    def _queue(self, partition: TopicPartition) -> PartitionQueue:
        return self._topics[partition.topic].queues[partition.partition]

    def _partitions(self, queue: PartitionQueue) -> TopicPartitions:
        return self._topics[queue.partition.topic].partitions

    def _note(self, queue: PartitionQueue) -> None:
        """Note whether a queue has something to send, and its length, which partitioners see."""
        partition, queued = queue.partition, self._partitions(queue).queued
        if queue.is_idle:
            self._active.pop(partition, None)
        else:
            self._active.setdefault(partition, queue)
        length = len(queue.waiting) - (queue.open is not None)
        if length > 0:
            queued[partition.partition] = length
        else:
            queued.pop(partition.partition, None)


def _check_partition(partitions: TopicPartitions, chosen: int, record: ProducerRecord) -> None:
    """The record's sender, or the partitioner, must name a partition that the topic has."""
    if not isinstance(chosen, int):
        raise _not_chosen(record, TypeError(f"it returned {chosen!r}, not the number of a partition"))
    if not 0 <= chosen < partitions.count:
        message = f'there is no partition {chosen} of "{partitions.topic}": it has {partitions.count}'
        raise DeliveryError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message, (record,))


def _not_chosen(record: ProducerRecord, error: Exception) -> DeliveryError:
    message = f"the partitioner failed on a record for {record.topic}: {type(error).__name__}: {error}"
    return DeliveryError(ErrorCode.INVALID_RECORD, message, (record,))
