"""Copies a closed segment to an object store, byte for byte, and verifies the copy. In any thread.

Nothing that the store says is believed: an object counts when the store gives back as many bytes as were written,
with the same checksum. Local segments are deleted because of that, so a store that lost or changed bytes, or wrote
only some of them, must be found out before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.log.files.checkpoint import render_lines
from ottla.log.files.file_names import LOG, SEGMENT_KINDS, SNAPSHOT
from ottla.log.log import Log
from ottla.log.segments.segment import Segment
from ottla.log.tiers.batch_run import Bounds, whole_batches
from ottla.log.tiers.object_names import EPOCHS
from ottla.records.corruption import CorruptRecord
from ottla.runtime.disk import Disk
from ottla.runtime.object_store import ObjectStore, StoreError

# Read and written at a time; larger pieces would only take more memory.
_PIECE_BYTES: Final = 1 << 20


class CopiedObject(NamedTuple):
    """An object that the store holds: the end of its name, its size and its CRC-32C."""

    kind: str
    size_bytes: int
    crc: int


class CopiedSegment(NamedTuple):
    """The objects of a segment, and the leader epochs of its records with their first offsets."""

    objects: tuple[CopiedObject, ...]
    epochs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """What is to be copied, as it stood on the event loop: `files` by kind, the batches first."""

    disk: Disk
    name_of: Callable[[str], str]
    files: tuple[tuple[str, str, int], ...]  # kind, path, size
    bounds: Bounds

    def run(self, store: ObjectStore) -> "CopiedSegment":
        """Write and verify every object, the batches last.

        StoreError or OSError if it cannot be done now, CorruptRecord if the segment must not be copied.
        """
        epochs = self._checked_epochs()
        lines = render_lines([f"{epoch} {start}" for epoch, start in epochs])
        copied = [self._copy(store, EPOCHS, len(lines), lambda: iter((lines,)))]
        for kind, path, size_bytes in reversed(self.files):
            pieces = _Pieces(self.disk, path, size_bytes)
            copied.append(self._copy(store, kind, size_bytes, pieces))
        return CopiedSegment(tuple(reversed(copied)), epochs)

    def _checked_epochs(self) -> tuple[tuple[int, int], ...]:
        """Look at every batch once more: a reader of the copy would refuse what is wrong with it.

        The leader epochs of the records, with their first offsets. The log itself has forgotten those of records
        below its start, which a segment may begin with.
        """
        epochs: list[tuple[int, int]] = []
        _, path, size_bytes = self.files[0]
        file, position, next_offset = self.disk.open(path), 0, self.bounds.base_offset
        while position < size_bytes:
            wanted = _PIECE_BYTES
            while True:
                data = file.read(position, min(wanted, size_bytes - position))
                bounds = self.bounds._replace(base_offset=next_offset, size_bytes=size_bytes - position)
                batches, end, _ = whole_batches(data, 0, bounds, None)
                if batches:
                    break
                wanted *= 2
            for batch in batches:
                if not epochs or epochs[-1][0] != batch.leader_epoch:
                    epochs.append((batch.leader_epoch, batch.base_offset))
            position, next_offset = position + end, batches[-1].last_offset + 1
        if next_offset != self.bounds.next_offset:
            raise CorruptRecord(f"the segment ends at {next_offset}, and the next one begins later")
        return tuple(epochs)

    def _copy(
        self, store: ObjectStore, kind: str, size_bytes: int, pieces: Callable[[], Iterator[bytes]]
    ) -> CopiedObject:
        name, checksum = self.name_of(kind), _Checksum()
        store.put(name, size_bytes, checksum.of(pieces()))
        written = CopiedObject(kind, size_bytes, checksum.crc)
        if checksum.size_bytes != size_bytes:
            raise StoreError(f"{name}: the store took {checksum.size_bytes} of {size_bytes} bytes")
        verify(store, name, written)
        return written


class _Pieces:
    """The bytes of a file, a piece at a time; from the beginning with every call."""

    def __init__(self, disk: Disk, path: str, size_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._size_bytes = size_bytes

    def __call__(self) -> Iterator[bytes]:
        file, position = self._disk.open(self._path), 0
        while position < self._size_bytes:
            piece = file.read(position, min(_PIECE_BYTES, self._size_bytes - position))
            if not piece:
                raise OSError(f"{self._path} is shorter than it was")
            yield piece
            position += len(piece)


class _Checksum:
    """Counts and sums up the pieces that pass."""

    def __init__(self) -> None:
        self.crc = 0
        self.size_bytes = 0

    def of(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.crc = crc32c(piece, self.crc)
            self.size_bytes += len(piece)
            yield piece


def verify(store: ObjectStore, name: str, written: CopiedObject) -> None:
    """Read an object back. StoreError if it is not what was written."""
    found = store.size(name)
    if found != written.size_bytes:
        raise StoreError(f"{name}: the store has {found} bytes, and {written.size_bytes} were written")
    position, crc = 0, 0
    while position < written.size_bytes:
        piece = store.get(name, position, min(8 * _PIECE_BYTES, written.size_bytes - position))
        if not piece:
            raise StoreError(f"{name}: the store gave {position} of {written.size_bytes} bytes")
        crc = crc32c(piece, crc)
        position += len(piece)
    if position != written.size_bytes or crc != written.crc:
        raise StoreError(f"{name}: the store gave other bytes back than were written")


def plan_copy(log: Log, segment: Segment, name_of: Callable[[str], str]) -> SegmentCopy:
    """The copy of a closed segment of a log, whose objects are named by their kinds.

    On the event loop; OSError if a file cannot be found.
    """
    disk, location = log.extent.location.disk, log.extent.location
    paths = [(kind, segment.path(kind)) for kind in SEGMENT_KINDS]
    paths.append((SNAPSHOT, location.path(segment.next_offset, SNAPSHOT)))
    files = tuple(
        (kind, path, segment.size_bytes if kind == LOG else disk.size(path))
        for kind, path in paths
        if kind == LOG or disk.exists(path)
    )
    return SegmentCopy(
        disk=disk,
        name_of=name_of,
        files=tuple(each for each in files if each[2] > 0),
        bounds=Bounds(segment.size_bytes, segment.base_offset, segment.next_offset, epochs=None),
    )
