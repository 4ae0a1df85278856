"""A batch of one partition's records, from the first record to the answer.

A batch is open while records may join, then closed, then encoded and sent, perhaps several times with the
same bytes. The outcome of a record is computed from the batch by the record's index, so no object is made for
a record before it is asked for.

A program that has encoded many records already (of a data frame, say) hands them over as a RecordBlock, which
becomes a batch of its own.

A batch that cannot be sent as it is (too large for its topic, or its records have no partition yet) moves its
records to other batches: `moved` then has the new place of each, and the batch is done when all of those are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ottla.client.producer.machine.delivery_report import (
    DeliveryError,
    DeliveryReport,
    Failure,
    ProducerRecord,
)
from ottla.model import NO_SEQUENCE, TopicPartition
from ottla.records.builder import Span, seal, write_header
from ottla.records.columns import Columns, encode_columns
from ottla.records.compression import Compression
from ottla.records.header import HEADER_BYTES, read_header
from ottla.records.record import Header

# The most that a record takes beside key, value and headers: lengths, deltas, attributes (as Java counts).
RECORD_OVERHEAD_BYTES: Final = 21
_SEQUENCE_MASK: Final = (1 << 31) - 1

OnDelivery: TypeAlias = Callable[[DeliveryReport | DeliveryError], None]


class Waiter(Protocol):
    """A caller that waits for a batch: an asyncio future, which this module need not know."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...


