"""Files that are out of a log and wait to be removed: of single segments, or of a whole log."""

from typing import Final

from ottla.log.files.file_names import DELETED, SEGMENT_KINDS, SNAPSHOT
from ottla.log.files.location import Location
from ottla.log.segments.segment import Segment
from ottla.runtime.disk import Disk
from ottla.runtime.randomness import unique_hex

_LONGEST_NAME: Final = 255  # of a file, on nearly every file system


class DeletedSegments:
    """Renamed files of segments. `run` removes them; it may be called in any thread, once."""

    __slots__ = ("_directory", "_disk", "_paths", "size_bytes")

    def __init__(self, location: Location) -> None:
        self._disk: Disk = location.disk
        self._directory = location.directory
        self._paths: list[str] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, segment: Segment) -> None:
        """Rename the segment's files; the .log first, because without it the others are ignored."""
        for kind in (*SEGMENT_KINDS, SNAPSHOT):
            self.add_file(segment.path(kind))
        self.size_bytes += segment.size_bytes

    def add_file(self, path: str) -> None:
        """Rename one file, if it exists."""
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
    """The renamed directory of a log. `run` removes it; it may be called in any thread, once."""

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
    """Rename a log's directory, as Kafka does: a half-deleted log is never opened again."""
    parent, _, name = directory.rpartition("/")
    suffix = f".{unique_hex()}-delete"
    doomed = f"{parent}/{name[: _LONGEST_NAME - len(suffix)]}{suffix}"
    disk.rename(directory, doomed)
    disk.sync_directory(parent)
    return DeletedLog(disk, doomed)
