"""One broker as a process of its own, for programs that start a single broker: tests, benchmarks, examples.

The broker runs as its users run it: started by its command, on a port of the kernel's choice, with its output
in a file beside its data. The caller that starts a broker stops it (`running`). Brokers of other makes are
started with `spawn` and `await_ready`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.localcluster.ports import HOST, accepts_connections
from ottla.localcluster.waiting import wait_until

START_DEADLINE_S: Final = 60.0  # a cold JVM on a busy machine; Ottla itself needs well under one
STOP_DEADLINE_S: Final = 20.0
_ADDRESS: Final = re.compile(r"(?:127\.0\.0\.1|localhost):(\d+)")
_LAST_CHARACTERS: Final = 4_000


class BrokerError(Exception):
    """A broker process did not come up, did not go down, or ended by itself."""


@dataclass(slots=True)
class BrokerProcess:
    """One running broker: where clients reach it, where its data lies, and what it has printed."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    data: Path
    output: Path

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> int:
        """Stop the broker as its operator would (SIGTERM) and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """End the broker as a crash would (SIGKILL)."""
        return self._end(signal.SIGKILL)

    def said(self) -> str:
        """Everything that the process has printed."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def _end(self, how: signal.Signals) -> int:
        if self.is_running():
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise BrokerError(
                f"{self.name} did not stop in {STOP_DEADLINE_S} s:\n{self.said()[-_LAST_CHARACTERS:]}"
            ) from None


def clean_environment() -> dict[str, str]:
    """This process's environment without settings that were made for other brokers."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}


def spawn(
    name: str, command: Sequence[str], data: Path, output: Path, port: int, *, own_session: bool = False
) -> BrokerProcess:
    """Start a broker's process without waiting for it to be ready."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            start_new_session=own_session,
        )
    return BrokerProcess(name, process, port, data, output)


def await_ready(broker: BrokerProcess, is_ready: Callable[[], bool]) -> BrokerProcess:
    """Wait until the broker serves; BrokerError with its last output if it ends first or takes too long."""

    def ready_or_dead() -> bool:
        if not broker.is_running():
            raise BrokerError(
                f"{broker.name} ended with {broker.process.returncode}:\n{broker.said()[-_LAST_CHARACTERS:]}"
            )
        return is_ready()

    try:
        wait_until(ready_or_dead, f"{broker.name} is ready", START_DEADLINE_S)
    except TimeoutError as error:
        broker.kill()
        raise BrokerError(f"{error}\n{broker.said()[-_LAST_CHARACTERS:]}") from None
    return broker


def serve_command(
    data: Path, settings: Mapping[str, str] | None = None, *, port: int = 0, is_verbose: bool = False
) -> list[str]:
    """`ottla serve` as the installed command."""
    ottla = str(Path(sys.executable).with_name("ottla"))
    command = [ottla, "serve", "--data", str(data), "--port", str(port)]
    command += ["--verbose"] if is_verbose else []
    for name, value in (settings or {}).items():
        command += ["--set", f"{name}={value}"]
    return command


def start_broker(
    data: Path, settings: Mapping[str, str] | None = None, *, port: int = 0, is_verbose: bool = False
) -> BrokerProcess:
    """Start `ottla serve` and wait until it serves, at the address that it prints when it is ready."""
    command = serve_command(data, settings, port=port, is_verbose=is_verbose)
    broker = spawn("ottla", command, data, data.with_name(f"{data.name}.output"), port)

    def address_is_printed() -> bool:
        found = _ADDRESS.search(broker.said())
        if found is not None:
            broker.port = int(found.group(1))
        return found is not None and accepts_connections(broker.port)

    return await_ready(broker, address_is_printed)


@contextlib.contextmanager
def running(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """Stop the broker at the end of the block."""
    try:
        yield broker
    finally:
        if broker.is_running():
            broker.stop()
