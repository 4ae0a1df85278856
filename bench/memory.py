"""Give every measurement memory that the machine really has.

A virtual machine may hold only the memory that it has used lately: the host takes back what was free for
seconds, and the first write to such a page costs ten times the write itself (2.5 against 0.25 seconds per GB
where this was written). Whoever happens to get those pages looks slow. So page cache is kept in store, by
reading the holes of a sparse file, and let go just before a measurement that writes: the kernel hands out
first what was freed last.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

CHUNK_BYTES = 4 << 20


def memory_bytes(name: str) -> int:
    """A line of /proc/meminfo."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"/proc/meminfo has no {name}")
    return int(found.group(1)) * 1024


class WarmPages:
    """Page cache in store: `keep` takes it from the machine, `release` gives it to whoever writes next."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self._path = directory / "hole"
        self._size_bytes = min(size_bytes, memory_bytes("MemAvailable") // 4)
        self._is_kept = False

    def keep(self) -> None:
        if self._is_kept:
            return
        chunk = bytearray(CHUNK_BYTES)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(descriptor, self._size_bytes)
            for position in range(0, self._size_bytes, CHUNK_BYTES):
                os.preadv(descriptor, [chunk], position)
        finally:
            os.close(descriptor)
        self._is_kept = True

    def release(self) -> None:
        if self._is_kept:
            os.truncate(self._path, 0)
            self._is_kept = False
