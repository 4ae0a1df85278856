"""The broker's end of a cleaner in another process: the calls of `Cleaner`, which block."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.cleaner import CleanerLimits, CleaningJob, Mapped
from ottla.records.batch import CorruptRecord
from ottla.runtime.workers import Workers

MODULE: Final = "ottla.log.compaction.worker_process"


class CleanerDied(Exception):  # noqa: N818 - an event, not an error of the caller
    """The process ended without an answer: it was killed, or failed in an unexpected way."""


class RemoteCleaner:
    """One cleaner process.

    Calls come from one thread; `kill` may come from any, and ends a call under way.
    """

    def __init__(self, limits: CleanerLimits, workers: Workers) -> None:
        self._worker = workers.start(MODULE, json.dumps(asdict(limits)))

    @property
    def pid(self) -> int:
        return self._worker.pid

    def build_map(self, job: CleaningJob) -> Mapped:
        """As `Cleaner.build_map`. CorruptRecord, OSError, or CleanerDied."""
        return Mapped(**self._ask({"job": asdict(job)})["mapped"])

    def clean(self, base_offsets: Sequence[int]) -> CleanedSegment:
        """As `Cleaner.clean`. CorruptRecord, OSError, or CleanerDied."""
        return CleanedSegment(**self._ask({"group": list(base_offsets)})["cleaned"])

    def kill(self) -> None:
        """Kill the process; in any thread. A call in progress raises CleanerDied."""
        self._worker.kill()

    def close(self) -> None:
        """Kill the process, reap it and close its pipes. No call may be in progress."""
        self._worker.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            line = self._worker.ask(json.dumps(question))
        except (OSError, ValueError) as problem:
            raise CleanerDied(f"the cleaner process does not listen: {problem}") from None
        if not line:
            raise CleanerDied(f"the cleaner process ended with status {self._worker.wait()}")
        return _judged(json.loads(line))


def _judged(answer: dict[str, Any]) -> dict[str, Any]:
    if "damage" in answer:
        raise CorruptRecord(answer["damage"])
    if "error" in answer:
        raise OSError(*answer["error"])
    return answer
