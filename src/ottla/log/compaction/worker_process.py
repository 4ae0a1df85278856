"""The cleaner as a process of its own, so that the broker's event loop keeps its interpreter to itself (RET-5).

    python -m ottla.log.compaction.worker_process '{"map_bytes": …, "io_bytes": …, "bytes_per_second": …}' <the broker's pid>

It reads one JSON line per question and writes one per answer (remote_cleaner.py is the other end):

    {"job": {…}}                 → {"mapped": {…}}
    {"group": [0, 4096]}         → {"cleaned": {…}}
    either                       → {"damage": "…"} or {"error": [28, "No space left on device", null]}

It is a guest on this machine: low priority, no word on the terminal's Ctrl-C. It ends when its input does; and before
each read and write it looks whether the broker that started it is still its parent, so that a broker killed with -9 takes
it along in the middle of a pass. What it was writing is worth nothing then, and is cleared away at the next start.
"""

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from ottla.log.compaction.cleaner import Cleaner, CleanerLimits, CleaningJob
from ottla.log.compaction.segment_reader import Throttle
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import OsDisk

# Where all cores are busy this leaves a few percent to the cleaner: enough to get on, too little to be felt.
NICENESS: Final = 15


class Orphaned(SystemExit):
    """The broker is gone."""


def answer(cleaner: Cleaner, question: dict[str, Any]) -> dict[str, Any]:
    """Carry one question out."""
    try:
        if "job" in question:
            return {"mapped": asdict(cleaner.build_map(_job(question["job"])))}
        return {"cleaned": asdict(cleaner.clean(question["group"]))}
    except CorruptRecord as damage:
        return {"damage": str(damage)}
    except OSError as problem:
        return {"error": [problem.errno, problem.strerror, problem.filename]}
    except MemoryError:
        return {"error": [errno.ENOMEM, os.strerror(errno.ENOMEM), None]}


def _job(fields: dict[str, Any]) -> CleaningJob:
    pairs = {name: tuple(map(tuple, fields[name])) for name in ("segments", "producers")}
    return CleaningJob(**(fields | pairs))


def leaving_with(parent: int) -> Callable[[], None]:
    """A check that ends this process when its parent is another."""

    def check() -> None:
        if os.getppid() != parent:
            raise Orphaned

    return check


def main() -> None:
    """Answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _step_back()
    limits = CleanerLimits(**json.loads(sys.argv[1]))
    # Told, not asked: the broker may be gone already.
    check = leaving_with(int(sys.argv[2]))
    throttle = Throttle(limits.bytes_per_second, time.monotonic, time.sleep, check)
    cleaner = Cleaner(OsDisk(), limits, throttle)
    output = sys.stdout.fileno()
    with suppress(BrokenPipeError):
        for line in sys.stdin:
            _write(output, json.dumps(answer(cleaner, json.loads(line))).encode() + b"\n")


def _step_back() -> None:
    """Take what others leave. Politeness is not enough on Linux, where who wakes up still pushes others off their core."""
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _write(descriptor: int, data: bytes) -> None:
    # Not through a buffer, which would complain at the end about a broker that is gone.
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
