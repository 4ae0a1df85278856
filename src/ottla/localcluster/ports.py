"""Ports for the brokers of a local cluster.

A broker that is killed must be able to come back at its port. The kernel's own choice (port 0) lies in the
range that the kernel also uses for outgoing connections: while the broker is down, an outgoing connection may
take its port, even a client that tries to reach that very port and so connects to itself. So free ports are
looked for below that range.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.localcluster.plan.cluster import DEFAULT_HOST
from ottla.localcluster.state import ClusterError

HOST: Final = DEFAULT_HOST
_RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_FIRST_EPHEMERAL: Final = 32768
_WELL_KNOWN: Final = 10_000  # lower ports are those of well-known services
_FEWEST_CANDIDATES: Final = 1_000


def free_ports(host: str, count: int, taken: Iterable[int] = ()) -> list[int]:
    """Different ports on which no process listens now."""
    end = _first_ephemeral_port()
    if end - _WELL_KNOWN < _FEWEST_CANDIDATES:
        end = 65536
    candidates, avoided = range(_WELL_KNOWN, end), set(taken)
    start = random.randrange(len(candidates))
    found: list[int] = []
    for port in (*candidates[start:], *candidates[:start]):
        if len(found) == count:
            return found
        if port not in avoided and port_trouble(host, port) is None:
            found.append(port)
    raise ClusterError(f"There are not {count} free ports at {host}: choose them with --port.")


def free_port() -> int:
    """A free port of this machine."""
    return free_ports(HOST, 1)[0]


def port_trouble(host: str, port: int) -> str | None:
    """Why no process could listen on a port; None if one could."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        return f"the host {host} is not known: choose another with --host"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} of {host} is in use: choose another with --port, or 0 for any that are free"
        return f"port {port} of {host} cannot be used: {(error.strerror or str(error)).lower()}"
    return None


def accepts_connections(port: int) -> bool:
    """Whether a process listens on a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def _first_ephemeral_port() -> int:
    try:
        return int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_FIRST_EPHEMERAL
