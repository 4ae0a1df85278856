"""The disk of one node: it belongs to one incarnation of the process at a time, and fails on demand."""

import errno
import os
from collections.abc import Callable
from random import Random

from tests.simulation.world.disk import SimulatedCrash, SimulatedDisk, SimulatedFile

# A file can be cut on a full disk.
_WRITES = ("append", "create", "reserve")


class NodeDisk(SimulatedDisk):
    """`is_full`, `reads_fail`, `syncs_fail` and `writes_fail` are switches; `crash_after` counts operations down to a
    crash. Reads of files whose paths begin with `unreadable` fail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.reads_fail = False
        self.unreadable: str | None = None
        self.syncs_fail = False
        self.writes_fail = False
        self.crash_after: int | None = None
        self.on_crash: Callable[[], None] = lambda: None
        self.is_dead = False
        self.has_failed = False
        self.files: list[SimulatedFile] = []

    def operation(self, kind: str, path: str) -> None:
        if self.is_dead:
            raise SimulatedCrash
        if kind == "read":
            if self.reads_fail or (self.unreadable is not None and path.startswith(self.unreadable)):
                self._fail(errno.EIO)
            return
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after <= 0:
                if kind != "append":
                    self.on_crash()
                raise SimulatedCrash
        if self.is_full and kind in _WRITES:
            self._fail(errno.ENOSPC)
        if self.writes_fail:
            self._fail(errno.EIO)
        if self.syncs_fail and kind in ("sync", "sync_directory"):
            self._fail(errno.EIO)

    def torn_bytes(self, size: int) -> int:
        # Any part, and always the same one of the same write.
        return 0 if self.is_dead else (size * 2654435761 >> 7) % (size + 1)

    def crashed(self) -> None:
        self.on_crash()

    def descriptor(self, file: SimulatedFile) -> int:
        self.files.append(file)
        return len(self.files) - 1

    def next_incarnation(self, dice: Random, *, loses_power: bool) -> "NodeDisk":
        """The disk that the next process finds; this object does nothing any more."""
        self.is_dead = True
        survivor = self.crash(dice) if loses_power else self.kill()
        assert isinstance(survivor, NodeDisk)
        return survivor

    def _fail(self, code: int) -> None:
        # A disk that was full is as good as before.
        self.has_failed = self.has_failed or code != errno.ENOSPC
        raise OSError(code, os.strerror(code))
