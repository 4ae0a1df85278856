"""The order in which Java's hash maps give their keys.

Java's assignors go through their members in that order, and where several divisions are equally good, it
decides. To give the same answer, we go through them in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.model import TopicPartition

T = TypeVar("T")

_SMALLEST_TABLE: Final = 16


def in_hash_order(keys: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """The keys as a `HashMap` gives them into which they were put in this order."""
    found = list(dict.fromkeys(keys))
    size = _SMALLEST_TABLE
    while len(found) * 4 > size * 3:  # it grows when it is three quarters full
        size *= 2
    return sorted(found, key=lambda key: _spread(hash_of(key)) & (size - 1))


def string_hash(text: str) -> int:
    """Java's `String.hashCode`, without its sign."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = value * 31 + (data[at] << 8 | data[at + 1]) & 0xFFFF_FFFF
    return value


def partition_hash(partition: TopicPartition) -> int:
    """Java's `TopicPartition.hashCode`, without its sign."""
    return ((31 + partition.partition) * 31 + string_hash(partition.topic)) & 0xFFFF_FFFF


def _spread(value: int) -> int:
    return value ^ value >> 16
