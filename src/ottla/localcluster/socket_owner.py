"""Which process has the other end of a connection on this machine.

TLS hides who speaks; the operating system knows. A socket has a row with both ports in /proc/net/tcp, and a process
that has the socket open has a descriptor of the row's inode.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# The columns of a row: local address, remote address, inode.
_LOCAL, _REMOTE, _INODE = 1, 2, 9


def can_tell_owners() -> bool:
    """Whether this system has the tables that `owner_of` reads."""
    return _TABLES[0].exists()


def owner_of(port: int, connected_to: int, processes: Iterable[int]) -> int | None:
    """The process among some that has a socket with this port, connected to the other one; None if none has."""
    inode = _inode(port, connected_to)
    if inode is None:
        return None
    return next((pid for pid in processes if _has_open(pid, f"socket:[{inode}]")), None)


def _inode(port: int, connected_to: int) -> str | None:
    local, remote = f":{port:04X}", f":{connected_to:04X}"
    for table in _TABLES:
        with suppress(OSError):
            for row in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = row.split()
                if fields[_LOCAL].endswith(local) and fields[_REMOTE].endswith(remote):
                    return fields[_INODE]
    return None


def _has_open(pid: int, socket: str) -> bool:
    directory = f"/proc/{pid}/fd"
    with suppress(OSError):  # the process has ended, or belongs to somebody else
        for descriptor in os.listdir(directory):
            with suppress(OSError):  # closed meanwhile
                if os.readlink(f"{directory}/{descriptor}") == socket:
                    return True
    return False
