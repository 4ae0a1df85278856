"""Clears up what an interrupted roll, swap or deletion left in a partition directory.

x.deleted   was out of the log already: removed
x.cleaned   was being written: removed, and with it every .swap of the same or a later offset
x.swap      was complete: it takes the place of all segments whose offsets it covers
x.tmp       was being written: removed
an index without its .log: removed
"""

from ottla.log.disk import Disk, Entry
from ottla.log.names import (
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
from ottla.log.scanning import scan
from ottla.log.state import logger


def clear_leftovers(disk: Disk, directory: str) -> dict[str, Entry]:
    """Bring the directory into order; the files that are left, by name."""
    names = {entry.name for entry in disk.list(directory)}
    before = set(names)
    _remove(disk, directory, names, [name for name in names if name.endswith((DELETED, TEMPORARY))])
    _clear_cleaned(disk, directory, names)
    for base in sorted(base for name in names if (base := offset_of(name, LOG + SWAP)) is not None):
        _complete_swap(disk, directory, names, base)
    _remove(disk, directory, names, [name for name in names if name.endswith(SWAP)])
    _remove(disk, directory, names, _orphans(names))
    if names != before:
        disk.sync_directory(directory)
    return {entry.name: entry for entry in disk.list(directory)}


def _clear_cleaned(disk: Disk, directory: str, names: set[str]) -> None:
    cleaned = [name for name in names if name.endswith(CLEANED)]
    offsets = [int(name[:20]) for name in cleaned if name[:20].isdecimal()]
    _remove(disk, directory, names, cleaned)
    if offsets:
        # The swap that these belonged to had not reached the point from which it is completed.
        unfinished = [
            name
            for name in names
            if name.endswith(SWAP) and name[:20].isdecimal() and int(name[:20]) >= min(offsets)
        ]
        _remove(disk, directory, names, unfinished)


def _complete_swap(disk: Disk, directory: str, names: set[str], base: int) -> None:
    """Put the new segment in the place of the old ones; after another crash in here it is done again."""
    swap = f"{directory}/{file_name(base, LOG + SWAP)}"
    end = scan(disk.open(swap), base, None, may_have_holes=True).next_offset
    logger.warning("%s: completing an interrupted swap of offsets %d to %d", directory, base, end)
    for name in list(names):
        offset = offset_of(name, LOG)
        if offset is not None and base < offset < end:
            _remove_segment(disk, directory, names, offset, SEGMENT_KINDS)
    if file_name(base, LOG) in names:
        # All files of this name are old ones, a .txnindex too, which the new segment may not have. The .log goes last:
        # while it is there it says so.
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
