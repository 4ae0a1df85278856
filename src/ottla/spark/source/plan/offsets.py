"""Offsets as Spark keeps them: the JSON of its Kafka source, `{"orders":{"0":23,"1":7}}`, and the ranges made
of two such.

A checkpoint holds one such object per batch: the offset that the next batch begins at, for every partition.
Spark compares them as text, so the order is fixed: topics by name, partitions by number.

In options, -1 stands for the latest offset and -2 for the earliest; a checkpoint has only real offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ottla.model import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2

PartitionOffsets: TypeAlias = dict[TopicPartition, int]
OffsetJson: TypeAlias = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `start` up to, and without, `end`. Both are real offsets."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it spans; of a compacted topic, there may be fewer records."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def offsets_as_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """For Spark, which writes it down; always in the same order."""
    topics: OffsetJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def offsets_of_json(offsets: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    """From what `offsets_as_json` made, or from a checkpoint of Spark's Kafka source."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def parse_numbers(text: str) -> PartitionOffsets:
    """A number for each partition, as an option gives it; ValueError if it is anything else."""
    parsed = _object(text)
    numbers: PartitionOffsets = {}
    for topic, partitions in parsed.items():
        for partition, number in _checked_object(partitions).items():
            numbers[TopicPartition(topic, _partition_index(partition))] = _whole(number)
    return numbers


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    """The partitions of `{"orders":[0,1]}`; ValueError if it is anything else."""
    named: set[TopicPartition] = set()
    for topic, partitions in _object(text).items():
        if not isinstance(partitions, list):
            raise ValueError(f"{partitions!r} is not a list of partitions")
        named.update(TopicPartition(topic, _partition_index(each)) for each in partitions)
    return frozenset(named)


def in_words(partitions: Iterable[TopicPartition]) -> str:
    """Partitions in a sentence: `orders-0, orders-1`."""
    return ", ".join(str(each) for each in sorted(partitions)) or "none"


def _object(text: str) -> dict[str, Any]:
    return _checked_object(json.loads(text, object_pairs_hook=_without_repetition))


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice")
    return dict(pairs)


def _checked_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object in braces")
    return value


def _partition_index(value: object) -> int:
    number = int(value) if isinstance(value, str) else _whole(value)
    if number < 0:
        raise ValueError(f"there is no partition {number}")
    return number


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value
