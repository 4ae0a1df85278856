"""A real disk that can be told to be full, to fail a read, a write or a sync, or to be slow with one. Counts what was
synced and read.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from ottla.runtime.disk import Buffer, DiskUsage, Entry, Lock, Map, OsDisk, OsFile

SYNC_DEADLINE_S = 15.0


class TroubledDisk:
    """Everything goes to the operating system's files, unless a test says what goes wrong."""

    def __init__(self) -> None:
        self._disk = OsDisk()
        self.is_full: Callable[[str], bool] = lambda path: False
        self.fails_write: Callable[[str], bool] = lambda path: False
        self.fails_sync: Callable[[str], bool] = lambda path: False
        self.fails_read: Callable[[str], bool] = lambda path: False
        self.holds_sync: Callable[[str], bool] = lambda path: path.endswith(".log")
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.syncs: Counter[str] = Counter()
        self.read_bytes: Counter[str] = Counter()

    def require_room(self, path: str) -> None:
        if self.is_full(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def syncs_of(self, topic: str) -> int:
        """How often a segment of this topic was synced."""
        return sum(
            count for path, count in self.syncs.items() if f"/{topic}-" in path and path.endswith(".log")
        )

    def read_of(self, topic: str) -> int:
        """How many bytes of this topic's records were read."""
        return sum(
            size for path, size in self.read_bytes.items() if f"/{topic}-" in path and path.endswith(".log")
        )

    def open(self, path: str, *, create: bool = False) -> TroubledFile:
        if create and not os.path.exists(path):
            self.require_room(path)
        return TroubledFile(self, path, self._disk.open(path, create=create))

    def map(self, path: str) -> TroubledMap:
        return TroubledMap(self, path, self._disk.map(path))

    def list(self, directory: str) -> list[Entry]:
        return self._disk.list(directory)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def mkdir(self, path: str) -> None:
        if not os.path.isdir(path):
            self.require_room(path)
        self._disk.mkdir(path)

    def rename(self, path: str, new_path: str) -> None:
        self._disk.rename(path, new_path)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def remove_directory(self, path: str) -> None:
        self._disk.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self._disk.sync_directory(path)

    def read(self, path: str) -> bytes:
        return self._disk.read(path)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self.require_room(path)
        self._disk.write_atomically(path, data, sync=sync)

    def lock(self, path: str) -> Lock:
        return self._disk.lock(path)

    def usage(self, path: str) -> DiskUsage:
        return self._disk.usage(path)

    def absolute(self, path: str) -> str:
        return self._disk.absolute(path)


class TroubledFile:
    """A file on the troubled disk."""

    def __init__(self, disk: TroubledDisk, path: str, file: OsFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self._disk.is_full(self._path):
            # As a kernel does when the last block is taken: a part of it is written.
            joined = b"".join(buffers)
            os.write(self._file.fileno() or 0, joined[: len(joined) // 2])
        if self._disk.fails_write(self._path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        self._disk.require_room(self._path)
        return self._file.append(buffers)

    def read(self, position: int, size: int) -> bytes:
        self._disk.read_bytes[self._path] += size
        if self._disk.fails_read(self._path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        return self._file.read(position, size)

    def sync(self) -> None:
        self._disk.syncs[self._path] += 1
        if self._disk.holds_sync(self._path):
            assert self._disk.may_sync.wait(SYNC_DEADLINE_S), "the test forgot to let syncs go on"
        if self._disk.fails_sync(self._path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def fileno(self) -> int | None:
        return self._file.fileno()


class TroubledMap:
    """An index on the troubled disk."""

    def __init__(self, disk: TroubledDisk, path: str, mapped: Map) -> None:
        self._disk = disk
        self._path = path
        self._mapped = mapped
        self.buffer = mapped.buffer

    def reserve(self, position: int, size: int) -> None:
        self._disk.require_room(self._path)
        self._mapped.reserve(position, size)
