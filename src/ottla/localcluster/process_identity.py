"""A process is known by its number and its start time, because numbers are used again."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from ottla.localcluster.state import BrokerState

_PS_SECONDS: Final = 5


def process_started(pid: int) -> str | None:
    """The start time of a process, in the system's own format; None for no process and for a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:  # it ended between the opening of the file and its reading
        return None
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _ps_started(pid)
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def is_alive(broker: BrokerState) -> bool:
    """Whether the process that the state names still runs."""
    if broker.pid is None or broker.process_started is None:
        return False
    return process_started(broker.pid) == broker.process_started


def _ps_started(pid: int) -> str | None:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PS_SECONDS, check=False)
    return done.stdout.strip() or None
