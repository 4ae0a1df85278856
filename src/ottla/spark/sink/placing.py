"""Which partition each row goes to, for whole columns: the one it names, else its key's, else one after the
other.

Rules
- A key goes where every Kafka client sends it (murmur2), so that a topic that Spark and others write stays in
  order by key.
- Rows without a key and a partition stick together: as many as a batch takes go to one partition, then to the
  next.
- A partition that the topic does not have is refused before anything of the chunk is sent.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.client.producer.machine.partitioners import murmur2

Places = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
# Columns pay while many keys have a word at the same place; a longer key is hashed alone.
_LONG_KEY_BYTES: Final = 512


class Placing:
    """Places rows on one topic's partitions, and remembers where those without a key went last."""

    def __init__(self, topic: str, partitions_count: int, *, first: int = 0) -> None:
        self._topic = topic
        self._count = partitions_count
        self._next = first

    def place(
        self, partition: pa.Array | None, key: pa.Array | None, sizes: npt.NDArray[Any], limit_bytes: int
    ) -> Places:
        """The partition of each row. `sizes` are the rows' bytes. Raises ValueError for a partition that does
        not exist.
        """
        places = np.full(len(sizes), -1, dtype=np.int32)
        if key is not None and key.null_count < len(key):
            has_key = key.is_valid().to_numpy(zero_copy_only=False)
            places[has_key] = self._of_keys(key.drop_null() if key.null_count else key)
        if partition is not None and partition.null_count < len(partition):
            named = partition.is_valid().to_numpy(zero_copy_only=False)
            places[named] = self._checked(partition.drop_null().to_numpy(zero_copy_only=False))
        free = places < 0
        if free.any():
            places[free] = self._stick(sizes[free], limit_bytes)
        return places

    def _of_keys(self, keys: pa.Array) -> Places:
        return ((hashes(keys) & _POSITIVE) % np.uint32(self._count)).astype(np.int32)

    def _checked(self, named: Places) -> Places:
        wrong = (named < 0) | (named >= self._count)
        if wrong.any():
            first, last = int(named[wrong][0]), self._count - 1
            raise ValueError(
                f'partition {first} is given with a record for topic "{self._topic}", which has {self._count}: '
                f"it must be null or from 0 to {last}"
            )
        return named

    def _stick(self, sizes: npt.NDArray[Any], limit_bytes: int) -> Places:
        turns = (np.cumsum(sizes) - sizes) // limit_bytes
        places: Places = ((self._next + turns) % self._count).astype(np.int32)
        self._next = (int(places[-1]) + 1) % self._count
        return places


def hashes(keys: pa.Array) -> Hashes:
    """murmur2 of each key of a binary column without nulls, as all Kafka clients compute it."""
    offsets = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets)
    data = bytearray(keys.buffers()[2] or b"") + bytes(4)  # a word may be read that ends after the last key
    made = _columnwise(data, starts, sizes)
    for index in np.flatnonzero(sizes > _LONG_KEY_BYTES).tolist():
        made[index] = murmur2(keys[index].as_py())
    return made


def _columnwise(data: bytearray, starts: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> Hashes:
    """Word by word: the first words of all keys, then the second ones of those that have one, and so on."""
    at_any_place = np.ndarray((len(data) - 3,), dtype="<u4", buffer=data, strides=(1,))
    made = (np.uint32(_SEED) ^ sizes.astype(np.uint32)).astype(np.uint32)
    words = np.where(sizes > _LONG_KEY_BYTES, 0, sizes // 4)
    for place in range(int(words.max(initial=0))):
        rows = words > place
        word = at_any_place[starts[rows] + 4 * place] * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        made[rows] = (made[rows] * _M) ^ word
    rest = (sizes & 3).astype(np.uint32)
    rows = rest > 0
    mask = (np.uint32(1) << (np.uint32(8) * rest[rows])) - np.uint32(1)
    tail = at_any_place[starts[rows] + 4 * (sizes[rows] // 4)] & mask
    made[rows] = (made[rows] ^ tail) * _M
    made = (made ^ (made >> np.uint32(13))) * _M
    return made ^ (made >> np.uint32(15))
