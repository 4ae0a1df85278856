"""Removes the files that an interrupted roll, swap or deletion left in a partition directory.

x.cleaned   was being written: removed, and with it every .swap that belongs to it
x.swap      was complete: replaces all segments whose offsets it covers
x.deleted   was out of the log already: removed
x.tmp       was being written: removed
an index without its .log: removed
"""

import logging

from ottla.log.files.file_names import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SEGMENT_KINDS,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
)
from ottla.log.opening.scanning import scan
from ottla.runtime.disk import Disk, Entry

logger = logging.getLogger(__name__)


def clear_leftovers(disk: Disk, directory: str) -> dict[str, Entry]:
    """Remove or complete interrupted work; the files that are left, by name."""
    listing = {entry.name: entry for entry in disk.list(directory)}
    names = set(listing)
    _clear_cleaned(disk, directory, names)
    for base in sorted(base for name in names if (base := offset_of(name, LOG + SWAP)) is not None):
        _complete_swap(disk, directory, names, base)
    _remove(disk, directory, names, [name for name in names if name.endswith((SWAP, DELETED, TEMPORARY))])
    _remove(disk, directory, names, _orphans(names))
    if names == listing.keys():
        return listing
    disk.sync_directory(directory)
    return {entry.name: entry for entry in disk.list(directory)}


def _clear_cleaned(disk: Disk, directory: str, names: set[str]) -> None:
    """Remove .cleaned files, and before them the .swap files that would have been complete only with them.

    Those have the same offset, or they are the later halves of a segment that Kafka was splitting: such a
    half never was a segment. A .swap file at the offset of a segment belongs to a swap, and other .cleaned
    files do not concern it.
    """
    cleaned = [name for name in names if name.endswith(CLEANED)]
    offsets = {int(name[:20]) for name in cleaned if name[:20].isdecimal()}
    had_segment = {
        offset
        for name in names
        for kind in (LOG, LOG + DELETED)
        if (offset := offset_of(name, kind)) is not None
    }
    unfinished = [
        name
        for name in names
        if name.endswith(SWAP)
        and name[:20].isdecimal()
        and (
            (base := int(name[:20])) in offsets
            or (base not in had_segment and base > min(offsets, default=base))
        )
    ]
    _remove(disk, directory, names, unfinished)
    _remove(disk, directory, names, cleaned)


def _complete_swap(disk: Disk, directory: str, names: set[str], base: int) -> None:
    """Replace the old segments by the new one. If this is interrupted, the next opening repeats it."""
    swap = f"{directory}/{file_name(base, LOG + SWAP)}"
    end = scan(disk.open(swap), base, None, may_have_holes=True).next_offset
    if end == base and file_name(base, LOG) in names:
        logger.error("%s holds no batch: the segment that it should have replaced stays", swap)
        return
    logger.warning("%s: completing an interrupted swap of offsets %d to %d", directory, base, end)
    for name in list(names):
        offset = offset_of(name, LOG)
        if offset is not None and base < offset < end:
            _remove_segment(disk, directory, names, offset, SEGMENT_KINDS)
    if file_name(base, LOG) in names:
        # All files at this offset are old ones, including a .txnindex, which the new segment may not have.
        # The .log is removed last: while it exists, the others are known to be old.
        _remove_segment(disk, directory, names, base, (TXN_INDEX, INDEX, TIME_INDEX, LOG))
    for kind in (TXN_INDEX, INDEX, TIME_INDEX, LOG):
        if file_name(base, kind + SWAP) in names:
            disk.rename(f"{directory}/{file_name(base, kind + SWAP)}", f"{directory}/{file_name(base, kind)}")
            names.discard(file_name(base, kind + SWAP))
            names.add(file_name(base, kind))


def _remove_segment(disk: Disk, directory: str, names: set[str], base: int, kinds: tuple[str, ...]) -> None:
    files = [file_name(base, kind) for kind in kinds]
    _remove(disk, directory, names, [name for name in files if name in names])


def _orphans(names: set[str]) -> list[str]:
    bases = {offset for name in names if (offset := offset_of(name, LOG)) is not None}
    return [
        name
        for name in names
        for kind in (INDEX, TIME_INDEX, TXN_INDEX)
        if (offset := offset_of(name, kind)) is not None and offset not in bases
    ]


def _remove(disk: Disk, directory: str, names: set[str], unwanted: list[str]) -> None:
    for name in unwanted:
        disk.remove(f"{directory}/{name}")
        names.discard(name)
