"""`python -m bench.compaction`: what compaction costs, and the target "compaction" of docs/benchmarks.md.

python -m bench.compaction            everything at full size, writes bench/RESULTS_COMPACTION.md
python -m bench.compaction --quick    a tenth of everything: is it still alive?

map           an offset map of 64 MiB, filled: CPU per put, and per get of keys in no order
keys          10,000,000 keys and 2,000,000 newer values for some of them, compacted by the cleaner's process with a map of
              64 MiB: how many passes, how long, how much memory; and that each key has its newest value afterwards
neighbours    one producer at full speed on one partition, in turns with the cleaner's process stopped (SIGSTOP) and with
              it at work on other partitions while retention deletes segments of a third topic
"""

from __future__ import annotations

import os
import random
import re
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import messages, wire
from bench.figures import Figure, Run, table
from bench.processes import cpu_seconds, family
from bench.workloads import run_client

from ottla.config import TopicConfig
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.log.compaction.cleaner import CleanerLimits
from ottla.log.compaction.plan.offset_map import OffsetMap
from ottla.log.compaction.remote_cleaner import RemoteCleaner
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.records.batch import iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.runtime.disk import OsDisk
from ottla.runtime.workers import OsWorkers

NOW_MS = 1_700_000_000_000
MAP_BYTES = 64 << 20
LIMITS = CleanerLimits(map_bytes=MAP_BYTES, io_bytes=512 << 10, bytes_per_second=1e300)
RESULTS = Path(__file__).with_name("RESULTS_COMPACTION.md")
TOPIC_RESOURCE = 2
SET = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    map_bytes: int = MAP_BYTES
    keys: int = 10_000_000
    rounds: int = 9
    noise_megabytes: int = 900
    small_requests: int = 150_000
    megabytes: int = 500


QUICK = Scale(
    map_bytes=MAP_BYTES // 10,
    keys=1_000_000,
    rounds=1,
    noise_megabytes=100,
    small_requests=50_000,
    megabytes=200,
)


def measure_map(directory: Path, scale: Scale) -> list[Figure]:
    """The map alone."""
    offsets = OffsetMap(scale.map_bytes, 0)
    keys = [b"key-%09d" % number for number in range(offsets.limit)]
    begun = time.process_time()
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
    put_us = (time.process_time() - begun) / len(keys) * 1e6
    # Copies: a key that was hashed before keeps its hash.
    asked = [bytes(bytearray(key)) for key in random.Random(7).sample(keys, min(len(keys), 500_000))]
    begun = time.process_time()
    for key in asked:
        offsets.get(key)
    get_us = (time.process_time() - begun) / len(asked) * 1e6
    name = f"offset map of {scale.map_bytes >> 20} MiB, {len(keys):,} keys"
    return [Figure(f"{name}: put", put_us, "µs", 1.5), Figure(f"{name}: get", get_us, "µs", 1.5)]


