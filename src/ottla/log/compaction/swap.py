"""Puts a cleaned segment in the place of those it was made of, so that a crash leaves the old ones or the new one.

    1  x.index.cleaned, … → x.index.swap, …, and last x.log.cleaned → x.log.swap     from here on the new one holds
    2  the old files → .deleted, and last the old x.log
    3  x.index.swap, … → x.index, …, and last x.log.swap → x.log

Everything in the .cleaned files is durable before. The steps are names only, and file systems keep the order of renames
in a directory, so nothing here waits for the disk: after a power loss the directory is as it was after one of them.
Opening (leftovers.py) throws .cleaned files away and completes what an x.log.swap began; the last batch of a cleaned
segment is always kept, so that x.log.swap itself tells which segments it replaces. While x.log is there beside
x.log.swap, all files of x are old ones; when it is gone, they are new ones.

All of it happens in one turn of the loop: a reader opens files by name, and must not do so in between.
"""

from collections.abc import Sequence

from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.files.file_names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments
from ottla.log.state import LogState
from ottla.log.writing.deletion import DeletedSegments
from ottla.runtime.disk import Disk


def swap_cleaned(state: LogState, replaced: Sequence[Segment], cleaned: CleanedSegment) -> DeletedSegments:
    """Replace neighbours that are all sealed; what is to be removed of them later. OSError if it could not be.

    If that happens after the first step, the log refuses writes until it is opened again, which completes the swap.
    """
    disk, directory = state.disk, state.directory
    for kind in cleaned.kinds:
        _rename(disk, directory, cleaned.base_offset, kind + CLEANED, kind + SWAP)
    try:
        deleted = _set_aside(disk, directory, replaced)
        for kind in cleaned.kinds:
            _rename(disk, directory, cleaned.base_offset, kind + SWAP, kind)
    except OSError as problem:
        state.refuse(f"a swap of segments was interrupted ({problem})")
        raise
    state.unsynced_directories.add(directory)
    _install(state, replaced, cleaned)
    return deleted


def discard_cleaned(state: LogState, cleaned: CleanedSegment) -> None:
    """Remove the files of a segment that came too late."""
    for kind in cleaned.kinds:
        state.disk.remove(f"{state.directory}/{file_name(cleaned.base_offset, kind + CLEANED)}")


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove .cleaned files that nobody will ever swap in."""
    for entry in disk.list(directory):
        if entry.name.endswith(CLEANED):
            disk.remove(f"{directory}/{entry.name}")


def _rename(disk: Disk, directory: str, base_offset: int, old_kind: str, new_kind: str) -> None:
    disk.rename(
        f"{directory}/{file_name(base_offset, old_kind)}", f"{directory}/{file_name(base_offset, new_kind)}"
    )


def _set_aside(disk: Disk, directory: str, replaced: Sequence[Segment]) -> DeletedSegments:
    first, *others = replaced
    deleted = DeletedSegments(disk, directory)
    for segment in others:
        deleted.add(segment)
    # The producers' snapshot at the first one's base is the new segment's: it tells of what lies before.
    for kind in (TXN_INDEX, INDEX, TIME_INDEX, LOG):
        deleted.add_file(first.path(kind))
    return deleted


def _install(state: LogState, replaced: Sequence[Segment], cleaned: CleanedSegment) -> None:
    fresh = Segment(
        state.disk,
        state.directory,
        cleaned.base_offset,
        state.open_files,
        size_bytes=cleaned.size_bytes,
        now_ms=replaced[0].created_ms,
    )
    fresh.next_offset = replaced[-1].next_offset
    fresh.modified_ms = replaced[-1].modified_ms
    segments = list(state.segments)
    start = segments.index(replaced[0])
    segments[start : start + len(replaced)] = [fresh]
    state.segments = Segments(segments)
    for segment in replaced:
        segment.close()
