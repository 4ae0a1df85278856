"""Two directories exchange their names in one step, so that a reader finds one or the other.

Linux does it with `renameat2`. Where there is none, or where the file system cannot (some overlays), the old
directory is renamed away first: for a moment there is none.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_HERE: Final = -100  # AT_FDCWD: paths are relative to the working directory
_EXCHANGE: Final = 2  # RENAME_EXCHANGE


def swap(fresh: Path, old: Path) -> None:
    """Give each directory the name of the other; `old` need not be there."""
    if not old.exists():
        os.replace(fresh, old)
    elif not _exchange(fresh, old):
        aside = fresh.with_name(f"{fresh.name}.old")
        os.replace(old, aside)
        os.replace(fresh, old)
        os.replace(aside, fresh)


def _exchange(one: Path, other: Path) -> bool:
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # not Linux, or an old C library
        return False
    return not rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
