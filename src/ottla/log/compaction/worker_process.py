"""The cleaner as a process of its own, so that it does not compete for the broker's interpreter lock (RET-5).

    python -m ottla.log.compaction.worker_process '{"map_bytes": …, …}' <the broker's pid>

The process reads one JSON line per request and writes one per answer (`remote_cleaner` is the other end):

    {"job": {…}}                 → {"mapped": {…}}
    {"group": [0, 4096]}         → {"cleaned": {…}}
    either                       → {"damage": "…"} or {"error": [28, "No space left on device", null]}

The process has a low priority and ignores the terminal's Ctrl-C. It exits at the end of its input. Before
each read and write it checks that the broker that started it is still its parent, so that it also exits in
the middle of a pass after the broker was killed with -9. The files that it was writing are removed at the
next start.
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

# If all cores are busy, the cleaner gets a few percent: enough to make progress, too little to slow others
# down.
NICENESS: Final = 15


class Orphaned(SystemExit):
    """The broker has died."""


def answer(cleaner: Cleaner, question: dict[str, Any]) -> dict[str, Any]:
    """Carry out one request."""
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
    # The pid is an argument, not os.getppid(): the broker may have died already.
    check = leaving_with(int(sys.argv[2]))
    throttle = Throttle(limits.bytes_per_second, time.monotonic, time.sleep, check)
    cleaner = Cleaner(OsDisk(), limits, throttle)
    output = sys.stdout.fileno()
    with suppress(BrokenPipeError):
        for line in sys.stdin:
            _write(output, json.dumps(answer(cleaner, json.loads(line))).encode() + b"\n")


def _step_back() -> None:
    """Use idle CPU time only.

    Niceness is not enough on Linux: a process that wakes up still preempts others.
    """
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _write(descriptor: int, data: bytes) -> None:
    # Unbuffered: a buffer would report an error at exit if the broker has died.
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
