"""The operating system's files, never forced to the disk.

The data of a test, or of a broker that keeps its data in memory, need not survive a power loss, and most of a
small test's time would be spent waiting for the disk. Written data survives the end of the process, killed or
not: the kernel keeps it.
"""

from __future__ import annotations

from ottla.runtime.disk import OsDisk, OsFile


class UnsyncedFile(OsFile):
    """A file that is as durable as the kernel likes."""

    __slots__ = ()

    def sync(self) -> None:
        """Nothing: see above."""


class UnsyncedDisk(OsDisk):
    """A disk of such files."""

    def open(self, path: str, *, create: bool = False) -> UnsyncedFile:
        return UnsyncedFile(path, create=create)

    def sync_directory(self, path: str) -> None:
        """Nothing: see above."""

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        super().write_atomically(path, data, sync=False)
