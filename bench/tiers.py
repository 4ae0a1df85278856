"""`python -m bench.tiers`: tiered storage beside local logs, and beside the store without a broker.

python -m bench.tiers            200 MB of records of 1 KiB, three rounds; writes bench/RESULTS_LAKE.md
python -m bench.tiers --quick    a tenth of it in one round: is it still alive?

One broker process, and a directory as the object store, so that the store itself costs as little as it can: what is
measured is the way through the broker, and the way past it. Then an S3 server. Each round does all of it, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.processes import cpu_seconds
from bench.spark_loads import orders
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.planner_admin import PlannerAdmin
from ottla.client.sync.range_reader import RangeReader, RangeSettings
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.ports import HOST, accepts_connections, free_port
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition, parse_addresses
from ottla.runtime.obstore_store import open_store
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.scan import ScanSettings, scan

RESULTS: Final = Path(__file__).with_name("RESULTS_LAKE.md")
RECORD_BYTES: Final = 1024
ROUNDS: Final = 3
COLD_READERS: Final = 10
PACED_PER_S: Final = 200
_READ_FOR_EVER: Final = "from bench.tiers import read_for_ever; import sys; read_for_ever(*sys.argv[1:])"
_TIERED: Final = {"remote.storage.enable": "true", "local.retention.bytes": "1"}


@dataclass(frozen=True, slots=True)
class Work:
    """What a way did: bytes or rows in so many seconds, and the CPU seconds of the broker."""

    amount: float
    seconds: float
    broker_cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.amount / self.seconds


class Place:
    """A broker, its store, and topics with the same records."""

    def __init__(self, broker: BrokerProcess, store_url: str, records: int) -> None:
        self.broker = broker
        self.records = records
        self._store = open_store(store_url)
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self._planner = PlannerAdmin(broker.bootstrap, client_id="bench", timeout_ms=60_000)
        self._count = 0

    def create(self, topic: str, config: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, 1, 1, config=dict(config))])[topic].result(30)

    def fill(self, topic: str) -> Work:
        """Produce all records as librdkafka does."""
        # A batch has to fit into the smallest segment.
        config = {"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "batch.size": 64 << 10}
        producer = Producer(config)
        source = orders(RECORD_BYTES)
        next(source)
        begun = time.perf_counter()
        for _ in range(self.records):
            key, value = next(source)
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(300) == 0
        done = Work(self.records, time.perf_counter() - begun)
        end = self._offset(topic, OffsetSpec.LATEST)
        assert end == self.records, f"{topic} has {end} of {self.records} records"
        return done

    def tiered(self, topic: str, segment_bytes: int) -> None:
        """A topic whose closed segments are in the store only."""
        self.create(topic, {**_TIERED, "segment.bytes": str(segment_bytes)})
        self.fill(topic)
        wait_until(lambda: self._is_quiet(topic), f"{topic} is in the store", 300)

    def _is_quiet(self, topic: str) -> bool:
        return self._offset(topic, OffsetSpec.EARLIEST_LOCAL) >= 0.9 * self.records

    def _offset(self, topic: str, spec: OffsetSpec) -> int:
        part = TopicPartition(topic, 0)
        return succeeded(self._planner.list_offsets({part: int(spec)}))[part].offset

    # ---- ways to read

    def by_fetch(self, topic: str) -> Work:
        """All bytes of a topic, fetched and not decoded."""
        brokers = BlockingBrokers(
            parse_addresses(self.broker.bootstrap), client_id="bench", timeout_ms=60_000
        )
        reader = RangeReader(brokers, TopicPartition(topic, 0), 0, self.records, RangeSettings())
        amount, begun, cpu = 0, time.perf_counter(), cpu_seconds(self.broker.pid)
        while (found := reader.read()) is not None:
            amount += found.batches[-1].end if found.batches else 0
        done = Work(amount, time.perf_counter() - begun, cpu_seconds(self.broker.pid) - cpu)
        brokers.close()
        return done

    def plainly(self, topic: str) -> Work:
        """All batches of a topic, read from the store in pieces of what a fetch brings, and not looked at."""
        held = [each for each in self._store.list("") if each.name.startswith(f"{topic}-")]
        logs = sorted((each.name, each.size_bytes) for each in held if each.name.endswith(".log"))
        amount, begun = 0, time.perf_counter()
        for name, size in logs:
            for start in range(0, size, 4 << 20):
                amount += len(self._store.get(name, start, min(4 << 20, size - start)))
        return Work(amount, time.perf_counter() - begun)

    def rows(self, topic: str, *, read_tier: bool) -> Work:
        """All rows of a topic as Arrow, as one of Spark's tasks reads them."""
        settings = ScanSettings(self.broker.bootstrap, read_tier=read_tier)
        begun, cpu = time.perf_counter(), cpu_seconds(self.broker.pid)
        count = sum(each.num_rows for each in scan(OffsetRange(topic, 0, 0, self.records), settings))
        assert count == self.records
        return Work(count, time.perf_counter() - begun, cpu_seconds(self.broker.pid) - cpu)

    # ---- writing

    def produced(self, *, is_tiered: bool) -> Work:
        """Produce to a new topic, whose segments are copied meanwhile, or are not."""
        self._count += 1
        topic = f"written-{self._count}"
        self.create(topic, {"segment.bytes": str(4 << 20), **(_TIERED if is_tiered else {})})
        done = self.fill(topic)
        self._admin.delete_topics([topic])[topic].result(30)
        return done

    def latency_ms(self, seconds: float) -> tuple[float, float]:
        """The median and the 99th percentile of paced records to a hot topic, from when each was due."""
        found: list[float] = []
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 0})
        begun = time.perf_counter()
        for number in range(int(seconds * PACED_PER_S)):
            due = begun + number / PACED_PER_S
            while (left := due - time.perf_counter()) > 0:
                producer.poll(left)
            producer.produce("paced", b"." * 100, on_delivery=_noting(found, due))
        assert producer.flush(60) == 0
        return statistics.median(found), statistics.quantiles(found, n=100)[98]


