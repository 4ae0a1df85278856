"""A disk of bounded size in a directory that is in memory.

Files are written as on any disk and never synced. A write beyond the limit fails as on a full disk. The size is
measured now and then by the blocks that the files have, and counted in between: preallocated indexes have a size
without blocks.
"""

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from ottla.runtime.disk import Buffer, DiskUsage
from ottla.runtime.unsynced_disk import UnsyncedDisk, UnsyncedFile

_BLOCK_BYTES: Final = 512  # the unit of st_blocks
# While the disk is full, every append would measure: this seldom is enough to notice that there is room again.
_MEASURE_INTERVAL_MS: Final = 100
# Measuring looks at every file.
_USAGE_INTERVAL_MS: Final = 5_000
_LITTLE: Final = 0.25


class MemoryDisk(UnsyncedDisk):
    """The files below one directory, with `limit_bytes` for all of them."""

    def __init__(self, directory: str, limit_bytes: int, now_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._now_ms = now_ms
        self._free_bytes = limit_bytes
        self._measured_ms = now_ms()

    def take(self, size_bytes: int) -> None:
        """Account for a write; OSError if there is no room for it."""
        if self._free_bytes < size_bytes and self._now_ms() - self._measured_ms >= _MEASURE_INTERVAL_MS:
            self._measure()
        if self._free_bytes < size_bytes:
            raise OSError(errno.ENOSPC, "the memory for data is full")
        self._free_bytes -= size_bytes

    def _measure(self) -> None:
        self._measured_ms = self._now_ms()
        self._free_bytes = max(0, self._limit_bytes - _used_bytes(self._directory))

    def open(self, path: str, *, create: bool = False) -> "MemoryFile":
        return MemoryFile(self, path, create=create)

    def usage(self, path: str) -> DiskUsage:
        """The limit, and the room below it: exact when there is little, and some seconds old when there is much."""
        is_little = self._free_bytes < self._limit_bytes * _LITTLE
        if is_little or self._now_ms() - self._measured_ms >= _USAGE_INTERVAL_MS:
            self._measure()
        return DiskUsage(self._limit_bytes, self._free_bytes)


class MemoryFile(UnsyncedFile):
    """A file whose growth counts."""

    __slots__ = ("_disk",)

    def __init__(self, disk: MemoryDisk, path: str, *, create: bool = False) -> None:
        super().__init__(path, create=create)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end of the file, if there is room for them."""
        self._disk.take(sum(map(len, buffers)))
        return super().append(buffers)


def _used_bytes(directory: str) -> int:
    used = 0
    for path, _, names in os.walk(directory):
        for name in names:
            try:
                used += os.stat(f"{path}/{name}").st_blocks * _BLOCK_BYTES
            except FileNotFoundError:
                continue  # removed meanwhile
    return used
