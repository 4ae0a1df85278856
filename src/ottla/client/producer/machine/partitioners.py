"""The partition of a record whose sender names none.

A partitioner is a function of the record's key and of the topic's partitions. Any function of that kind can
be given to a producer. These serve most programs:

    by_key         equal keys go to the same partition, as in every Kafka client; the others stick
    sticky         all records stick to one partition until its batch is sent: few, large batches
    round_robin    one partition after the other, record by record: equal shares, small batches
    load_aware     like by_key; records without a key prefer partitions whose leaders report little load
    consistent     like by_key, but with a hash that moves few keys when partitions are added
    by_range(...)  keys in order: each partition holds a range of them

Sticking is adaptive: a partition whose batches pile up, because its leader is slow, is chosen less often
(KIP-794). Partitions without a leader are not chosen while there are others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final, TypeAlias

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
# A partition whose leader reports full load still gets this share: load passes, and reports are old.
_LEAST_SHARE: Final = 0.05


class TopicPartitions:
    """A topic as a partitioner sees it.

    `current` is the partition that records stick to: a partitioner sets it, and it becomes -1 when that
    partition's batch is full or sent. `turn` counts for round robin.
    """

    __slots__ = ("available", "count", "current", "draw", "loads", "queued", "topic", "turn")

    def __init__(self, topic: str, count: int, draw: Callable[[], float]) -> None:
        self.topic = topic
        self.count = count
        self.available: Sequence[int] = range(count)  # those with a leader; all if none has one
        self.queued: dict[int, int] = {}  # batches that wait, of the partitions that have any
        self.loads: Mapping[int, float] = {}  # from 0 to 1, of the partitions whose leaders report it
        self.current = -1
        self.turn = 0
        self.draw = draw  # a random number from 0 to 1

    def describe(self, available: Sequence[int], loads: Mapping[int, float]) -> None:
        """The partitions with a leader, and the loads of those leaders that report one."""
        self.available, self.loads = available, loads


Partitioner: TypeAlias = Callable[[bytes | None, TopicPartitions], int]


def by_key(key: bytes | None, partitions: TopicPartitions) -> int:
    """The partition that Java's and every other client picks for the key; without a key, the sticky one."""
    if key is None:
        return sticky(key, partitions)
    return (murmur2(key) & _POSITIVE) % partitions.count


def sticky(key: bytes | None, partitions: TopicPartitions) -> int:
    """The partition that records stick to at the moment, whatever their keys."""
    if partitions.current < 0:
        weights = _room(partitions) if partitions.queued else None
        partitions.current = _pick(partitions, weights)
    return partitions.current


def round_robin(key: bytes | None, partitions: TopicPartitions) -> int:
    """The next partition, whatever the key."""
    partitions.turn += 1
    return partitions.available[partitions.turn % len(partitions.available)]


def load_aware(key: bytes | None, partitions: TopicPartitions) -> int:
    """By key; records without one stick to partitions whose leaders have little to do."""
    if key is not None:
        return by_key(key, partitions)
    if partitions.current < 0:
        loads = partitions.loads
        idle = (max(_LEAST_SHARE, 1 - loads.get(each, 0.0)) for each in partitions.available)
        weights = [share * room for share, room in zip(idle, _room(partitions), strict=True)]
        partitions.current = _pick(partitions, weights)
    return partitions.current


def consistent(key: bytes | None, partitions: TopicPartitions) -> int:
    """By key, with a jump consistent hash.

    When n partitions become n + 1, only one key in n + 1 moves, and it moves to the new partition.
    """
    if key is None:
        return sticky(key, partitions)
    state, chosen, candidate = murmur2(key), -1, 0
    while candidate < partitions.count:
        chosen = candidate
        state = (state * 2862933555777941757 + 1) & 0xFFFFFFFFFFFFFFFF
        candidate = int((chosen + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return chosen


def by_range(*bounds: bytes) -> Partitioner:
    """Keys in order: partition 0 holds keys below the first bound, partition 1 keys from there on, and so on.

    Bounds must rise. A record without a key goes to partition 0.
    """
    if not bounds or any(low >= high for low, high in pairwise(bounds)):
        raise ValueError("the bounds of a range partitioner must rise, and there must be one at least")

    def partition(key: bytes | None, partitions: TopicPartitions) -> int:
        chosen = 0 if key is None else bisect_right(bounds, key)
        if chosen >= partitions.count:
            raise ValueError(
                f'{len(bounds)} bounds make {len(bounds) + 1} ranges; "{partitions.topic}" has {partitions.count} partitions'
            )
        return chosen

    return partition


PARTITIONERS: Final[Mapping[str, Partitioner]] = {
    "by_key": by_key,
    "sticky": sticky,
    "round_robin": round_robin,
    "load_aware": load_aware,
    "consistent": consistent,
}


# Those that send a key to the same partition for as long as the topic has as many: the answer may be
# remembered.
STEADY: Final[tuple[Partitioner, ...]] = (by_key, load_aware, consistent)


def chosen_partitioner(partitioner: str | Partitioner) -> Partitioner:
    """The partitioner of a name, or the function itself. Raises ValueError or TypeError with a sentence."""
    if isinstance(partitioner, str):
        if partitioner not in PARTITIONERS:
            raise ValueError(
                f"there is no partitioner {partitioner!r}: choose from {', '.join(PARTITIONERS)}, "
                "or give a function"
            )
        return PARTITIONERS[partitioner]
    if not callable(partitioner):
        raise TypeError(f"partitioner must be a name or a function, not {partitioner!r}")
    return partitioner


def murmur2(key: bytes) -> int:
    """The 32-bit hash of a key, as all Kafka clients compute it (unsigned here, signed in Java)."""
    whole = len(key) & ~3
    result = _SEED ^ len(key)
    for word in _words(whole)(key):
        word = word * _M & _MASK
        result = (result * _M & _MASK) ^ ((word ^ word >> 24) * _M & _MASK)
    if whole < len(key):
        result = ((result ^ int.from_bytes(key[whole:], "little")) * _M) & _MASK
    result = ((result ^ result >> 13) * _M) & _MASK
    return result ^ result >> 15


@lru_cache(maxsize=256)
def _words(size_bytes: int) -> Callable[[bytes], tuple[int, ...]]:
    return Struct(f"<{size_bytes // 4}I").unpack_from


def _room(partitions: TopicPartitions) -> list[float]:
    """For each available partition, how much shorter than the longest its queue is."""
    queued = [partitions.queued.get(each, 0) for each in partitions.available]
    longest = max(queued)
    return [longest + 1.0 - length for length in queued]


def _pick(partitions: TopicPartitions, weights: list[float] | None) -> int:
    available = partitions.available
    if weights is None:
        return available[min(int(partitions.draw() * len(available)), len(available) - 1)]
    sums = list(accumulate(weights))
    return available[min(bisect_right(sums, partitions.draw() * sums[-1]), len(sums) - 1)]
