"""The processes of a Spark application that is killed again and again: a driver (Python and its JVM),
executors, their Python workers.

`local-cluster` runs Spark's master and workers inside the driver's JVM, and executors as processes of their
own. All of them inherit an environment variable, and are found by it: also those that a killed driver left
behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.repository import ROOT

from ottla.localcluster.waiting import wait_until

_MARK: Final = "OTTLA_CHAOS_SPARK"
_END_DEADLINE_S: Final = 60.0
# Processes that live for seconds: what a JVM does for a long life is more than it gets back.
_SHORT_LIVED_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_ROLES: Final = {  # what tells the processes apart in their command lines
    "driver": "spark.deploy.SparkSubmit",
    "executor": "CoarseGrainedExecutorBackend",
    "python worker": "pyspark.daemon",
}


@dataclass(frozen=True, slots=True)
class Job:
    """The query's source, its table or `topic:` and a topic, and its Spark."""

    bootstrap: str
    topic: str
    table: str
    checkpoint: Path
    master: str


class Driver:
    """One application at a time; each start is a new one that goes on from the same checkpoint."""

    def __init__(self, job: Job, output: Path) -> None:
        self._job = job
        self._output = output
        self._mark = f"{_MARK}={uuid.uuid4()}"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        job = self._job
        command = [sys.executable, "-m", "tests.chaos.spark_query"]
        command += [job.bootstrap, job.topic, job.table, str(job.checkpoint), job.master]
        name, _, value = self._mark.partition("=")
        ours = {name: value, "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": _SHORT_LIVED_JVM}
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ours},
                cwd=ROOT,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def said(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def pids(self, *roles: str) -> list[int]:
        """The processes that have one of these roles, of this driver and of those before it."""
        return [pid for pid, command in self._processes() if any(_ROLES[role] in command for role in roles)]

    def kill_driver(self) -> None:
        """Python and its JVM; executors find out by themselves."""
        assert self._process is not None
        kill([*self.pids("driver"), self._process.pid])
        self._reap()

    def kill_everything(self) -> None:
        """As when the machine fails: driver, executors, Python workers."""
        kill(pid for pid, _ in self._processes())
        self._reap()

    def stop(self) -> int:
        """End the query as its user would; answers the exit status."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(_END_DEADLINE_S)
        finally:
            self.end()

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process is not None:
            self.kill_everything()
            wait_until(lambda: not any(self._processes()), "all of Spark's processes are gone")

    def _reap(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.wait(_END_DEADLINE_S)
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _processes(self) -> Iterator[tuple[int, str]]:
        mark = self._mark.encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    command = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ")
                    yield int(name), command.decode(errors="replace")


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
