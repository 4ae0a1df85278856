"""Brings the segments back to what can be trusted after the log was not closed properly (STO-9).

Segments that end above the recovery point are scanned. A torn tail is cut. Damage with valid batches behind it is
different: those batches were given to clients, perhaps acknowledged, so they stay at their offsets, and the damaged
bytes move to `<base>.log.quarantine-<position>` for whoever wants to look at them. An offset that was handed out is
never given to another record; that it is missing is written down first (loss.py).

Every step can be interrupted and repeated: the quarantine file is complete and durable before the rewritten segment
takes the old one's place by a rename.
"""

from typing import Final

from ottla.log.files.file_names import CLEANED, LOG
from ottla.log.opening.scanning import Damage, Scan, scan
from ottla.log.segments.lost_offset import Loss
from ottla.log.segments.segment import Segment
from ottla.log.state import logger
from ottla.runtime.disk import Disk, File

_COPY_BYTES: Final = 1 << 20


def recover_segment(
    disk: Disk,
    directory: str,
    segment: Segment,
    *,
    upper_offset: int | None,
    recovery_point: int,
    may_have_holes: bool,
    loss: Loss,
) -> Scan:
    """Scan one segment and take the damage out.

    Bytes at the end that are no batch are an unfinished write, unless they were flushed once or another segment
    follows: then they were somebody's records.
    """
    found = scan(segment.file, segment.base_offset, upper_offset, may_have_holes=may_have_holes)
    segment.next_offset = found.next_offset
    if not found.damages:
        return found
    path = segment.path(LOG)
    last = found.damages[-1]
    is_tail = last.next_offset == last.first_offset and last.end == found.size_bytes
    if is_tail and upper_offset is None and last.first_offset >= recovery_point:
        logger.warning(
            "%s: cut %d bytes of an unfinished write at %d; the log ends at offset %d",
            path, last.end - last.position, last.position, last.first_offset,
        )  # fmt: skip
        segment.file.truncate(last.position)
        segment.file.sync()
        damages = found.damages[:-1]
    else:
        damages = found.damages
    if damages:
        loss.note(damages[0].first_offset)
        _quarantine(disk, path, segment.file, damages)
        _rewrite(disk, directory, path, segment, damages)
    segment.size_bytes = disk.size(path)
    return found


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


def _rewrite(disk: Disk, directory: str, path: str, segment: Segment, damages: tuple[Damage, ...]) -> None:
    """Replace the segment's file by one without the damaged ranges."""
    source = segment.file
    cleaned = path + CLEANED
    target = disk.open(cleaned, create=True)
    target.truncate(0)
    position = 0
    for damage in damages:
        _copy(source, target, position, damage.position)
        position = damage.end
    _copy(source, target, position, source.size)
    target.sync()
    disk.sync_directory(directory)
    segment.close()
    disk.rename(cleaned, path)
    disk.sync_directory(directory)


def _copy(source: File, target: File, position: int, end: int) -> None:
    while position < end:
        piece = source.read(position, min(_COPY_BYTES, end - position))
        if not piece:
            return
        target.append([piece])
        position += len(piece)
