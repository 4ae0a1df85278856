"""Time that a machine with free processors would have taken: what the kernel let threads wait for a processor
does not count.

A test that measures a duration or keeps a deadline is as strict as ever on a quiet machine, and says nothing
about how busy the machine is. Linux counts the waits of each thread (`/proc/<pid>/task/*/schedstat`); where
there is no such count, nothing is taken off.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_SAMPLE_S: Final = 0.01


class Stopwatch:
    """Runs from its beginning. The waits of all threads of the named processes are taken off; without a name,
    those of this process. `add` names one that began later.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = list(pids or (os.getpid(),))
        self._waits_ns: dict[str, int] = {}
        self.sample()
        self._before_ns = dict(self._waits_ns)
        self._begun = time.perf_counter()

    @property
    def seconds(self) -> float:
        self.sample()
        waited = (at - self._before_ns.get(thread, 0) for thread, at in self._waits_ns.items())
        return time.perf_counter() - self._begun - sum(waited) / 1e9

    def add(self, pid: int) -> None:
        """Take off the waits of a process that began after this."""
        self._pids.append(pid)

    def sample(self) -> None:
        """Note the waits so far: a thread that has ended is not counted any more by the kernel."""
        for pid in self._pids:
            for file in Path("/proc", str(pid), "task").glob("*/schedstat"):
                try:
                    self._waits_ns[str(file)] = int(file.read_text().split()[1])
                except (OSError, IndexError):
                    continue  # the thread ended


def took_undisturbed_s(action: Callable[[], object], *pids: int) -> float:
    """How long an action takes in which these processes (this one, without a name) do the work; they may end
    with it.
    """
    watch, is_done = Stopwatch(*pids), threading.Event()

    def keep_sampling() -> None:
        while not is_done.wait(_SAMPLE_S):
            watch.sample()

    sampling = threading.Thread(target=keep_sampling)
    sampling.start()
    try:
        action()
        return watch.seconds
    finally:
        is_done.set()
        sampling.join()
