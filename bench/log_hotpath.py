"""Measures the log's hot paths: CPU time per appended item, per sequential read, memory of idle logs.

    .venv/bin/python bench/log_hotpath.py [--profile]

Prints the median of several rounds, in microseconds of CPU. Nothing is asserted: the targets stand beside.
"""

import argparse
import cProfile
import gc
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from struct import Struct

from crc32c import crc32c

from ottla.config import TopicConfig
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.log.writing.append import Appended
from ottla.records.batch import HEADER, HEADER_BYTES
from ottla.runtime.disk import OsDisk

ROUNDS = 7
RUNS = 400
NOW_MS = 1_700_000_000_000
_CRC = Struct(">I")


def make_batch(size: int, producer_id: int = -1, sequence: int = -1) -> memoryview:
    """One uncompressed batch of one record that fills `size` bytes; its record is never decoded here."""
    epoch = 0 if producer_id >= 0 else -1
    body = bytes(size - HEADER_BYTES)
    head = HEADER.pack(
        0, size - 12, -1, 2, 0, 0, 0, NOW_MS, NOW_MS, producer_id, epoch, sequence, 1
    )  # fmt: skip
    data = bytearray(head + body)
    _CRC.pack_into(data, 17, crc32c(memoryview(data)[21:]))
    return memoryview(data)


def open_log(directory: str, open_files: OpenFiles | None = None) -> Log:
    """A log with Kafka's default settings."""
    return Log.open(
        OsDisk(),
        directory,
        TopicConfig(),
        recovery_point=0,
        log_start_offset=0,
        clean=True,
        now_ms=NOW_MS,
        open_files=open_files or OpenFiles(),
    )


def median_us(work: Callable[[], int]) -> float:
    """The median over the rounds of CPU microseconds per unit; `work` answers how many units it did."""
    results = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time_ns()
        units = work()
        results.append((time.process_time_ns() - start) / units / 1000)
    return statistics.median(results)


def append_cost(directory: str, size: int, run: int, idempotent: bool) -> float:
    """Microseconds per item of appends with `run` items of `size` bytes each."""
    log = open_log(directory)
    sequence = 0

    def prepare() -> list[list[memoryview]]:
        nonlocal sequence
        calls = []
        for _ in range(RUNS):
            items = []
            for _ in range(run):
                items.append(make_batch(size, 7, sequence) if idempotent else make_batch(size))
                sequence += 1
            calls.append(items)
        return calls

    results = []
    for _ in range(ROUNDS):
        calls = prepare()
        gc.collect()
        start = time.process_time_ns()
        for items in calls:
            answers = log.append(items, leader_epoch=0, now_ms=NOW_MS)
        results.append((time.process_time_ns() - start) / (RUNS * run) / 1000)
        assert isinstance(answers[-1], Appended)
    log.close(clean=False)
    shutil.rmtree(directory)
    return statistics.median(results)


def tail_read_cost(directory: str) -> float:
    """Microseconds per read of a consumer that follows a producer."""
    log = open_log(directory)

    def work() -> int:
        total = 0.0
        for _ in range(RUNS):
            log.append([make_batch(1000)], leader_epoch=0, now_ms=NOW_MS)
            end = log.log_end_offset
            start = time.process_time_ns()
            found = log.read(end - 1, 1 << 20, upper_offset=end, at_least_one=True)
            total += time.process_time_ns() - start
            assert found is not None
        results.append(total / RUNS / 1000)
        return RUNS

    results: list[float] = []
    median_us(work)
    log.close(clean=False)
    shutil.rmtree(directory)
    return statistics.median(results)


def scan_read_cost(directory: str, max_bytes: int) -> float:
    """Microseconds per read of a consumer that catches up in pieces of `max_bytes`."""
    log = open_log(directory)
    for _ in range(400):
        log.append([make_batch(1000) for _ in range(500)], leader_epoch=0, now_ms=NOW_MS)
    end = log.log_end_offset

    def work() -> int:
        offset = reads = 0
        while offset < end:
            found = log.read(offset, max_bytes, upper_offset=end, at_least_one=True)
            assert found is not None
            offset = found.next_offset
            reads += 1
        return reads

    cost = median_us(work)
    log.close(clean=False)
    shutil.rmtree(directory)
    return cost


def random_read_cost(directory: str) -> float:
    """Microseconds per read at an offset nobody read before."""
    log = open_log(directory)
    for _ in range(400):
        log.append([make_batch(1000) for _ in range(500)], leader_epoch=0, now_ms=NOW_MS)
    end = log.log_end_offset

    def work() -> int:
        for number in range(2000):
            log.read(number * 7919 % end, 1 << 20, upper_offset=end, at_least_one=True)
        return 2000

    cost = median_us(work)
    log.close(clean=False)
    shutil.rmtree(directory)
    return cost


def idle_memory(directory: str) -> float:
    """MiB that 100 open logs with a little in each take beyond what was there before."""
    before = resident_kib()
    open_files = OpenFiles()
    logs = [open_log(f"{directory}/t-{number}", open_files) for number in range(100)]
    for log in logs:
        log.append([make_batch(150, 7, sequence) for sequence in range(100)], leader_epoch=0, now_ms=NOW_MS)
    after = resident_kib()
    for log in logs:
        log.close(clean=False)
    shutil.rmtree(directory)
    return (after - before) / 1024


def resident_kib() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="profile the idempotent append instead")
    root = tempfile.mkdtemp(prefix="ottla-bench-")
    try:
        if parser.parse_args().profile:
            cProfile.runctx("append_cost(root + '/p', 150, 50, True)", globals(), locals(), sort="tottime")
            return
        print(f"idle memory of 100 logs      {idle_memory(root + '/i'):8.2f} MiB   (target 8)")
        for run, size in ((50, 150), (1, 150), (50, 1000), (1, 16384), (8, 16384), (1, 1 << 20)):
            for idempotent in (False, True):
                if size * run * RUNS * ROUNDS > 1 << 32:
                    continue
                cost = append_cost(f"{root}/a", size, run, idempotent)
                kind = "idempotent" if idempotent else "plain     "
                note = "   (target 3.5)" if (run, size) == (50, 150) else ""
                print(f"append {kind} {run:3d} x {size:7d} B {cost:8.2f} µs per item{note}")
        print(f"read at the tail             {tail_read_cost(root + '/r'):8.2f} µs   (target 3)")
        print(f"read on, 1 MiB pieces        {scan_read_cost(root + '/s', 1 << 20):8.2f} µs   (target 3)")
        print(f"read on, 64 KiB pieces       {scan_read_cost(root + '/t', 1 << 16):8.2f} µs   (target 3)")
        print(f"read anywhere                {random_read_cost(root + '/u'):8.2f} µs")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
