"""Memory that compressed blocks are decompressed into, one behind the other, and that is used again and
again.
"""

from __future__ import annotations

from typing import Final

from ottla.records.compression import (
    DECOMPRESSED_LIMIT_BYTES,
    Compression,
    Readable,
    compression_of,
    decompress_into,
)
from ottla.records.corruption import CorruptRecord

_GROWTH: Final = 4


class Decompressed:
    """`add` blocks until there is no room, use them, then `clear`."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._end = 0
        self._most_grown = 1.0  # what a block became, compared with what it was: the room it may need
        self.memory = memoryview(b"")

    def clear(self) -> None:
        """Allow the content to be overwritten."""
        self._end = 0

    def add(self, codec_number: int, data: Readable) -> tuple[int, int] | None:
        """Where the block lies then; None if there is no room behind the others. CorruptRecord if it is
        damaged.
        """
        codec = compression_of(codec_number)
        if self._end and len(data) * self._most_grown > len(self.memory) - self._end:
            return None
        size = decompress_into(codec, data, self._room())
        while size is None:
            if self._end:
                return None
            self._grow(codec)
            size = decompress_into(codec, data, self._room())
        begin, self._end = self._end, self._end + size
        self._most_grown = max(self._most_grown, size / max(1, len(data)))
        return begin, self._end

    def _room(self) -> memoryview:
        if not self.memory:
            self.memory = memoryview(bytearray(self._size_bytes))
        return self.memory[self._end :]

    def _grow(self, codec: Compression) -> None:
        """For a block that is larger than all of it."""
        size = len(self.memory)
        if size >= DECOMPRESSED_LIMIT_BYTES:
            raise CorruptRecord(
                f"the {codec.name.lower()} block becomes larger than the limit of {DECOMPRESSED_LIMIT_BYTES} bytes"
            )
        self.memory = memoryview(bytearray(min(size * _GROWTH, DECOMPRESSED_LIMIT_BYTES)))
