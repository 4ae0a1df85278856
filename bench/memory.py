"""Make the machine's memory the same for everybody before the clock starts.

A virtual machine may hold only the memory that it has used lately: the first write to a page that the host must find
costs ten times the write itself (2.5 against 0.25 seconds per GB where this was written), and whoever happens to get
such pages looks slow. So the free memory is filled with page cache first, by reading the holes of a sparse file: a
page that a log's write takes is then one that was there already. Nothing is deleted until the end of the benchmark,
because freed pages go back to the host within seconds.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

CHUNK_BYTES = 4 << 20
KEPT_FREE_BYTES = 256 << 20


def available_bytes(name: str = "MemFree") -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"/proc/meminfo has no {name}")
    return int(found.group(1)) * 1024


def fill_page_cache(directory: Path) -> int:
    """Read a hole as large as the free memory; how many bytes that were. The file must live as long as the pages."""
    size = max(0, available_bytes() - KEPT_FREE_BYTES)
    chunk = bytearray(CHUNK_BYTES)
    descriptor = os.open(directory / "hole", os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(descriptor, size)
        for position in range(0, size, CHUNK_BYTES):
            os.preadv(descriptor, [chunk], position)
    finally:
        os.close(descriptor)
    return size