def _noting(found: list[float], due: float) -> Callable[[Any, Any], None]:
    return lambda error, message: found.append((time.perf_counter() - due) * 1000)


def read_for_ever(bootstrap: str, topic: str, records: str) -> None:
    """A cold reader, in a process of its own, until it is ended."""
    brokers = BlockingBrokers(parse_addresses(bootstrap), client_id="cold", timeout_ms=60_000)
    while True:
        reader = RangeReader(brokers, TopicPartition(topic, 0), 0, int(records), RangeSettings())
        while reader.read() is not None:
            pass


def with_cold_readers(place: Place, topic: str, seconds: float) -> tuple[float, float]:
    """The latencies while ten readers read old records as fast as they can."""
    command = [sys.executable, "-c", _READ_FOR_EVER, place.broker.bootstrap, topic, str(place.records)]
    readers = [subprocess.Popen(command) for _ in range(COLD_READERS)]
    try:
        return place.latency_ms(seconds)
    finally:
        for each in readers:
            each.kill()
            each.wait()


def ways(place: Place) -> dict[str, Callable[[], Work]]:
    """In the order of the page."""
    return {
        "MB/s: the store alone": lambda: place.plainly("cold"),
        "MB/s: cold fetch": lambda: place.by_fetch("cold"),
        "MB/s: hot fetch": lambda: place.by_fetch("hot"),
        "krow/s: a task reads the store (readTier)": lambda: place.rows("cold", read_tier=True),
        "krow/s: a task reads cold records from the broker": lambda: place.rows("cold", read_tier=False),
        "krow/s: a task reads hot records from the broker": lambda: place.rows("hot", read_tier=False),
        "krow/s: produce": lambda: place.produced(is_tiered=False),
        "krow/s: produce while segments are copied": lambda: place.produced(is_tiered=True),
    }


def growth(place: Place) -> Iterator[tuple[str, int, float, float, float]]:
    """For few and for ten times as many segments: how many, milliseconds to list them, MB/s of a cold fetch,
    milliseconds to a record in the middle.
    """
    for topic in ("cold", "many"):
        admin = PlannerAdmin(place.broker.bootstrap, client_id="bench", timeout_ms=60_000)
        part = TopicPartition(topic, 0)
        admin.remote_segments({part: (0, 1)})
        begun = time.perf_counter()
        count = len(admin.remote_segments({part: (0, place.records)})[part])
        listed_ms = (time.perf_counter() - begun) * 1000
        admin.close()
        middle = place.records // 2
        begun = time.perf_counter()
        next(
            scan(
                OffsetRange(topic, 0, middle, middle + 1),
                ScanSettings(place.broker.bootstrap, read_tier=True),
            )
        )
        found_ms = (time.perf_counter() - begun) * 1000
        yield topic, count, listed_ms, place.by_fetch(topic).rate / 1e6, found_ms


