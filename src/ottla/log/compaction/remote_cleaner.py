"""The broker's end of a cleaner in another process: the calls of `Cleaner`, which block."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.cleaner import CleanerLimits, CleaningJob, Mapped
from ottla.records.batch import CorruptRecord

_MODULE: Final = "ottla.log.compaction.worker_process"


class CleanerDied(Exception):  # noqa: N818 - an event, not an error of the caller
    """The process ended without an answer: it was killed, or failed in an unexpected way."""


class RemoteCleaner:
    """One cleaner process.

    Calls come from one thread; `kill` may come from any, and ends a call under way.
    """

    def __init__(self, limits: CleanerLimits) -> None:
        # -P: nothing is imported from the working directory. Each process draws its own hash seed, even if
        # the environment fixes the broker's: otherwise keys could be chosen to collide.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, json.dumps(asdict(limits)), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "random"},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def build_map(self, job: CleaningJob) -> Mapped:
        """As `Cleaner.build_map`. CorruptRecord, OSError, or CleanerDied."""
        return Mapped(**self._ask({"job": asdict(job)})["mapped"])

    def clean(self, base_offsets: Sequence[int]) -> CleanedSegment:
        """As `Cleaner.clean`. CorruptRecord, OSError, or CleanerDied."""
        return CleanedSegment(**self._ask({"group": list(base_offsets)})["cleaned"])

    def kill(self) -> None:
        """Kill the process; in any thread. A call in progress raises CleanerDied."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, reap it and close its pipes. No call may be in progress."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            line = stdout.readline()
        except (OSError, ValueError) as problem:
            raise CleanerDied(f"the cleaner process does not listen: {problem}") from None
        if not line:
            raise CleanerDied(f"the cleaner process ended with status {self._process.wait()}")
        return _judged(json.loads(line))


def _judged(answer: dict[str, Any]) -> dict[str, Any]:
    if "damage" in answer:
        raise CorruptRecord(answer["damage"])
    if "error" in answer:
        raise OSError(*answer["error"])
    return answer
