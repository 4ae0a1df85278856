"""How other processes command the supervisor of a local cluster: a line of JSON, and a line back.

    {"token": "...", "command": "kill", "broker": 2}   ->   {"answer": {...}}   or   {"error": "a sentence"}

The supervisor listens on the loopback only and asks for the token in DIR/cluster.json, which only its owner
can read.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from ottla.localcluster.ports import HOST
from ottla.localcluster.state import ClusterError, ClusterState, SupervisorState
from ottla.localcluster.state_file import lock, read_state

_LINE_BYTES: Final = 1 << 20  # the state of the largest cluster takes a hundredth of this
DEADLINE_S: Final = 90.0  # a broker that must recover its logs, on a machine that has other things to do

Handle = Callable[[str, dict[str, Any]], Awaitable[Any]]


class NotRunningError(ClusterError):
    """No supervisor runs for this directory."""


class ControlServer:
    """The port at which the supervisor takes commands."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._token = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, pid: int) -> SupervisorState:
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=_LINE_BYTES)
        return SupervisorState(pid, self._server.sockets[0].getsockname()[1], self._token)

    async def stop(self) -> None:
        """Stop listening; commands under way get a second to be answered."""
        if self._server is not None:
            self._server.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=1)
        for task in self._serving:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            answer = await self._answer(await reader.readline())
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the other process is gone, or is not one of ours
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        request = json.loads(line)
        if not isinstance(request, dict) or request.pop("token", None) != self._token:
            return {"error": "the token is wrong"}
        try:
            return {"answer": await self._handle(request.pop("command"), request)}
        except ClusterError as error:
            return {"error": str(error)}


def ask_supervisor(data: Path, command: str, **arguments: Any) -> Any:
    """Send a command and wait for its answer; ClusterError with a sentence, or NotRunningError."""
    supervisor = running_state(data).supervisor
    assert supervisor is not None
    request = {"token": supervisor.token, "command": command, **arguments}
    try:
        with socket.create_connection((HOST, supervisor.control_port), timeout=DEADLINE_S) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                reply = json.loads(lines.readline())
    except TimeoutError:
        raise ClusterError(f"The supervisor did not answer in {DEADLINE_S:.0f} s.") from None
    except (OSError, ValueError) as error:
        raise NotRunningError(f"The supervisor of {data} went away: {error}.") from error
    if "error" in reply:
        raise ClusterError(reply["error"])
    return reply["answer"]


def running_state(data: Path) -> ClusterState:
    """The state of a cluster that runs; NotRunningError if there is no cluster, or no supervisor."""
    state = read_state(data)
    if state is None:
        raise no_cluster(data)
    if state.supervisor is None or not is_supervised(data):
        raise NotRunningError(
            f"The cluster in {data} is not running. Start it with: ottla cluster up --data {data}"
        )
    return state


def no_cluster(data: Path) -> NotRunningError:
    """The error for a directory that never had a cluster."""
    return NotRunningError(f"There is no cluster in {data}. Start one with: ottla cluster up --data {data}")


def is_supervised(data: Path) -> bool:
    """Whether a supervisor runs: it holds the lock as long as it lives."""
    held = lock(data)
    if held is None:
        return True
    held.close()
    return False
