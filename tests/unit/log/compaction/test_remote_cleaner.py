"""The cleaner in a process of its own answers as the one in this process does, and does not stay behind
(RET-5).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.log.batches import NOW_MS
from tests.unit.log.compaction_model import append_records, compacted, records, unhurried
from tests.unit.log.logs import open_log

from ottla.localcluster.waiting import wait_until
from ottla.log.compaction.cleaner import Cleaner, CleanerLimits, CleaningJob
from ottla.log.compaction.remote_cleaner import CleanerDied, RemoteCleaner
from ottla.log.compaction.worker_process import NICENESS
from ottla.log.log import Log
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import OsDisk
from ottla.runtime.workers import OsWorkers

LIMITS = CleanerLimits(map_bytes=1 << 16, io_bytes=1 << 16, bytes_per_second=1e300)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = open_log(OsDisk(), directory=str(tmp_path / "orders-0"), settings=compacted())
    for number in range(60):
        append_records(opened, (b"k%d" % (number % 7), b"%d" % number), producer_id=7, base_sequence=number)
    opened.roll(NOW_MS)
    yield opened
    opened.close(clean=False)


@pytest.fixture
def cleaner() -> Iterator[RemoteCleaner]:
    remote = RemoteCleaner(LIMITS, OsWorkers())
    yield remote
    remote.close()


def job_of(log: Log) -> CleaningJob:
    plan = log.compaction.plan(log.log_end_offset, NOW_MS)
    assert plan is not None
    return log.compaction.begin(plan, NOW_MS).job


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_does_what_the_cleaner_in_this_process_does(log: Log, cleaner: RemoteCleaner) -> None:
    plan = log.compaction.plan(log.log_end_offset, NOW_MS)
    assert plan is not None
    begun = log.compaction.begin(plan, NOW_MS)
    local = Cleaner(OsDisk(), LIMITS, unhurried())
    mapped = cleaner.build_map(begun.job)
    assert mapped == local.build_map(begun.job)
    groups = log.compaction.groups(begun, mapped.end_offset)
    assert len(groups) > 3
    for group in groups:
        here = local.clean(group.base_offsets)
        path = Path(log.directory) / f"{here.base_offset:020d}.log.cleaned"
        written = path.read_bytes()
        assert cleaner.clean(group.base_offsets) == here
        assert path.read_bytes() == written
        assert log.compaction.swap(group, here, NOW_MS)
    assert [record.value for record in records(log)] == [b"%d" % number for number in range(53, 60)]


def test_damage_and_failures_arrive_as_what_they_are(log: Log, cleaner: RemoteCleaner) -> None:
    job = job_of(log)
    path = Path(log.extent.segments[0].path(".log"))
    data = bytearray(path.read_bytes())
    data[64] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match="checksum"):
        cleaner.build_map(job)
    with pytest.raises(FileNotFoundError) as missing:
        cleaner.build_map(replace(job, directory=f"{log.directory}-gone"))
    assert missing.value.filename is not None
    # And it goes on after that.
    assert cleaner.build_map(replace(job, first_dirty_offset=20)).end_offset == 60


def test_it_has_a_low_priority_and_neither_the_loop_nor_the_server_in_it(cleaner: RemoteCleaner) -> None:
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, cleaner.pid) >= NICENESS, "it is nice")
    code = "import sys, ottla.log.compaction.worker_process; print([m for m in sys.modules if 'asyncio' in m or 'server' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


def test_a_process_that_was_killed_says_so_and_leaves_nothing(log: Log) -> None:
    remote = RemoteCleaner(LIMITS, OsWorkers())
    remote.kill()
    with pytest.raises(CleanerDied):
        remote.build_map(job_of(log))
    remote.close()
    assert not Path(f"/proc/{remote.pid}").exists()


def test_closing_leaves_neither_a_process_nor_a_zombie() -> None:
    remote = RemoteCleaner(LIMITS, OsWorkers())
    remote.close()
    remote.close()
    assert not Path(f"/proc/{remote.pid}").exists()


PARENT = """
import sys
from ottla.log.compaction.cleaner import CleanerLimits, CleaningJob
from ottla.log.compaction.remote_cleaner import RemoteCleaner
from ottla.runtime.workers import OsWorkers

remote = RemoteCleaner(CleanerLimits(map_bytes=1 << 16, io_bytes=1 << 10, bytes_per_second={rate}), OsWorkers())
if {rate} < 1e9:
    print(remote.pid, flush=True)
    remote.build_map(CleaningJob({directory!r}, 0, 60, 0, 0, 4096, 4096, {segments!r}))
try:
    remote.build_map(CleaningJob("/nowhere", 0, 60, 0, 0, 4096, 4096, ((0, 1), (60, 0))))
except FileNotFoundError:
    print(remote.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("rate", [1e300, 500.0])
def test_a_parent_killed_with_minus_nine_takes_it_along(log: Log, rate: float) -> None:
    """While it waits for a question, and while it is at work."""
    segments = tuple((segment.base_offset, segment.size_bytes) for segment in log.extent.segments)
    code = PARENT.format(rate=rate, directory=log.directory, segments=segments)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
        wait_until(lambda: not is_running(pid), "the cleaner is gone")
