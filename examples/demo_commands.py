"""The commands that the demo runs, as a person would type them; each process ends with the demo at the
latest.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.localcluster.broker_process import clean_environment

OTTLA = [sys.executable, "-m", "ottla.cli.main"]
_STOP_S = 30.0


class DemoError(Exception):
    """A failure that ends the demo; the message is for the person who watches."""


@contextlib.contextmanager
def running(
    command: list[str], output: Path, patience_s: float = _STOP_S
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, stopped, or killed if it does not stop, at the end of the block."""
    with output.open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            env=clean_environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        _end(process, patience_s)


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    try:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(patience_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):  # its children, such as a JVM that still runs
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def audit(topic: str, table: str, bootstrap: str) -> dict[str, object]:
    """The answer of `ottla audit --json`; exit code 1 is an answer, too."""
    command = [*OTTLA, "audit", topic, table, "--bootstrap", bootstrap, "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        start_new_session=True,
    )
    try:
        output, errors = process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode not in (0, 1):
        raise DemoError(f"ottla audit: {errors[-2000:]}")
    found: dict[str, object] = json.loads(output)
    return found
