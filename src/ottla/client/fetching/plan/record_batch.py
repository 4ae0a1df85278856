"""Records as an application gets them: one by one, or as the columns of a batch.

A batch that was read is held as columns (see `records.decoding`). Records are made of them while they are
handed out: an application that wants a million values, or a table, takes the columns and pays for nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from operator import length_hint
from typing import Any, NamedTuple, cast

from ottla.model import TopicPartition
from ottla.records.decoding import RecordColumns
from ottla.records.record import Header


class ConsumerRecord(NamedTuple):
    """A record, and where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class RecordBatch:
    """Neighbouring records of one partition, in order.

    `offsets`, `timestamps_ms`, `keys`, `values` and `headers` are columns: the i-th of each belong together.
    Iterating, and an index, give records. `next_offset` is the offset to commit when all records are done.
    """

    __slots__ = ("_columns", "leader_epoch", "next_offset", "partition", "topic")

    def __init__(
        self, source: TopicPartition, columns: RecordColumns, *, next_offset: int, leader_epoch: int
    ) -> None:
        self.topic, self.partition = source
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        self._columns = columns

    def __repr__(self) -> str:
        return (
            f"RecordBatch({self.topic}-{self.partition}, {len(self)} records up to offset {self.next_offset})"
        )

    def __len__(self) -> int:
        return len(self._columns.values)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return _records(self.topic, self.partition, self._columns, self._columns.offsets)

    def __getitem__(self, index: int) -> ConsumerRecord:
        offsets, timestamps, keys, values, headers = self._columns
        return ConsumerRecord(
            self.topic,
            self.partition,
            offsets[index],
            timestamps[index],
            keys[index],
            values[index],
            () if headers is None else headers[index],
        )

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def offsets(self) -> Sequence[int]:
        return self._columns.offsets

    @property
    def timestamps_ms(self) -> Sequence[int]:
        return self._columns.timestamps

    @property
    def keys(self) -> Sequence[bytes | None]:
        return self._columns.keys

    @property
    def values(self) -> Sequence[bytes | None]:
        return self._columns.values

    @property
    def headers(self) -> Sequence[tuple[Header, ...]]:
        headers = self._columns.headers
        return [()] * len(self) if headers is None else headers


class OpenBatch:
    """A batch that is being handed out, record by record; it knows how far that has come."""

    __slots__ = ("_columns", "_left", "_source", "count", "leader_epoch", "next_offset", "records")

    def __init__(
        self, source: TopicPartition, columns: RecordColumns, *, next_offset: int, leader_epoch: int
    ) -> None:
        self._source = source
        self._columns = columns
        self.count = len(columns.values)
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch
        # The remaining offsets say how many records were handed out: the iterator need not be watched.
        self._left = iter(columns.offsets)
        self.records: Iterator[ConsumerRecord] = _records(*source, columns, self._left)

    @property
    def left(self) -> int:
        """How many records were not handed out yet."""
        return length_hint(self._left)

    @property
    def position(self) -> int | None:
        """The offset after the last record that was handed out; None if none was."""
        left = self.left
        if left == self.count:
            return None
        return self._columns.offsets[self.count - left - 1] + 1 if left else self.next_offset

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record that was handed out; None if none was."""
        left = self.left
        return None if left == self.count else self._columns.offsets[self.count - left - 1]

    def take(self, limit: int) -> list[ConsumerRecord]:
        """The next records, up to `limit` of them."""
        return list(islice(self.records, limit))

    def split(self, limit: int) -> tuple[RecordBatch, OpenBatch | None]:
        """The next records, up to `limit` of them, as a batch; and the batch of the remaining ones."""
        begin = self.count - self.left
        end = min(self.count, begin + limit)
        columns, is_all = self._columns, end == self.count
        next_offset = self.next_offset if is_all else columns.offsets[end - 1] + 1
        source, epoch = self._source, self.leader_epoch
        batch = RecordBatch(source, sliced(columns, begin, end), next_offset=next_offset, leader_epoch=epoch)
        if is_all:
            return batch, None
        rest = sliced(columns, end, self.count)
        return batch, OpenBatch(source, rest, next_offset=self.next_offset, leader_epoch=epoch)


def sliced(columns: RecordColumns, begin: int, end: int) -> RecordColumns:
    """A part of the records."""
    if begin == 0 and end == len(columns.values):
        return columns
    return RecordColumns(*(None if column is None else column[begin:end] for column in columns))  # type: ignore[arg-type]


def joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Batches of one partition that follow each other, as one."""
    last = batches[-1]
    if len(batches) == 1:
        return last
    columns = RecordColumns(
        list(chain.from_iterable(batch.offsets for batch in batches)),
        list(chain.from_iterable(batch.timestamps_ms for batch in batches)),
        list(chain.from_iterable(batch.keys for batch in batches)),
        list(chain.from_iterable(batch.values for batch in batches)),
        list(chain.from_iterable(batch.headers for batch in batches)),
    )
    return RecordBatch(
        last.topic_partition, columns, next_offset=last.next_offset, leader_epoch=last.leader_epoch
    )


def _records(topic: str, partition: int, columns: RecordColumns, offsets: Any) -> Iterator[ConsumerRecord]:
    # No bytecode runs per record here: `ConsumerRecord(...)` would cost three times as much.
    headers = repeat(()) if columns.headers is None else columns.headers
    rows = zip(
        repeat(topic), repeat(partition), offsets, columns.timestamps, columns.keys, columns.values, headers
    )
    return cast(Iterator[ConsumerRecord], map(tuple.__new__, repeat(ConsumerRecord), rows))
