"""Tells whole batches from damage in a segment file whose end, or middle, cannot be trusted (STO-9).

A batch is valid when its length fits the file, its magic is 2, its checksum is right and its offsets lie
above those of the batch before and below those of the next segment. Where there is no valid batch, the scan
looks for the next one: first where the damaged header says that its batch ends, then byte by byte. Offset and
epoch of a batch are outside its checksum, and a record's value may contain a whole batch: so a batch found
after damage must be followed by the end of the file or by a header with the next offset.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from ottla.log.segments.segment import MAX_RELATIVE_OFFSET, Placed
from ottla.records.batch import (
    BATCH_OVERHEAD_BYTES,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptRecord,
    read_header,
)
from ottla.runtime.disk import File

_CHUNK_BYTES: Final = 1 << 20
_MAGIC_BYTE: Final = bytes([MAGIC])
_MAGIC_POSITION: Final = 16
_LENGTH_POSITION: Final = 8


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no valid batch, and the offsets that may be lost with them."""

    position: int
    end: int
    first_offset: int
    next_offset: int  # of the first valid batch after the damage; equal to first_offset if there is none


@dataclass(frozen=True, slots=True)
class Scan:
    """The damage, the end offset and the size of a segment file."""

    damages: tuple[Damage, ...]
    next_offset: int
    size_bytes: int


class Scanner:
    """Reads one file in large pieces."""

    __slots__ = (
        "_file",
        "_highest_offset",
        "_may_have_holes",
        "_size",
        "_start",
        "_upper_offset",
        "_window",
    )

    def __init__(
        self, file: File, base_offset: int, upper_offset: int | None, *, may_have_holes: bool
    ) -> None:
        self._file = file
        self._size = file.size
        self._may_have_holes = may_have_holes
        self._upper_offset = upper_offset
        limit = base_offset + MAX_RELATIVE_OFFSET
        self._highest_offset = limit if upper_offset is None else min(limit, upper_offset - 1)
        self._window = b""
        self._start = 0

    def pass_over(self, position: int, next_offset: int) -> tuple[int, int]:
        """Skip valid batches without a gap that are in memory; the position and offset after the last one.

        `valid_at` tells why the next batch was not skipped."""
        # Nearly every batch of a recovery is skipped here, hence the local names.
        window, highest, unpack_from = self._window, self._highest_offset, HEADER.unpack_from
        view, size, at = memoryview(window), len(window), position - self._start
        while 0 <= at <= size - HEADER_BYTES:
            base_offset, length, _, magic, crc, _, delta, *_ = unpack_from(window, at)
            end = at + BATCH_OVERHEAD_BYTES + length
            if (
                base_offset != next_offset
                or magic != MAGIC
                or not at + HEADER_BYTES <= end <= size
                or not 0 <= delta <= highest - base_offset
                or crc32c(view[at + CRC_START : end]) != crc
            ):
                break
            at, next_offset = end, base_offset + delta + 1
        return self._start + at, next_offset

    def valid_at(self, position: int, lowest_offset: int) -> Placed | None:
        """The batch at `position`, if it is whole and undamaged."""
        found = self._intact_at(position, lowest_offset)
        if found is None or found.header.base_offset == lowest_offset:
            return found
        # A gap before the batch, or a damaged offset, which no checksum covers? The batch after it tells.
        following = self._intact_at(found.end, lowest_offset)
        is_contradicted = following is not None and following.header.base_offset <= found.header.last_offset
        return None if is_contradicted else found

    def _intact_at(self, position: int, lowest_offset: int) -> Placed | None:
        header = self._plausible_at(position, lowest_offset)
        if header is None or self._crc(position + CRC_START, position + header.size_bytes) != header.crc:
            return None
        return Placed(position, header)

    def next_valid(self, position: int, lowest_offset: int) -> Placed | None:
        """The first valid batch after the damage at `position`."""
        for candidate in self._candidates(position):
            # At least one batch was damaged, and it had at least one offset.
            is_batch_lost = candidate - position >= HEADER_BYTES
            found = self.valid_at(candidate, lowest_offset + is_batch_lost)
            if found is not None and self._is_followed(found):
                return found
        return None

    def _is_followed(self, found: Placed) -> bool:
        """Whether the file ends after the batch, or a header with the next offset follows."""
        if found.end == self._size:
            return self._upper_offset is None or self._agree(found.next_offset, self._upper_offset)
        following = self._plausible_at(found.end, found.next_offset)
        return following is not None and self._agree(found.next_offset, following.base_offset)

    def _agree(self, next_offset: int, following_offset: int) -> bool:
        return next_offset == following_offset or (self._may_have_holes and next_offset < following_offset)

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
        """Where the next batch may start: at the end in the damaged header, then anywhere."""
        with suppress(CorruptRecord):
            yield position + read_header(self._bytes(position, HEADER_BYTES)).size_bytes
        position += 1
        while position + HEADER_BYTES <= self._size:
            piece = self._file.read(position, _CHUNK_BYTES)
            found = piece.find(_MAGIC_BYTE, _MAGIC_POSITION)
            while found >= 0:
                start = found - _MAGIC_POSITION
                # Neither offset nor length is negative.
                if piece[start] < 0x80 and piece[start + _LENGTH_POSITION] < 0x80:
                    yield position + start
                found = piece.find(_MAGIC_BYTE, found + 1)
            # The last bytes of a piece may begin a header that continues in the next.
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


def scan(file: File, base_offset: int, upper_offset: int | None, *, may_have_holes: bool) -> Scan:
    """Scan a whole segment file. `upper_offset` is the next segment's base offset; compaction makes gaps."""
    size = file.size
    scanner = Scanner(file, base_offset, upper_offset, may_have_holes=may_have_holes)
    damages: list[Damage] = []
    position, next_offset = 0, base_offset
    while position < size:
        position, next_offset = scanner.pass_over(position, next_offset)
        if position == size:
            break
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
