"""Closes many logs cleanly at the price of few: their files are synced by many threads at once, and a directory
that several logs share is synced once.

A file system commits its journal for all syncs that wait at the same time, so that the threads cost little more
than one of them alone.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from ottla.log.log import Log
from ottla.log.writing.flush import FlushJob
from ottla.runtime.disk import Disk
from ottla.runtime.ordered_set import OrderedSet
from ottla.runtime.threads import RunAll, Work

logger = logging.getLogger(__name__)

K = TypeVar("K")


def close_together(disk: Disk, logs: Sequence[Log], run_all: RunAll) -> None:
    """Close the logs, which are open; one that cannot be closed cleanly is logged and left to recovery."""
    jobs: dict[Log, FlushJob | None] = {}
    for log in logs:
        try:
            jobs[log] = log.begin_close()
        except OSError as problem:
            _report(log, problem)
    problems = _sync(disk, [job for job in jobs.values() if job is not None], run_all)
    for log, job in jobs.items():
        failure = problems.get(job) if job is not None else None
        log.end_close(job, failure)
        if failure is not None:
            _report(log, failure)


def _sync(disk: Disk, jobs: list[FlushJob], run_all: RunAll) -> dict[FlushJob, OSError]:
    """Run the jobs, the files of all before the directories; the problems of those that failed."""
    failed = _failures(jobs, [job.sync_files for job in jobs], run_all)
    directories = list(OrderedSet(path for job in jobs if job not in failed for path in job.directories))
    syncs = [partial(disk.sync_directory, path) for path in directories]
    unsynced = _failures(directories, syncs, run_all)
    for job in jobs:
        problem = next((unsynced[path] for path in job.directories if path in unsynced), None)
        if problem is not None:
            failed.setdefault(job, problem)
        if job not in failed:
            job.complete()
    return failed


def _failures(keys: Sequence[K], works: Sequence[Work], run_all: RunAll) -> dict[K, OSError]:
    problems = zip(keys, run_all(works), strict=True)
    return {key: problem for key, problem in problems if problem is not None}


def _report(log: Log, problem: OSError) -> None:
    logger.error("%s could not be closed cleanly, the next start will check it: %s", log, problem)