def fill(log: Log, keys: int) -> int:
    """Each key once, and a newer value for a fifth of them, in no order; the number of records."""
    newer = random.Random(7).sample(range(keys), keys // 5)
    records: list[Record] = []
    for count, number in enumerate([*range(keys), *newer], 1):
        value = b"value-%d-%d" % (number, count)
        records.append(Record(len(records), NOW_MS, b"key-%09d" % number, value))
        if len(records) == 1000:
            log.append_records(memoryview(build_batch(records)), leader_epoch=0, now_ms=NOW_MS)
            records.clear()
    return keys + len(newer)


def open_log(directory: Path) -> Log:
    config = TopicConfig(cleanup_policy=("compact",), segment_bytes=128 << 20, min_cleanable_dirty_ratio=0.0)
    return Log.open(
        OsDisk(),
        str(directory / "keys-0"),
        config,
        recovery_point=0,
        log_start_offset=0,
        clean=True,
        now_ms=NOW_MS,
        open_files=OpenFiles(),
    )


def run_passes(log: Log, cleaner: RemoteCleaner) -> Iterator[int]:
    """Passes until the log is clean; the cleaner's memory at the end of each."""
    while (plan := log.compaction.plan(log.log_end_offset, NOW_MS)) is not None:
        begun = log.compaction.begin(plan, NOW_MS)
        mapped = cleaner.build_map(begun.job)
        for group in log.compaction.groups(begun, mapped.end_offset):
            log.compaction.swap(group, cleaner.clean(group.base_offsets), NOW_MS)
        log.compaction.complete(mapped, None)
        log.retention.remove_deleted(NOW_MS + 10**9)
        print(f"  pass up to {mapped.end_offset:,}: {mapped.keys:,} keys", flush=True)
        yield peak_mebibytes(cleaner.pid)


def peak_mebibytes(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def wrong_values(log: Log, keys: int) -> int:
    """Keys that are missing, there twice, or have another value than their newest."""
    expected = {b"key-%09d" % number: b"value-%d-%d" % (number, number + 1) for number in range(keys)}
    for count, number in enumerate(random.Random(7).sample(range(keys), keys // 5), keys + 1):
        expected[b"key-%09d" % number] = b"value-%d-%d" % (number, count)
    wrong, offset = 0, 0
    while (
        found := log.read(offset, 8 << 20, upper_offset=log.log_end_offset, at_least_one=True)
    ) is not None:
        for batch in iter_batches(found.file.read(found.position, found.size)):
            for record in batch.records():
                assert record.key is not None
                wrong += expected.pop(record.key, None) != record.value
        offset = found.next_offset
    return wrong + len(expected)


def measure_keys(directory: Path, scale: Scale) -> list[Figure]:
    """A log with more keys than the map has room for."""
    log = open_log(directory)
    records = fill(log, scale.keys)
    log.roll(NOW_MS)
    before_bytes = log.extent.segments.size_bytes
    limits = CleanerLimits(scale.map_bytes, LIMITS.io_bytes, LIMITS.bytes_per_second)
    cleaner = RemoteCleaner(limits, OsWorkers())
    try:
        begun = time.perf_counter()
        peaks = list(run_passes(log, cleaner))
        seconds = time.perf_counter() - begun
        cpu = cpu_seconds(cleaner.pid)
    finally:
        cleaner.close()
    wrong = wrong_values(log, scale.keys)
    name = f"{scale.keys:,} keys in {records:,} records, map of {scale.map_bytes >> 20} MiB"
    figures = [
        Figure(f"{name}: passes", len(peaks), ""),
        Figure(f"{name}: all passes together", seconds, "s", 600),
        Figure(f"{name}: the same, CPU", cpu, "s"),
        Figure(f"{name}: wrong or missing values", wrong, "keys", 1),
        Figure(f"{name}: log before", before_bytes / 1e6, "MB"),
        Figure(f"{name}: log after", log.extent.segments.size_bytes / 1e6, "MB"),
        Figure(f"{name}: the cleaner's memory at most", max(peaks), "MiB", scale.map_bytes / (1 << 20) + 64),
    ]
    log.close(clean=False)
    return figures


def keyed_batches(count: int) -> Iterator[bytes]:
    """Batches of 100-byte records whose keys come back now and then."""
    numbers = random.Random(7)
    for _ in range(count):
        now_ms = int(time.time() * 1000)
        keys = (b"key-%09d" % numbers.randrange(2_000_000) for _ in range(500))
        yield bytes(build_batch(Record(at, now_ms, key, b"v" * 100) for at, key in enumerate(keys)))


def load(port: int, topic: str, megabytes: int) -> None:
    """Fill partition 0 of a topic."""
    with wire.connect(port) as connection:
        for records in keyed_batches(max(1, megabytes * 1_000_000 // 60_000)):
            wire.ask(connection, wire.produce(topic, records))


def alter(port: int, topic: str, **settings: object) -> None:
    configs = [
        IncrementalAlterableConfig(name=name.replace("_", "."), config_operation=SET, value=str(value))
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs
    )
    with wire.connect(port) as connection:
        answer = messages.ask(connection, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


def prepare(broker: BrokerProcess, scale: Scale) -> int:
    """Topics to be compacted and to be deleted from; the pid of the cleaner's process, at work."""
    port = broker.port
    with wire.connect(port) as connection:
        for topic in ("noise0", "noise1"):
            # A ratio that is never reached: nothing is compacted before all records are there.
            messages.create_topic(
                connection,
                topic,
                settings={
                    "cleanup.policy": "compact",
                    "segment.bytes": 32 << 20,
                    "min.cleanable.dirty.ratio": 1,
                },
            )
        messages.create_topic(
            connection,
            "old",
            settings={"segment.bytes": 1 << 20, "retention.bytes": -1, "file.delete.delay.ms": 0},
        )
    for topic in ("noise0", "noise1", "old"):
        load(port, topic, scale.noise_megabytes // 3)
    for topic in ("noise0", "noise1"):
        alter(port, topic, min_cleanable_dirty_ratio=0)
    wait_until(lambda: len(family(broker.pid)) > 1, "the cleaner's process is there")
    return family(broker.pid)[1]


@contextmanager
def neighbours_at_work(broker: BrokerProcess, cleaner: int, megabytes: list[int]) -> Iterator[None]:
    """Compaction goes on, and retention takes a segment or two every tenth of a second."""
    is_over = threading.Event()

    def retain() -> None:
        while not is_over.wait(0.2) and megabytes[0] > 2:
            megabytes[0] -= 2
            alter(broker.port, "old", retention_bytes=megabytes[0] * 1_000_000)

    thread = threading.Thread(target=retain)
    thread.start()
    os.kill(cleaner, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(cleaner, signal.SIGSTOP)
        is_over.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Speed:
    """MB or thousand requests a second, and what one request cost the broker's process."""

    rate: float
    cpu_us: float


def produce(broker: BrokerProcess, work: str, topic: str, scale: Scale) -> Speed:
    """One run of the raw load on a topic of its own."""
    with wire.connect(broker.port) as connection:
        wire.create_topic(connection, topic)
    options: dict[str, object] = {"port": broker.port, "broker-pid": broker.pid, "topic": topic}
    size = {"megabytes": scale.megabytes} if work == "produce" else {"requests": scale.small_requests}
    before = own_cpu_seconds(broker.pid)
    result = run_client("bench.load", work, options | size)
    cpu_us = (own_cpu_seconds(broker.pid) - before) / result.requests * 1e6
    with wire.connect(broker.port) as connection:
        wire.delete_topic(connection, topic)
    amount = result.bytes / 1e6 if work == "produce" else result.requests / 1e3
    return Speed(amount / result.seconds, cpu_us)


def own_cpu_seconds(pid: int) -> float:
    """The CPU time of one process without its children (see `bench.processes`)."""
    return time.clock_gettime(~pid << 3 | 2)


def measure_neighbours(directory: Path, scale: Scale) -> list[Figure]:
    """A producer, with and without what goes on beside it."""
    settings = {
        "log.cleaner.backoff.ms": "100",
        "log.retention.check.interval.ms": "100",
        "log.segment.delete.delay.ms": "0",
    }
    with running(start_broker(directory / "neighbours", settings)) as broker:
        cleaner = prepare(broker, scale)
        os.kill(cleaner, signal.SIGSTOP)
        left = [scale.noise_megabytes // 3]
        figures: list[Figure] = []
        try:
            for work, what, unit in (
                ("produce", "batches of 16 KiB", "MB/s"),
                ("small", "requests of 100 B", "k/s"),
            ):
                figures += _compare(broker, cleaner, left, scale, work, what, unit)
        finally:
            os.kill(cleaner, signal.SIGCONT)
    return figures


def _compare(
    broker: BrokerProcess, cleaner: int, left: list[int], scale: Scale, work: str, what: str, unit: str
) -> list[Figure]:
    quiet: list[Speed] = []
    busy: list[Speed] = []
    shares: list[float] = []
    for number in range(scale.rounds):
        before = left[0]

        def alone(number: int = number) -> None:
            quiet.append(produce(broker, work, f"quiet-{work}-{number}", scale))

        def beside(number: int = number) -> None:
            begun, cpu = time.perf_counter(), own_cpu_seconds(cleaner)
            with neighbours_at_work(broker, cleaner, left):
                busy.append(produce(broker, work, f"busy-{work}-{number}", scale))
            shares.append((own_cpu_seconds(cleaner) - cpu) / (time.perf_counter() - begun) * 100)

        # In turns, so that whatever else goes on here hits both alike.
        for measure in (alone, beside) if number % 2 else (beside, alone):
            measure()
        print(
            f"  {what}: {quiet[-1].rate:.0f} {unit} alone, {busy[-1].rate:.0f} beside; the cleaner had"
            f" {shares[-1]:.0f} % of a core, retention took {before - left[0]} MB",
            flush=True,
        )
    rates = [after.rate / before.rate for before, after in zip(quiet, busy, strict=True)]
    name = f"one producer, {what}"
    return [
        Figure(f"{name}: alone", statistics.median(one.rate for one in quiet), unit),
        Figure(f"{name}: beside compaction and retention", statistics.median(one.rate for one in busy), unit),
        Figure(
            f"{name}: what they cost it, median of {scale.rounds}",
            100 - 100 * statistics.median(rates),
            "%",
            20,
        ),
        Figure(
            f"{name}: broker CPU per request, alone", statistics.median(one.cpu_us for one in quiet), "µs"
        ),
        Figure(
            f"{name}: broker CPU per request, beside", statistics.median(one.cpu_us for one in busy), "µs"
        ),
        Figure(f"{name}: the cleaner's share of a core meanwhile", statistics.median(shares), "%"),
    ]


MEASUREMENTS: dict[str, Callable[[Path, Scale], list[Figure]]] = {
    "map": measure_map,
    "keys": measure_keys,
    "neighbours": measure_neighbours,
}


def write(figures: list[Figure], command: str, facts: list[str]) -> None:
    """Keep the results beside the code that made them."""
    head = [
        "# What compaction costs",
        "",
        f"Made by `{command}`. How each figure is taken stands in `bench/compaction.py`. Asked is the row",
        '"compaction" of the [table of targets](../docs/benchmarks.md#targets).',
        "",
    ]
    RESULTS.write_text("\n".join([*head, *facts, "", *table(figures), ""]))


def main() -> int:
    run = Run("compaction", "Measure compaction.", MEASUREMENTS, Scale(), QUICK, write)
    return run.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
