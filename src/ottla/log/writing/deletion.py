"""Takes segments, or a whole log, away in two steps: files are renamed first, and removed some time later.

In between, a reader that has such a file open goes on reading it, and a crash leaves files that the next opening
clears away. The oldest go first, so that at every moment the log is one piece.
"""

from collections.abc import Sequence
from typing import Final

from ottla.log.files.file_names import DELETED, SEGMENT_KINDS, SNAPSHOT
from ottla.log.segments.segment import Segment
from ottla.log.state import LogState
from ottla.runtime.disk import Disk
from ottla.runtime.randomness import unique_hex

_LONGEST_NAME: Final = 255  # of a file, on nearly every file system


class DeletedSegments:
    """Files that are out of the log. `run` removes them; it may be called in any thread, once."""

    __slots__ = ("_directory", "_disk", "_paths", "size_bytes")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._paths: list[str] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, segment: Segment) -> None:
        """Rename the segment's files; its .log goes first, because without it the others mean nothing."""
        for kind in (*SEGMENT_KINDS, SNAPSHOT):
            self.add_file(segment.path(kind))
        self.size_bytes += segment.size_bytes

    def add_file(self, path: str) -> None:
        """Rename one file, if it is there."""
        if self._disk.exists(path):
            self._disk.rename(path, path + DELETED)
            self._paths.append(path + DELETED)

    def run(self) -> None:
        """Remove the files from the disk."""
        for path in self._paths:
            if self._disk.exists(path):
                self._disk.remove(path)
        self._paths.clear()
        self._disk.sync_directory(self._directory)


class DeletedLog:
    """A directory that is no log any more. `run` removes it; it may be called in any thread, once."""

    __slots__ = ("_directory", "_disk")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def run(self) -> None:
        """Remove the files and the directory from the disk."""
        for entry in self._disk.list(self._directory):
            self._disk.remove(f"{self._directory}/{entry.name}")
        self._disk.remove_directory(self._directory)


def delete_directory(disk: Disk, directory: str) -> DeletedLog:
    """Rename a log's directory, as Kafka does: no half of a log is ever opened again."""
    parent, _, name = directory.rpartition("/")
    suffix = f".{unique_hex()}-delete"
    doomed = f"{parent}/{name[: _LONGEST_NAME - len(suffix)]}{suffix}"
    disk.rename(directory, doomed)
    disk.sync_directory(parent)
    return DeletedLog(disk, doomed)


def delete_segments(state: LogState, base_offsets: Sequence[int], log_start_offset: int) -> DeletedSegments:
    """Take the segments with these base offsets out; never the active one."""
    deleted = DeletedSegments(state.disk, state.directory)
    wanted = set(base_offsets)
    for segment in list(state.segments):
        if segment is state.segments.active or segment.base_offset not in wanted:
            break
        deleted.add(segment)
        state.segments.remove(segment)
        segment.close()
    first = state.segments[0].base_offset
    state.log_start_offset = max(state.log_start_offset, first, min(log_start_offset, state.log_end_offset))
    state.leader_epochs.truncate_from_start(state.log_start_offset)
    state.unsynced_directories.add(state.directory)
    return deleted
