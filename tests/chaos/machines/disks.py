"""A file system for each broker: ext4 in an image file, mounted at the broker's data directory.

Power is lost as a machine loses it. The image is copied while the file system is mounted: the copy has what
ext4 has written to its device and lacks what waits in memory. Then the copy is mounted in place of the
original, and ext4 replays its journal. The machine that runs the test does not restart, so the broker's note
of the machine's boot is changed to the name of another boot.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.chaos.machines.commands import system

from ottla.log.directory import BOOT_ID

_BYTES: Final = 1 << 30
_BALLAST: Final = "ballast"


class LoopDisk:
    """The disk of one broker; the broker must not run while its disk loses power or is replaced."""

    def __init__(self, image: Path, mounted_at: Path) -> None:
        self._image = image
        self._place = mounted_at

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        self._place.mkdir(parents=True)
        self._format()
        self._mount()
        try:
            yield
        finally:
            system("umount", "--lazy", str(self._place))
            self._image.unlink()

    def lose_power(self) -> None:
        """Forget what was written and not flushed."""
        copy = self._image.with_suffix(".copy")
        system("cp", "--sparse=always", str(self._image), str(copy))
        system("umount", str(self._place))
        copy.replace(self._image)
        self._mount()
        noted = self._place / BOOT_ID
        if noted.exists():
            noted.write_text(str(uuid4()))

    def replace(self) -> None:
        """An empty disk in place of this one."""
        system("umount", str(self._place))
        self._format()
        self._mount()

    def fill(self) -> None:
        """Take all space that is left."""
        free = os.statvfs(self._place)
        ballast = os.open(self._place / _BALLAST, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.posix_fallocate(ballast, 0, max(1, (free.f_bavail - 8) * free.f_frsize))
            with contextlib.suppress(OSError):
                while True:
                    os.write(ballast, bytes(4096))
        finally:
            os.close(ballast)

    def empty(self) -> None:
        """Give back what `fill` took."""
        (self._place / _BALLAST).unlink(missing_ok=True)

    def _format(self) -> None:
        self._image.unlink(missing_ok=True)
        with self._image.open("wb") as file:
            file.truncate(_BYTES)
        system("mkfs.ext4", "-q", "-m", "0", str(self._image))

    def _mount(self) -> None:
        system("mount", "-o", "loop", str(self._image), str(self._place))
        with contextlib.suppress(OSError):
            (self._place / "lost+found").rmdir()
