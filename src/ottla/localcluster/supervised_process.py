"""One broker's process under a supervisor. Its output goes to a file, each run after the last."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Final

from ottla.localcluster.process_identity import process_started

_READY: Final = b" is ready at "
_LOOK_AGAIN_S: Final = 0.02
_LAST_LINES: Final = 12
_TAIL_BYTES: Final = 16 << 10


class SupervisedProcess:
    """A process from its start to its end; the next start of the broker is another object."""

    def __init__(self, node_id: int, process: asyncio.subprocess.Process, output: Path, begin: int) -> None:
        self.node_id = node_id
        self.pid = process.pid
        self.started = process_started(process.pid)
        self.end_is_wanted = False
        self.is_awaited = False
        self._process = process
        self._output = output
        self._begin = begin  # of this run's output
        self._read = begin
        self._is_ready = False

    @property
    def exit_status(self) -> int | None:
        """None while the process runs; the negative signal number if a signal ended it."""
        return self._process.returncode

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self, seconds: float | None = None) -> bool:
        """Wait for the end of the process; False if that takes longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
                return True
        return False

    async def stop(self, seconds: float) -> bool:
        """Ask the process to stop, and kill it if it does not; returns whether it stopped in time."""
        self.end_is_wanted = True
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused process does not handle SIGTERM
        if await self.ended(seconds):
            return True
        self.send(signal.SIGKILL)
        await self._process.wait()
        return False

    async def kill(self) -> None:
        self.end_is_wanted = True
        self.send(signal.SIGKILL)
        await self._process.wait()

    async def ready(self) -> bool:
        """Wait until the broker prints that it is ready; False if the process ends first."""
        while not self._has_said_ready():
            if self.exit_status is not None:
                return False
            await asyncio.sleep(_LOOK_AGAIN_S)
        return True

    def last_words(self) -> str:
        """The last lines of this run."""
        with self._output.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(self._begin, size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def _has_said_ready(self) -> bool:
        if not self._is_ready:
            with self._output.open("rb") as file:
                file.seek(self._read)
                said = file.read()
            self._is_ready = _READY in said
            self._read += len(said[: said.rfind(b"\n") + 1])
        return self._is_ready


async def start_process(node_id: int, command: list[str], output: Path) -> SupervisedProcess:
    """Start a broker in a session of its own: Ctrl-C in the supervisor's terminal is for the supervisor."""
    with output.open("ab") as sink:
        begin = sink.tell()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    return SupervisedProcess(node_id, process, output, begin)
