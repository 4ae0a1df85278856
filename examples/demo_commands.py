"""The commands that the demo runs, as a person would type them; each is a process that is gone when the demo is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

OTTLA = [sys.executable, "-m", "ottla.cli.main"]
_READY_S = 60.0
_STOP_S = 30.0


class DemoError(Exception):
    """Something that ends the demo; the message is for the person who watches."""


def environment(**more: str) -> dict[str, str]:
    """This program's, without settings of Ottla that somebody made for other brokers."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")} | more


@contextlib.contextmanager
def running(
    command: list[str], output: Path, patience_s: float = _STOP_S
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session, which is stopped, and if need be killed, whatever happens."""
    with output.open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            env=environment(),
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
        with contextlib.suppress(
            ProcessLookupError
        ):  # what it left behind, such as a JVM that did not hear of it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def cluster(data: Path, brokers: int) -> Iterator[str]:
    """`ottla cluster up`; answers where its brokers are."""
    data.mkdir()
    output = data.with_suffix(".log")
    command = [*OTTLA, "cluster", "up", "--until-eof", "--brokers", str(brokers), "--port", "0"]
    with running([*command, "--data", str(data)], output) as process:
        deadline = time.monotonic() + _READY_S
        while " at " not in (said := _ready_line(output)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise DemoError(f"the cluster did not start:\n{output.read_text()[-2000:]}")
            time.sleep(0.05)
        yield said.split(" at ")[1].split(", data in ")[0].replace(" ", "")


def _ready_line(output: Path) -> str:
    lines = output.read_text(errors="replace").splitlines()
    return next((line for line in lines if line.startswith("The cluster is ready")), "")


def ottla(*words: object) -> str:
    """A command that ends by itself; what it said."""
    done = subprocess.run(
        [*OTTLA, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(COLUMNS="120"),
    )
    if done.returncode != 0:
        raise DemoError(f"ottla {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def audit(topic: str, table: Path, bootstrap: str) -> dict[str, object]:
    """`ottla audit --json`: exit code 1 is an answer, too."""
    command = [*OTTLA, "audit", topic, str(table), "--bootstrap", bootstrap, "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
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
