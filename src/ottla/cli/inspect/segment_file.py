"""Looking into segment files and indexes without touching them.

The log room opens files to write; here they are opened to read only, so that `ottla dump` and `ottla doctor`
work on the files of a running broker, on another user's, and on those that Apache Kafka wrote. Damage does
not end a walk: it is one of the things that are found, and the walk goes on at the next whole batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Any, Final, NamedTuple, Never

from ottla.log.opening.scanning import Scanner
from ottla.log.segments.segment import Placed
from ottla.records.batch import HEADER_BYTES, BatchView, CorruptRecord, read_header
from ottla.runtime.disk import Buffer

_PIECE_BYTES: Final = 1 << 20
_READ_ONLY: Final = "the file was opened to be read"


class ReadOnlyFile:
    """A file that is read through one descriptor, as long as it was when it was opened."""

    __slots__ = ("_descriptor", "size")

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def __enter__(self) -> ReadOnlyFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        return os.pread(self._descriptor, size, position)

    def append(self, buffers: Sequence[Buffer]) -> Never:
        raise PermissionError(_READ_ONLY)

    def sync(self) -> Never:
        raise PermissionError(_READ_ONLY)

    def truncate(self, size: int) -> Never:
        raise PermissionError(_READ_ONLY)

    def fileno(self) -> int | None:
        return self._descriptor


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from `position` to `end` that are no batch, or no sound one, and what gave them away."""

    position: int
    end: int
    reason: str


class Found(NamedTuple):
    """A batch by its header, and whether it is valid (None if the batch was not checked)."""

    placed: Placed
    is_sound: bool | None

    def batch(self, file: ReadOnlyFile) -> BatchView:
        """The whole batch."""
        return BatchView(file.read(self.placed.position, self.placed.header.size_bytes))


def walk(file: ReadOnlyFile, base_offset: int, *, deep: bool, position: int = 0) -> Iterator[Found | Damage]:
    """The batches of a segment file from `position` on, and the damage between; `deep` also checks every
    checksum.

    An invalid batch is yielded first, for its header, and then again as damage.
    """
    scanner = Scanner(file, base_offset, None, may_have_holes=True)
    next_offset = base_offset
    while position < file.size:
        placed, complaint = _look(file, position, next_offset)
        if placed is not None:
            is_sound = not deep or scanner.valid_at(position, next_offset) is not None
            found = Found(placed, is_sound if deep else None)
            yield found
            if is_sound:
                position, next_offset = placed.end, placed.next_offset
                continue
            complaint = _unsound(found.batch(file))
        following = scanner.next_valid(position, next_offset)
        end = file.size if following is None else following.position
        yield Damage(position, end, complaint)
        position = end


def _look(file: ReadOnlyFile, position: int, next_offset: int) -> tuple[Placed | None, str]:
    """The batch at `position`, or what speaks against there being one."""
    try:
        header = read_header(file.read(position, HEADER_BYTES))
    except CorruptRecord as problem:
        if _is_zero(file, position):
            return (
                None,
                "only zeros up to the end: space that was reserved, or a write that never reached the disk",
            )
        return None, str(problem)
    left = file.size - position
    if header.size_bytes > left:
        return (
            None,
            f"the batch at offset {header.base_offset} claims {header.size_bytes} bytes and {left} are there",
        )
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return (
            None,
            f"offsets {header.base_offset} to {header.last_offset} stand where {next_offset} or later belongs",
        )
    return Placed(position, header), ""


def _unsound(batch: BatchView) -> str:
    if batch.crc_is_valid():
        return f"offset {batch.base_offset}, which no checksum covers, is contradicted by the next batch"
    return f"the checksum of the batch at offset {batch.base_offset} does not fit its bytes"


def _is_zero(file: ReadOnlyFile, position: int) -> bool:
    while piece := file.read(position, _PIECE_BYTES):
        if piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True


def index_entries(data: bytes, entry: Struct) -> Iterator[tuple[Any, ...]]:
    """The entries of an index file, up to the first zero entry: a file in use is padded with zeros."""
    for position in range(0, len(data) - entry.size + 1, entry.size):
        fields = entry.unpack_from(data, position)
        if not any(fields):
            return
        yield fields
