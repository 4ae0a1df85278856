"""Brokers as processes, for tests and for the benchmark.

A broker runs as its users run it: a process of its own, started by its command, on a port of the kernel's
choice, with everything it says kept in a file beside its data. Whoever starts one stops it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOST = "127.0.0.1"
START_DEADLINE_SECONDS = 60.0  # a cold JVM beside a busy test run; Ottla itself needs well under one
STOP_DEADLINE_SECONDS = 20.0
ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost):(\d+)")


class BrokerError(Exception):
    """A broker process did not come up, did not go down, or ended by itself."""


@dataclass(slots=True)
class BrokerProcess:
    """One running broker: where clients reach it, where its data lies, and what it said."""

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
        """Ask politely (SIGTERM) and wait; answers the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """What a crash does (SIGKILL)."""
        return self._end(signal.SIGKILL)

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def _end(self, how: signal.Signals) -> int:
        if self.is_running():
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise BrokerError(
                f"{self.name} did not stop in {STOP_DEADLINE_SECONDS} s:\n{self.said()[-2000:]}"
            ) from None


def free_port() -> int:
    """A port that nobody had a moment ago, for programs that cannot take port 0."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], what: str, deadline_seconds: float = 20.0) -> None:
    """Wait for a condition, not for a time; says what was waited for when it never came."""
    deadline = time.monotonic() + deadline_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {deadline_seconds} s: {what}")
        time.sleep(0.01)


def accepts_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def spawn(
    name: str, command: Sequence[str], data: Path, output: Path, port: int, *, own_session: bool = False
) -> BrokerProcess:
    """Start a broker's process; nothing is known yet about whether it is ready."""
    output.parent.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTTLA_")}
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=own_session,
        )
    return BrokerProcess(name, process, port, data, output)


def await_ready(broker: BrokerProcess, is_ready: Callable[[], bool]) -> BrokerProcess:
    """Wait until the broker serves; if it ends first, show its last words."""

    def ready_or_dead() -> bool:
        if not broker.is_running():
            raise BrokerError(
                f"{broker.name} ended with {broker.process.returncode}:\n{broker.said()[-4000:]}"
            )
        return is_ready()

    try:
        wait_until(ready_or_dead, f"{broker.name} is ready", START_DEADLINE_SECONDS)
    except TimeoutError as error:
        broker.kill()
        raise BrokerError(f"{error}\n{broker.said()[-4000:]}") from None
    return broker


def start_ottla(data: Path, settings: Mapping[str, str] | None = None, *, port: int = 0) -> BrokerProcess:
    """Ottla by its own command; the address comes from the line it prints when it is ready."""
    command = [
        str(Path(sys.executable).with_name("ottla")),
        "serve",
        "--data",
        str(data),
        "--port",
        str(port),
    ]
    for name, value in (settings or {}).items():
        command += ["--set", f"{name}={value}"]
    broker = spawn("ottla", command, data, data.with_name(data.name + ".output"), port)

    def address_is_printed() -> bool:
        found = ADDRESS.search(broker.said())
        if found is not None:
            broker.port = int(found.group(1))
        return found is not None and accepts_connections(broker.port)

    return await_ready(broker, address_is_printed)


@contextlib.contextmanager
def running(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """Stop the broker at the end of the block, whatever happens in it."""
    try:
        yield broker
    finally:
        if broker.is_running():
            broker.stop()
