"""A cleaner in another process, as this one sees it: the same two calls, which block until the answer is there."""

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


class CleanerDied(Exception):  # noqa: N818 - what happened, not whose fault it was
    """The process ended without an answer: it was killed, or failed in a way it did not expect."""


class RemoteCleaner:
    """One cleaner process. Calls come from one thread; `kill` may come from any, and ends a call under way."""

    def __init__(self, limits: CleanerLimits) -> None:
        # -P: whatever lies in the working directory is not imported. The hashes' secret is drawn by each process, even
        # where the environment fixes it for this one: keys could be chosen to collide otherwise.
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
        """End it at once."""
        self._process.kill()

    def close(self) -> None:
        """End it, and leave neither a process nor a pipe behind. No call may be under way."""
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
