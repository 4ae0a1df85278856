"""Commands of the system, run to their end."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

_NEEDED: Final = ("ip", "nft", "mkfs.ext4", "mount", "umount", "setpriv")
_DEADLINE_S: Final = 60


class NoMachinesError(Exception):
    """This system cannot play several machines; the message says what is missing."""


def check_system() -> None:
    """Raise NoMachinesError unless namespaces and mounts can be made here."""
    if os.geteuid() != 0:
        raise NoMachinesError("namespaces and mounts need root: run it with sudo")
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        raise NoMachinesError(f"not installed: {', '.join(missing)} (packages iproute2, nftables, e2fsprogs)")


def system(*command: str, stdin: str | None = None) -> None:
    """Run a command; OSError with its words if it fails."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
