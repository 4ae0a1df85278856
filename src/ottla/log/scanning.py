"""Tells whole batches from damage in a segment file whose end, or middle, cannot be trusted (STO-9).

A batch is valid when its length fits the file, its magic is 2, its checksum is right and its offsets lie above those
before it and below the next segment's. Where something else stands, the scan looks for the next valid batch: first
where the damaged header says it ends, then byte by byte. A candidate found by searching must be followed by the end
of the file or by another header that fits, so that a batch inside somebody's record is not taken for one of the log's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from ottla.log.disk import File
from ottla.log.segment import MAX_RELATIVE_OFFSET, Placed
from ottla.records.batch import CRC_START, HEADER_BYTES, BatchHeader, CorruptRecord, read_header

_CHUNK_BYTES: Final = 1 << 20
# A header's first bytes: eight of offset, length that is not negative, four of epoch, magic 2.
_HEADER_START: Final = re.compile(rb"(?s)(?=[\x00-\x7f].{7}[\x00-\x7f].{7}\x02)")


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no valid batch, and the offsets that may be lost with them."""

    position: int
    end: int
    first_offset: int
    next_offset: int  # of the first valid batch behind; equal to first_offset when there is none


@dataclass(frozen=True, slots=True)
class Scan:
    """What a segment file holds."""

    damages: tuple[Damage, ...]
    next_offset: int
    size_bytes: int


class Scanner:
    """Reads one file in large pieces."""

    __slots__ = ("_file", "_highest_offset", "_size", "_start", "_window")

    def __init__(self, file: File, size: int, base_offset: int, upper_offset: int | None) -> None:
        self._file = file
        self._size = size
        limit = base_offset + MAX_RELATIVE_OFFSET
        self._highest_offset = limit if upper_offset is None else min(limit, upper_offset - 1)
        self._window = b""
        self._start = 0

    def valid_at(self, position: int, lowest_offset: int) -> Placed | None:
        """The batch at `position`, if a whole and undamaged one stands there."""
        header = self._plausible_at(position, lowest_offset)
        if header is None or self._crc(position + CRC_START, position + header.size_bytes) != header.crc:
            return None
        return Placed(position, header)

    def next_valid(self, position: int, lowest_offset: int) -> Placed | None:
        """The first valid batch behind the damage at `position`."""
        by_length = self._behind_damaged(position, lowest_offset)
        if by_length is not None:
            return by_length
        for candidate in self._candidates(position + 1):
            found = self.valid_at(candidate, lowest_offset)
            if found is not None and self._is_followed(found):
                return found
        return None

    def _behind_damaged(self, position: int, lowest_offset: int) -> Placed | None:
        try:
            size = read_header(self._bytes(position, HEADER_BYTES)).size_bytes
        except CorruptRecord:
            return None
        return self.valid_at(position + size, lowest_offset)

    def _is_followed(self, found: Placed) -> bool:
        return found.end == self._size or self._plausible_at(found.end, found.next_offset) is not None

    def _plausible_at(self, position: int, lowest_offset: int) -> BatchHeader | None:
        try:
            header = read_header(self._bytes(position, HEADER_BYTES))
        except CorruptRecord:
            return None
        is_plausible = (
            position + header.size_bytes <= self._size
            and header.last_offset_delta >= 0
            and lowest_offset <= header.base_offset
            and header.last_offset <= self._highest_offset
        )
        return header if is_plausible else None

    def _candidates(self, position: int) -> Iterator[int]:
        while position + HEADER_BYTES <= self._size:
            piece = self._file.read(position, _CHUNK_BYTES)
            for match in _HEADER_START.finditer(piece):
                yield position + match.start()
            # The last bytes of a piece may begin a header that goes on in the next.
            position += max(1, len(piece) - HEADER_BYTES)

    def _bytes(self, position: int, size: int) -> bytes:
        """Exactly these bytes, or fewer at the end of the file."""
        start = position - self._start
        if start < 0 or start + size > len(self._window):
            self._window, self._start = self._file.read(position, _CHUNK_BYTES), position
            start = 0
        return self._window[start : start + size]

    def _crc(self, position: int, end: int) -> int:
        start = position - self._start
        if start >= 0 and end - self._start <= len(self._window):
            return crc32c(memoryview(self._window)[start : end - self._start])
        crc = 0
        while position < end:
            piece = self._file.read(position, min(_CHUNK_BYTES, end - position))
            if not piece:
                break
            crc = crc32c(piece, crc)
            position += len(piece)
        return crc


def scan(file: File, base_offset: int, upper_offset: int | None) -> Scan:
    """Go through a whole segment file. `upper_offset` is where the next segment begins."""
    size = file.size
    scanner = Scanner(file, size, base_offset, upper_offset)
    damages: list[Damage] = []
    position, next_offset = 0, base_offset
    while position < size:
        placed = scanner.valid_at(position, next_offset)
        if placed is None:
            placed = scanner.next_valid(position, next_offset)
            end, resumed = (
                (size, next_offset) if placed is None else (placed.position, placed.header.base_offset)
            )
            damages.append(Damage(position, end, next_offset, resumed))
        if placed is None:
            break
        position, next_offset = placed.end, placed.next_offset
    return Scan(tuple(damages), next_offset, size)
