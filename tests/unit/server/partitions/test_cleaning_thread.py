"""The thread that waits for the cleaner's process."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from ottla.localcluster.waiting import wait_until
from ottla.log.compaction.cleaner import CleanerLimits, CleaningJob
from ottla.log.compaction.remote_cleaner import CleanerDied, RemoteCleaner
from ottla.runtime.threads import OsThreads
from ottla.runtime.workers import OsWorkers
from ottla.server.partitions import cleaning_thread
from ottla.server.partitions.cleaning_thread import CleaningThread

LIMITS = CleanerLimits(map_bytes=1 << 16, io_bytes=1 << 16, bytes_per_second=1e300)
JOB = CleaningJob("/nowhere", 0, 1, 0, 0, 4096, 4096, segments=((0, 70), (1, 0)))


def ask(cleaner: RemoteCleaner) -> int:
    """A question that fails at once; the pid of who answered."""
    with pytest.raises(FileNotFoundError):
        cleaner.build_map(JOB)
    return cleaner.pid


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_the_process_is_started_by_the_first_call_and_gone_after_the_end() -> None:
    thread = CleaningThread(LIMITS, OsThreads(), OsWorkers())
    assert thread.pid is None
    first = asyncio.run(thread.call(ask))
    assert thread.pid == first == asyncio.run(thread.call(ask))
    thread.stop()
    thread.close()
    assert not is_there(first)


def test_a_process_that_died_is_replaced_by_the_next_call() -> None:
    thread = CleaningThread(LIMITS, OsThreads(), OsWorkers())
    first = asyncio.run(thread.call(ask))
    os.kill(first, signal.SIGKILL)
    with pytest.raises(CleanerDied):
        asyncio.run(thread.call(lambda cleaner: cleaner.build_map(JOB)))
    assert not is_there(first)
    assert asyncio.run(thread.call(ask)) != first
    thread.stop()
    thread.close()


def test_a_stop_ends_a_call_under_way() -> None:
    thread = CleaningThread(LIMITS, OsThreads(), OsWorkers())
    pid = asyncio.run(thread.call(ask))
    os.kill(pid, signal.SIGSTOP)
    stopping = threading.Timer(0.05, thread.stop)
    stopping.start()
    with pytest.raises(CleanerDied):
        asyncio.run(thread.call(lambda cleaner: cleaner.build_map(JOB)))
    stopping.join()
    thread.close()
    assert not is_there(pid)


def test_a_process_without_work_goes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = CleaningThread(LIMITS, OsThreads(), OsWorkers())
    pid = asyncio.run(thread.call(ask))
    thread.rest()
    assert thread.pid == pid
    monkeypatch.setattr(cleaning_thread, "_IDLE_S", 0.0)
    thread.rest()
    wait_until(lambda: not is_there(pid), "it is gone")
    thread.close()


def test_ending_before_anything_began_is_fine() -> None:
    thread = CleaningThread(LIMITS, OsThreads(), OsWorkers())
    thread.stop()
    thread.close()