@contextlib.contextmanager
def placed(directory: Path, store_url: str, records: int) -> Iterator[Place]:
    """A broker with tiered storage and an empty directory."""
    settings = {
        "remote.log.storage.system.enable": "true",
        "ottla.remote.store.url": store_url,
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "500",
        "log.segment.delete.delay.ms": "0",
    }
    with running(start_broker(directory, settings)) as broker:
        yield Place(broker, store_url, records)


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """An S3 server in a process of its own, with an empty bucket, and the environment that leads to it."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", HOST, "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": "us-east-1",
    }
    try:
        wait_until(lambda: accepts_connections(port), "the S3 server listens", 60)
        with contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=60)) as asking:
            asking.request("PUT", "/bench")
            assert asking.getresponse().status == 200
        yield "s3://bench/tier"
    finally:
        server.kill()
        server.wait()


def taken(ways: Mapping[str, Callable[[], Work]], rounds: int) -> dict[str, list[Work]]:
    """Each way in turn, after a round that warms everything and is not kept."""
    found: dict[str, list[Work]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            done = way()
            print(f"  {number}  {name:52} {done.rate:12,.0f}/s  {done.seconds:6.2f} s", flush=True)
            found[name] += [done] if number else []
    return found


def measured(records: int, rounds: int, directory: Path) -> str:
    """The page."""
    size = max(1 << 20, records * RECORD_BYTES // 20)
    latencies: dict[str, list[tuple[float, float]]] = {"alone": [], "readers": []}
    with placed(directory / "broker", f"file://{directory}/tier", records) as place:
        place.tiered("cold", size)
        place.tiered("many", size // 10)
        place.create("hot", {})
        place.fill("hot")
        place.create("paced", {})
        found = taken(ways(place), rounds)
        for _ in range(rounds):
            latencies["alone"].append(place.latency_ms(5))
            latencies["readers"].append(with_cold_readers(place, "cold", 5))
        grown = list(growth(place))
    with s3_server() as url, placed(directory / "s3", url, records) as place:
        place.tiered("cold", size)
        cold = {name: way for name, way in ways(place).items() if name in _OF_S3}
        by_s3 = taken(cold, rounds)
    return page(records, found, by_s3, latencies, grown)


def table(found: Mapping[str, list[Work]], records: int) -> list[str]:
    """Rates and ratios."""
    lines = ["| what | rate | CPU seconds of the broker per GB |", "|---|---|---|"]
    for name, done in found.items():
        unit, _, what = name.partition(": ")
        rate = statistics.median(each.rate for each in done) / (1e6 if unit == "MB/s" else 1e3)
        cpu = statistics.median(each.broker_cpu_seconds for each in done) / (records * RECORD_BYTES / 1e9)
        lines.append(f"| {what} | {rate:,.0f} {unit} | {f'{cpu:.2f}' if cpu else ''} |")
    lines += ["", "| ratio, in the same round | median | asked |", "|---|---|---|"]
    for what, over, under, asked in _RATIOS:
        if over in found and under in found:
            values = [one.rate / other.rate for one, other in zip(found[over], found[under], strict=True)]
            lines.append(f"| {what} | {statistics.median(values):.2f} | {asked} |")
    return lines


def page(
    records: int,
    found: Mapping[str, list[Work]],
    by_s3: Mapping[str, list[Work]],
    latencies: Mapping[str, list[tuple[float, float]]],
    grown: list[tuple[str, int, float, float, float]],
) -> str:
    """What was measured, as Markdown."""
    load = ", ".join(f"{each:.0f}" for each in os.getloadavg())
    lines = [
        "# Tiered storage, measured",
        "",
        f"`python -m bench.tiers`: {records:,} records of 1 KiB in one partition, medians of "
        f"{len(latencies['alone'])} rounds",
        f"in turns. Two cores, shared with other work: load averages {load} (1, 5, 15 minutes) at the end.",
        "",
        "## The store is a directory",
        "",
        "It answers from memory, so that the work of the broker is all that there is to see.",
        "",
        *table(found, records),
        "",
        "| acknowledgement of paced records | p50 | p99 |",
        "|---|---|---|",
    ]
    for what, key in (("alone", "alone"), (f"beside {COLD_READERS} cold readers at full speed", "readers")):
        p50, p99 = (statistics.median(each[part] for each in latencies[key]) for part in (0, 1))
        lines.append(f"| {what} | {p50:.1f} ms | {p99:.1f} ms |")
    lines += [
        "",
        "The same bytes in ten times as many segments:",
        "",
        "| segments | all of them listed | cold fetch | a record in the middle, past the broker |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {count} | {ms:.1f} ms | {rate:,.0f} MB/s | {found_ms:.1f} ms |"
        for _, count, ms, rate, found_ms in grown
    ]
    lines += ["", "## The store is an S3 server", "", "moto's, a Python program on the same two cores.", ""]
    return "\n".join([*lines, *table(by_s3, records), ""])


_OF_S3: Final = (
    "MB/s: the store alone",
    "MB/s: cold fetch",
    "krow/s: a task reads the store (readTier)",
    "krow/s: a task reads cold records from the broker",
)
_RATIOS: Final = (
    ("cold fetch ÷ the store alone", "MB/s: cold fetch", "MB/s: the store alone", "0.8"),
    ("cold fetch ÷ hot fetch", "MB/s: cold fetch", "MB/s: hot fetch", ""),
    (
        "a task past the broker ÷ through it",
        "krow/s: a task reads the store (readTier)",
        "krow/s: a task reads cold records from the broker",
        "",
    ),
    (
        "produce while segments are copied ÷ without",
        "krow/s: produce while segments are copied",
        "krow/s: produce",
        "0.95",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth, one round, no results")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-tiers-"))
    try:
        text = measured(20_000 if given.quick else 200_000, 1 if given.quick else ROUNDS, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(text)
    if not given.quick:
        RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
