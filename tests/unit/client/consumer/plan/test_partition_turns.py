from __future__ import annotations

import pytest

from ottla.client.consumer.plan.partition_turns import Turns
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import PartitionData
from ottla.records.builder import build_batch
from ottla.records.record import Record


class Line:
    """Partitions 0, 1, 2, …, each with this number of batches of two records."""

    def __init__(self, *batches: int) -> None:
        self.readers = {}
        self.errors: list[PartitionReader] = []
        for index, count in enumerate(batches):
            reader = PartitionReader(TopicPartition("t", index))
            reader.seek(0)
            made = [
                bytes(build_batch([Record(at, 0, None, b"v"), Record(at + 1, 0, None, b"v")], base_offset=at))
                for at in range(0, count * 2, 2)
            ]
            reader.fetched(PartitionData(records=memoryview(b"".join(made))))
            self.readers[reader.partition] = reader
        self.turns = Turns(self.readers, self.errors.append)
        for reader in self.readers.values():
            self.turns.join(reader)

    def __getitem__(self, index: int) -> PartitionReader:
        return self.readers[TopicPartition("t", index)]

    def taken(self, limit: int) -> list[tuple[int, int]]:
        """Partition and offset of what comes next."""
        records = self.turns.take(limit).values()
        return [(record.partition, record.offset) for part in records for record in part]


def test_partitions_take_turns() -> None:
    line = Line(2, 1)
    assert line.taken(2) == [(0, 0), (0, 1)]
    assert line.taken(1) == [(1, 0)]
    assert line.taken(1) == [(0, 2)]
    assert line.taken(9) == [(1, 1), (0, 3)]
    assert line.taken(9) == []
    assert line.turns.front() is None


def test_a_batch_is_of_one_partition() -> None:
    line = Line(2, 1)
    sizes = []
    while taken := line.turns.take_batch(3):
        sizes.append((taken[0].partition.partition, len(taken[1])))
    assert sizes == [(0, 3), (1, 2), (0, 1)]


def test_who_is_paused_or_given_up_is_passed_over() -> None:
    line = Line(1, 1, 1)
    line[0].is_paused = True
    line.readers[TopicPartition("t", 1)] = PartitionReader(TopicPartition("t", 1))
    assert line.taken(9) == [(2, 0), (2, 1)]
    line[0].is_paused = False
    assert line.taken(9) == []
    line.turns.join(line[0])
    assert line.taken(9) == [(0, 0), (0, 1)]


def test_an_error_comes_after_the_records_that_were_taken_and_once() -> None:
    line = Line(1, 0)
    line[1].error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert line.taken(9) == [(0, 0), (0, 1)]
    assert line.errors == []
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        line.taken(9)
    assert line.errors == [line[1]]
    assert line.taken(9) == []


def test_nobody_stands_in_the_line_twice() -> None:
    line = Line(3)
    for _ in range(3):
        line.turns.join(line[0])
    assert line.taken(2) == [(0, 0), (0, 1)]
    line.readers.clear()
    assert line.turns.front() is None
