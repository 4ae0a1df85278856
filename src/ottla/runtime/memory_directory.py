"""A directory in memory for the length of one process.

On Linux the directory is on the memory file system at /dev/shm: real files and descriptors, so that `sendfile`
and memory maps work as on a disk. Where there is none, the directory is among the temporary files.

A process that is killed cannot remove its directory. The directory is locked while its process lives, and the
next one that is created removes all that are not locked.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from typing import Final, Self

_MEMORY: Final = "/dev/shm"
_PREFIX: Final = "ottla-memory-"
_LOCK: Final = "lock"
_DATA: Final = "data"
# A directory without a lock is being created, unless it is this old.
_UNLOCKED_S: Final = 60.0


class MemoryDirectory:
    """A directory that is removed with its content by `remove`, or by the next process."""

    def __init__(self, root: str, lock: int) -> None:
        self._root = root
        self._lock = lock
        self.path = f"{root}/{_DATA}"
        self.is_in_memory = root.startswith(_MEMORY)

    @classmethod
    def create(cls) -> Self:
        """A new, empty directory."""
        parent = _MEMORY if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK) else tempfile.gettempdir()
        _remove_abandoned(parent)
        root = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        lock = os.open(f"{root}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.mkdir(f"{root}/{_DATA}")
        return cls(root, lock)

    @property
    def free_bytes(self) -> int:
        """The room that the file system has left for everybody."""
        return shutil.disk_usage(self._root).free

    def remove(self) -> None:
        """Give the memory back."""
        shutil.rmtree(self._root, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(parent: str) -> None:
    with os.scandir(parent) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        # It belongs to somebody else, or another process removes it at the same time.
        with contextlib.suppress(OSError):
            if _is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: str) -> bool:
    try:
        lock = os.open(f"{path}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - os.stat(path).st_mtime > _UNLOCKED_S
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
