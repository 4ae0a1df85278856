"""The one interface between a broker and files.

Everything a broker does to a disk goes through `Disk`, `File` and `Map`, so that a simulation can put a disk
under the real log code that loses un-fsynced bytes, tears writes and fails on demand.

Rules
- `File.append` writes all buffers at the end or raises; after a failure the caller cuts the file back.
- A file's descriptor is closed when the last reference to the `File` goes: a reader in the middle of a range
  keeps it.
- Writing through a map into a hole of a sparse file would kill the process when the disk is full, because the
  kernel can answer only with a signal. `Map.reserve` asks for the blocks first, where a full disk is an
  ordinary error.
"""

import contextlib
import errno
import mmap
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ottla.runtime.directory_lock import DirectoryLock

Buffer = bytes | bytearray | memoryview

_IOV_MAX: Final = 1024  # Linux's limit of buffers per writev
# The volume, the user's quota or the limit of the file size is used up; nothing is wrong with the disk.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_out_of_room(problem: OSError) -> bool:
    """Whether a write failed for lack of room only: it may succeed when there is room again."""
    return problem.errno in _NO_ROOM


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory, with what a listing tells for free."""

    name: str
    size: int
    modified_ms: int
    is_directory: bool


class File(Protocol):
    """A file that grows at its end."""

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int: ...

    def read(self, position: int, size: int) -> bytes: ...

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def fileno(self) -> int | None: ...


class Map(Protocol):
    """A file in memory. `buffer` takes `pack_into` and `unpack_from`."""

    @property
    def buffer(self) -> Any: ...

    def reserve(self, position: int, size: int) -> None: ...


class Lock(Protocol):
    """A data directory that belongs to this process until it is released."""

    def release(self) -> None: ...


class DiskUsage(NamedTuple):
    """The size of a volume and the room that is left on it."""

    total_bytes: int
    free_bytes: int


class Disk(Protocol):
    """The file system operations that a broker needs."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def map(self, path: str) -> Map: ...

    def list(self, directory: str) -> list[Entry]: ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def mkdir(self, path: str) -> None: ...

    def rename(self, path: str, new_path: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def read(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None: ...

    def lock(self, path: str) -> Lock: ...

    def usage(self, path: str) -> DiskUsage: ...

    def absolute(self, path: str) -> str: ...


class OsFile:
    """A file of the operating system, read and written through one descriptor."""

    __slots__ = ("_descriptor", "size")

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._descriptor = -1
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = os.open(path, flags, 0o644)
        self.size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end of the file; the number of bytes written."""
        wanted = sum(map(len, buffers))
        if len(buffers) > _IOV_MAX:
            written = self._append_in_parts(buffers)
        else:
            written = os.writev(self._descriptor, buffers)
            if written != wanted:
                written += self._append_rest(buffers, written)
        self.size += written
        return written

    def _append_in_parts(self, buffers: Sequence[Buffer]) -> int:
        total = 0
        for start in range(0, len(buffers), _IOV_MAX):
            part = buffers[start : start + _IOV_MAX]
            written = os.writev(self._descriptor, part)
            total += written + self._append_rest(part, written)
        return total

    def _append_rest(self, buffers: Sequence[Buffer], written: int) -> int:
        """The kernel took only a part (a nearly full disk, a signal): write what is left."""
        rest = memoryview(b"".join(buffers))[written:]
        left = len(rest)
        while rest:
            count = os.write(self._descriptor, rest)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[count:]
        return left

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (more := os.pread(self._descriptor, size - got, position + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def sync(self) -> None:
        os.fdatasync(self._descriptor) if hasattr(os, "fdatasync") else os.fsync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def fileno(self) -> int | None:
        return self._descriptor


class OsMap:
    """A memory map of a whole file; unmapped when the last reference goes."""

    __slots__ = ("_path", "buffer")

    def __init__(self, path: str) -> None:
        self._path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if sys.version_info >= (3, 13):
                self.buffer = mmap.mmap(descriptor, 0, trackfd=False)
            else:
                self.buffer = mmap.mmap(descriptor, 0)  # holds a descriptor of its own
        finally:
            os.close(descriptor)

    def reserve(self, position: int, size: int) -> None:
        """Have the disk blocks of this range, which is still zeros, or raise OSError where there are none
        left.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            # Portable, and no more work than posix_fallocate for so little: the zeros get their blocks here.
            if os.pwrite(descriptor, bytes(size), position) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)


class OsDisk:
    """The operating system's files."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return OsFile(path, create=create)

    def map(self, path: str) -> OsMap:
        return OsMap(path)

    def list(self, directory: str) -> list[Entry]:
        entries = []
        with os.scandir(directory) as listing:
            for found in listing:
                # A file that another thread removes meanwhile is not there.
                with contextlib.suppress(FileNotFoundError):
                    stat = found.stat()
                    modified_ms = stat.st_mtime_ns // 1_000_000
                    entries.append(Entry(found.name, stat.st_size, modified_ms, found.is_dir()))
        return entries

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        os.replace(path, new_path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace the file as a whole: after a crash there is the old content or the new one.

        Without `sync` a power loss may leave neither; that is for files which recovery can make again.
        """
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def lock(self, path: str) -> DirectoryLock:
        """Hold a lock file, or say with a KafkaError which process holds it."""
        return DirectoryLock.take(path)

    def usage(self, path: str) -> DiskUsage:
        found = shutil.disk_usage(path)
        return DiskUsage(found.total, found.free)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)
