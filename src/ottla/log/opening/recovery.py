"""Repairs segments after the log was not closed cleanly (STO-9).

Segments that end above the recovery point are scanned. A torn tail is truncated. Damage with valid batches
after it is different: those batches were perhaps acknowledged or read, so they stay at their offsets, and the
damaged bytes are copied to `<base>.log.quarantine-<position>` for inspection. The offset of a lost record is
never given to another one; that it is lost is made durable first (`lost_offset`).

Every step can be interrupted and repeated: the quarantine file is complete and durable before the rewritten
segment replaces the old one by a rename.
"""

import logging
from typing import Final

from ottla.log.files.file_names import CLEANED, LOG
from ottla.log.files.location import Location
from ottla.log.opening.scanning import Damage, Scan, scan
from ottla.log.segments.lost_offset import Loss
from ottla.log.segments.segment import Segment
from ottla.records.batch import HEADER_BYTES, CorruptRecord, read_header
from ottla.runtime.disk import Disk, File

logger = logging.getLogger(__name__)

_COPY_BYTES: Final = 1 << 20


def recover_segment(
    location: Location,
    segment: Segment,
    *,
    upper_offset: int | None,
    recovery_point: int,
    may_have_holes: bool,
    loss: Loss,
) -> Scan:
    """Scan one segment and remove the damage.

    Bytes at the end that are no batch are an unfinished write, unless they were flushed once or another
    segment follows: then they were records.
    """
    found = scan(segment.file, segment.base_offset, upper_offset, may_have_holes=may_have_holes)
    if not found.damages:
        segment.end_at(found.next_offset)
        return found
    path = segment.path(LOG)
    last = found.damages[-1]
    is_tail = last.next_offset == last.first_offset and last.end == found.size_bytes
    if is_tail and upper_offset is None and last.first_offset >= recovery_point:
        logger.warning(
            "%s: truncated %d bytes of an unfinished write at %d; the log ends at offset %d",
            path, last.end - last.position, last.position, last.first_offset,
        )  # fmt: skip
        if not _is_unfinished(segment.file, last):
            loss.note_damaged_tail()
        segment.file.truncate(last.position)
        segment.file.sync()
        damages = found.damages[:-1]
    else:
        damages = found.damages
    if damages:
        loss.note(damages[0].first_offset)
        _quarantine(location.disk, path, segment.file, damages)
        _rewrite(location, path, segment, damages)
    segment.recover(found.next_offset)
    return found


def _is_unfinished(file: File, tail: Damage) -> bool:
    """Whether the bytes at the end of a file are the beginning of a batch, or were never written."""
    beginning = file.read(tail.position, HEADER_BYTES)
    if len(beginning) < HEADER_BYTES or not any(beginning):
        return True
    try:
        header = read_header(beginning)
    except CorruptRecord:
        return False
    return tail.position + header.size_bytes > tail.end


def _quarantine(disk: Disk, path: str, file: File, damages: tuple[Damage, ...]) -> None:
    for damage in damages:
        kept = f"{path}.quarantine-{damage.position}"
        logger.error(
            "%s: %d damaged bytes at %d, offsets %d to %s are lost; the bytes are kept in %s",
            path, damage.end - damage.position, damage.position, damage.first_offset,
            damage.next_offset - 1 if damage.next_offset > damage.first_offset else "the segment's end", kept,
        )  # fmt: skip
        target = disk.open(kept, create=True)
        target.truncate(0)
        _copy(file, target, damage.position, damage.end)
        target.sync()


def _rewrite(location: Location, path: str, segment: Segment, damages: tuple[Damage, ...]) -> None:
    """Replace the segment's file by one without the damaged ranges."""
    disk, source = location.disk, segment.file
    cleaned = path + CLEANED
    target = disk.open(cleaned, create=True)
    target.truncate(0)
    position = 0
    for damage in damages:
        _copy(source, target, position, damage.position)
        position = damage.end
    _copy(source, target, position, source.size)
    target.sync()
    disk.sync_directory(location.directory)
    segment.close()
    disk.rename(cleaned, path)
    disk.sync_directory(location.directory)


def _copy(source: File, target: File, position: int, end: int) -> None:
    while position < end:
        piece = source.read(position, min(_COPY_BYTES, end - position))
        if not piece:
            return
        target.append([piece])
        position += len(piece)
