"""What a broker's process costs: CPU seconds and memory, read from the kernel, children included."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
ROOT: Final = Path(__file__).resolve().parents[1]  # of the checkout: where `python -m bench` runs


def family(pid: int) -> list[int]:
    """The process and all its living descendants."""
    found = [pid]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                found += family(int(child))
    return found


def _of_each(pid: int, ask: Callable[[int], T]) -> list[T]:
    """The answers of a process and of those of its descendants that live long enough to be asked."""
    answers = [ask(pid)]
    for descendant in family(pid)[1:]:
        with contextlib.suppress(OSError):
            answers.append(ask(descendant))
    return answers


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, all threads.

    From the kernel's clock of another process's CPU time (clock_getcpuclockid(3)): the same sum as in
    /proc/PID/stat, which counts in steps of 10 ms, to the nanosecond.
    """
    return sum(_of_each(pid, lambda member: time.clock_gettime(~member << 3 | 2)))


def memory_mebibytes(pid: int) -> tuple[float, float]:
    """Resident and proportional set size of a process and its children."""
    rollups = _of_each(pid, lambda member: Path(f"/proc/{member}/smaps_rollup").read_text())
    sums = [
        sum(
            int(kibibytes)
            for rollup in rollups
            for kibibytes in re.findall(rf"^{name}:\s+(\d+) kB", rollup, re.M)
        )
        for name in ("Rss", "Pss")
    ]
    return sums[0] / 1024, sums[1] / 1024


class Stopwatch:
    """Wall time, and the CPU time that brokers took meanwhile; pid 0 for a broker without a process of its
    own.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = [pid for pid in pids if pid]
        self._started = self._cpu_started = 0.0
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._cpu_started = self._cpu()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started
        self.cpu_seconds = self._cpu() - self._cpu_started

    def _cpu(self) -> float:
        return sum(map(cpu_seconds, self._pids))
