"""The operating system's files, never forced to the disk.

The data of a test need not survive a power loss, and most of a small test's time would be spent waiting for
the disk. Written data survives the end of the process, killed or not: the kernel keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.runtime.disk import Buffer, DiskUsage, Entry, Lock, Map, OsDisk, OsFile


class UnsyncedFile:
    """A file that is as durable as the kernel likes."""

    __slots__ = ("_file",)

    def __init__(self, file: OsFile) -> None:
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, buffers: Sequence[Buffer]) -> int:
        return self._file.append(buffers)

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    def sync(self) -> None:
        """Nothing: see above."""

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def fileno(self) -> int | None:
        return self._file.fileno()


class UnsyncedDisk:
    """A disk of such files."""

    def __init__(self) -> None:
        self._disk = OsDisk()

    def open(self, path: str, *, create: bool = False) -> UnsyncedFile:
        return UnsyncedFile(self._disk.open(path, create=create))

    def map(self, path: str) -> Map:
        return self._disk.map(path)

    def list(self, directory: str) -> list[Entry]:
        return self._disk.list(directory)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def mkdir(self, path: str) -> None:
        self._disk.mkdir(path)

    def rename(self, path: str, new_path: str) -> None:
        self._disk.rename(path, new_path)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def remove_directory(self, path: str) -> None:
        self._disk.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        """Nothing: see above."""

    def read(self, path: str) -> bytes:
        return self._disk.read(path)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._disk.write_atomically(path, data, sync=False)

    def lock(self, path: str) -> Lock:
        return self._disk.lock(path)

    def usage(self, path: str) -> DiskUsage:
        return self._disk.usage(path)

    def absolute(self, path: str) -> str:
        return self._disk.absolute(path)
