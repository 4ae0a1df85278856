"""The Java client's part of the work: one JVM with a producer, a reader and a member of the group
(`Workload.java`).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.apache.kafka import HOME, TEST_HEAP, fetch
from bench.apache.maven import CannotFetchError
from tests.chaos.workload import GROUP

_SOURCE: Final = Path(__file__).with_name("Workload.java")
_COMPILE_DEADLINE_S: Final = 120
_LOOK_DEADLINE_S: Final = 300
JOURNALS: Final = {"java-producer": None, "java-reader": None, "java-member": GROUP}


def compiled() -> Path:
    """The directory of the compiled program; raises CannotFetchError where Java or Kafka's jars are
    missing.
    """
    jars, classes = fetch(), HOME / "chaos"
    if shutil.which("javac") is None:
        raise CannotFetchError("the Java client's workload needs javac; it is not on the PATH")
    program = classes / "Workload.class"
    if not program.exists() or program.stat().st_mtime < _SOURCE.stat().st_mtime:
        command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(_SOURCE)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_DEADLINE_S, check=False
        )
        if done.returncode != 0:
            raise CannotFetchError(f"javac could not compile {_SOURCE.name}: {done.stderr[-600:]}")
    return classes


class JavaWorkload:
    """The program, and the words that are exchanged with it."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float, directory: Path) -> None:
        classes = compiled()
        command = [
            "java",
            *TEST_HEAP,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp",
            f"{fetch()}/*:{classes}",
            "Workload",
        ]
        self._command = [*command, bootstrap, topic, str(partitions), str(rate), GROUP, str(directory)]
        self._errors = directory / "java.errors"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self._errors.open("w") as sink:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True
            )
        self._hear("ready")

    def stop_producing(self) -> None:
        self._say("stop")
        self._hear("stopped")

    def finish(self, ends: Mapping[int, int], deadline_s: float) -> None:
        assert self._process is not None
        try:
            self._say("finish " + " ".join(f"{partition}:{end}" for partition, end in ends.items()))
            self._hear("finished")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End the program, if it has not ended."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _say(self, words: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()

    def _hear(self, word: str) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        heard = self._process.stdout.readline().strip()
        assert heard == word, (
            f"the Java client said {heard!r}, not {word!r}\n{self._errors.read_text()[-2000:]}"
        )