Fields: TypeAlias = tuple[bytes | None, bytes | None, tuple[Header, ...]]


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Records of one partition, encoded as in a batch: offset deltas from 0 on, all with the same timestamp.

    `encoded` are parts to be joined. `fields` returns the value, key and headers of the record with an index;
    it is called only where records have to be told apart: for a block that a broker finds too large, or
    refuses.
    """

    topic: str
    partition: int
    records_count: int
    timestamp_ms: int
    encoded: Sequence[bytes | memoryview]
    fields: Callable[[int], Fields]


class ProducerBatch:
    """Records of one partition on their way. The times are those of a clock that never goes back.

    `home` is the event loop of the producer: tasks of other loops cannot wait for the batch.

    A record may join while the batch stays within `limit_bytes`; a closed batch has no room at all.
    """

    __slots__ = (
        "_children_left",
        "_count",
        "_parents",
        "attempts",
        "base_offset",
        "block",
        "callbacks",
        "created_ms",
        "deadline_ms",
        "encoded",
        "failure",
        "failures",
        "first_sequence",
        "headers",
        "heard",
        "held_bytes",
        "home",
        "is_closed",
        "is_done",
        "is_urgent",
        "keys",
        "last_stamp",
        "limit_bytes",
        "log_append_time_ms",
        "may_be_written",
        "moved",
        "not_before_ms",
        "order",
        "partition",
        "place",
        "producer_epoch",
        "producer_id",
        "size_bytes",
        "stamps",
        "values",
        "waiters",
    )

    def __init__(
        self, partition: TopicPartition, created_ms: float, deadline_ms: float, home: object = None
    ) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.deadline_ms = deadline_ms
        self.home = home
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.headers: dict[int, tuple[Header, ...]] = {}
        self.stamps: list[tuple[int, int]] = []
        self.last_stamp: int | None = None
        self.block: RecordBlock | None = None  # instead of values, keys and headers
        self.size_bytes = self.limit_bytes = HEADER_BYTES
        self.held_bytes = 0  # its share of the buffer
        self.order: tuple[int, ...] = ()  # among the batches of its partition
        self.is_closed = False
        self.is_urgent = False  # a caller waits for one of its records
        # on the way
        self.encoded: bytearray | None = None
        self.producer_id = self.producer_epoch = -1
        self.first_sequence = NO_SEQUENCE
        self.place = 0  # among the batches that got a sequence
        self.attempts = 0  # how often it was sent
        self.failures = 0  # how often that, or reaching the broker, failed
        self.not_before_ms = 0.0
        self.may_be_written = False
        # the end
        self.is_done = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.failure: Failure | None = None
        self.waiters: list[Waiter] = []
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.heard = 0  # how many of its records are awaited, or have a callback
        self.moved: list[tuple[ProducerBatch, int]] | None = None
        self._parents: list[ProducerBatch] = []
        self._children_left = 0
        self._count = -1  # when the records themselves are not kept any more

    def __len__(self) -> int:
        return len(self.values) if self._count < 0 else self._count

    @property
    def last_sequence(self) -> int:
        return (self.first_sequence + len(self) - 1) & _SEQUENCE_MASK

    # ---- listeners

    def call_back(self, index: int, on_delivery: OnDelivery) -> None:
        """Call `on_delivery` with the outcome of one record."""
        self.callbacks.append((index, on_delivery))
        self.heard += 1

    def watch(self, index: int, on_delivery: OnDelivery) -> None:
        """Call `on_delivery` with the outcome of one record, for somebody who does nothing about an error."""
        self.callbacks.append((index, on_delivery))

    def take_waiters(self) -> list[Waiter]:
        """The futures of the tasks that wait for the batch; they are woken once."""
        waiters, self.waiters = self.waiters, []
        return waiters

    def take_callbacks(self) -> list[tuple[int, OnDelivery]]:
        """The callbacks with the indexes of their records; they are called once."""
        callbacks, self.callbacks = self.callbacks, []
        return callbacks

    # ---- filling

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
        size_bytes: int,
    ) -> int:
        """Add one record of the given size; returns its index."""
        # Dense: this is the way of every record.
        values = self.values
        index = len(values)
        if timestamp_ms != self.last_stamp:
            self.stamps.append((index, timestamp_ms))
            self.last_stamp = timestamp_ms
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [None] * index
            self.keys.append(key)
        if headers:
            self.headers[index] = tuple(headers)
        values.append(value)
        self.size_bytes += size_bytes
        return index

    def fill(self, block: RecordBlock) -> None:
        """Have the records of a block, and no others."""
        self.block, self._count = block, block.records_count
        self.stamps = [(0, block.timestamp_ms)]
        self.size_bytes += sum(map(len, block.encoded))

    def close(self) -> None:
        """No more records."""
        self.is_closed, self.limit_bytes = True, 0

    def encode(
        self,
        compression: Compression,
        level: int | None,
        threshold_bytes: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Make the bytes that are sent; a batch of less than `threshold_bytes` is not compressed."""
        parts, span = self._encoded_records()
        self.encoded = seal(
            parts,
            span,
            compression=compression if self.size_bytes >= threshold_bytes else Compression.NONE,
            compression_level=level,
            only_if_smaller=True,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.first_sequence,
            is_transactional=is_transactional,
        )

    def _encoded_records(self) -> tuple[Sequence[bytes | memoryview], Span]:
        if self.block is not None:
            stamp = self.block.timestamp_ms
            return self.block.encoded, Span(len(self), len(self) - 1, stamp, stamp)
        columns = Columns(self.values, self.keys, self.headers, self.stamps)
        return encode_columns(columns, self.size_bytes), columns.span

    def number(self, producer_id: int, producer_epoch: int, first_sequence: int) -> None:
        """The producer's numbers, for the bytes that will be made, or over those that are."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.first_sequence = first_sequence
        if self.encoded is not None:
            header = read_header(self.encoded)._replace(
                producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=first_sequence
            )
            write_header(header, self.encoded)

    def hand_over_numbers(self, *parts: ProducerBatch) -> None:
        """Divide the sequence numbers among the batches that have the records now."""
        sequence = self.first_sequence
        for part in parts:
            part.number(self.producer_id, self.producer_epoch, sequence)
            part.place = self.place
            sequence = (part.last_sequence + 1) & _SEQUENCE_MASK

    def part(self, number: int) -> ProducerBatch:
        """An empty, closed batch with the same history, for some of the records; parts have numbers."""
        batch = ProducerBatch(self.partition, self.created_ms, self.deadline_ms, self.home)
        batch.order = (*self.order, number)
        batch.close()
        batch.attempts, batch.may_be_written = self.attempts, self.may_be_written
        return batch

    # ---- the end

    def succeed(self, base_offset: int, log_append_time_ms: int = -1) -> list[ProducerBatch]:
        """The records are in the log from this offset on (-1: unknown).

        Returns all batches that are done with it.
        """
        self.base_offset, self.log_append_time_ms = base_offset, log_append_time_ms
        self._let_go()
        return self._finish()

    def fail(self, failure: Failure) -> list[ProducerBatch]:
        """The records were not delivered. Answers all batches that are done with it."""
        self.failure = failure
        return self._finish()

    def move(self, places: list[tuple[ProducerBatch, int]]) -> None:
        """Move all records to other batches: the new place of each, in order of their index."""
        self.moved, self.encoded = places, None
        self.close()
        counts = Counter(batch for batch, _ in places)
        self._children_left = len(counts)
        for child, records_count in counts.items():
            child._parents.append(self)
            child.heard += records_count  # their outcomes come through this batch
        self._let_go()

    def place_of(self, index: int) -> tuple[ProducerBatch, int]:
        """Where a record of this batch ended up."""
        batch = self
        while batch.moved is not None:
            batch, index = batch.moved[index]
        return batch, index

    def outcome(self, index: int) -> DeliveryReport | DeliveryError:
        """The report or the error of one record."""
        batch, index = self.place_of(index)
        if batch.failure is not None:
            code, message, is_uncertain = batch.failure
            return DeliveryError(code, message, (batch.record(index),), is_uncertain=is_uncertain)
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        timestamp = batch.log_append_time_ms if batch.log_append_time_ms >= 0 else batch.timestamp_ms(index)
        return DeliveryReport(batch.partition.topic, batch.partition.partition, offset, timestamp)

    @property
    def has_failures(self) -> bool:
        """Whether some of its records failed; asked when it is done."""
        if self.moved is None:
            return self.failure is not None
        return any(batch.has_failures for batch in dict.fromkeys(batch for batch, _ in self.moved))

    def fields(self, index: int) -> tuple[bytes | None, bytes | None, tuple[Header, ...], int]:
        """A record's value, key, headers and timestamp."""
        if self.block is not None:
            return *self.block.fields(index), self.block.timestamp_ms
        key = None if self.keys is None else self.keys[index]
        return self.values[index], key, self.headers.get(index, ()), self.timestamp_ms(index)

    def record(self, index: int) -> ProducerRecord:
        """The record as it was given."""
        value, key, headers, timestamp_ms = self.fields(index)
        topic, partition = self.partition
        return ProducerRecord(topic, value, key, partition if partition >= 0 else None, headers, timestamp_ms)

    def timestamp_ms(self, index: int) -> int:
        """The timestamp that its producer gave a record."""
        return next(stamp for start, stamp in reversed(self.stamps) if start <= index)

    def _let_go(self) -> None:
        """Release the records: a Delivery needs only the outcome, and the records only if they failed."""
        self._count = len(self)
        self.values, self.keys, self.headers, self.block = [], None, {}, None

    def _finish(self) -> list[ProducerBatch]:
        self.is_done = True
        self.close()
        finished = [self]
        for parent in self._parents:
            parent._children_left -= 1
            if parent._children_left == 0:
                finished += parent._finish()
        return finished


def record_bytes(value: bytes | None, key: bytes | None, headers: Sequence[Header]) -> int:
    """The most bytes that a record takes in a batch without compression."""
    size = RECORD_OVERHEAD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key)
    return size + headers_bytes(headers) if headers else size


def headers_bytes(headers: Sequence[Header]) -> int:
    """The most bytes that the headers of a record take."""
    size = 0
    for name, content in headers:
        size += len(name) * 3 + (len(content) if content is not None else 0) + 10
    return size
