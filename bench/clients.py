"""`python -m bench.clients`: the Python clients side by side, against Ottla and against Apache Kafka.

python -m bench.clients                     everything, five rounds, writes bench/RESULTS_CLIENTS.md
python -m bench.clients --quick             a tenth of everything in one round: is it still alive?
python -m bench.clients --targets ottla     without Apache Kafka
python -m bench.clients --only "produce 100 B"

Each measurement is a process of its own (`bench/client_loads.py`) beside one broker: one partition, no
replicas. The clients take turns within each round, another one first each time; ratios are made within a
round, and their medians are judged. A round before them is not counted: it is for the virtual machine's
compiler. What a producer has written is deleted before the next one begins, and memory is kept warm for it
(`bench.memory`), so that nobody measures how fast the machine finds memory for ever more of it: a page that a
hypervisor must give first costs a broker more than all the rest that it does with a record.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench import report, wire
from bench.apache.maven import CannotFetchError
from bench.client_loads import CONSUME, PRODUCE, WARM_UP
from bench.memory import WarmPages
from bench.processes import Stopwatch
from bench.targets import Target, started
from bench.verdicts import Spread

from ottla.localcluster.waiting import wait_until

RESULTS = Path(__file__).with_name("RESULTS_CLIENTS.md")
TARGETS = ("ottla", "apache")
SIZES = (100, 1024)
ROUNDS = 5
QUICK_SCALE = 0.1
DEADLINE_SECONDS = 300
SOURCE = Path(__file__).resolve().parents[1] / "src"
# As many records as take each client a second or two; the slow ones would otherwise take most of the time.
RECORDS = {
    "ottla": 1_000_000,
    "ottla batches": 1_000_000,
    "confluent-kafka": 1_000_000,
    "aiokafka": 300_000,
    "kafka-python": 100_000,
}
LARGE_SHARE = 0.4  # of them at 1 KiB
LONE_SHARE = 0.25  # of them in batches of one record, which take all clients longer
WARM_UP_SHARE = 0.3  # of them in the round that is not counted
WARM_BYTES = 600 << 20  # more than one measurement writes
# Deleted topics leave the disk, and the memory, at once; by default both brokers keep them for a minute.
SETTINGS = {"log.segment.delete.delay.ms": "0"}
EAGER_APACHE = {
    "log.initial.task.delay.ms": "100"
}  # half a minute passes otherwise before it deletes anything

Measured = dict[tuple[str, str], dict[str, list[float]]]  # (target, workload) → client → krec/s per round


@dataclass(frozen=True, slots=True)
class Promise:
    """Ours divided by a peer's, at least; the target "clients" of docs/benchmarks.md."""

    work: str
    peer: str
    limit: float


PROMISES = (
    Promise("produce", "aiokafka", 2.0),
    Promise("produce", "kafka-python", 5.0),
    Promise("consume", "aiokafka", 1.5),
    Promise("consume", "kafka-python", 5.0),
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What the clients do. Without `records_per_batch`, batches are as large as librdkafka makes them."""

    work: str
    size: int
    records_per_batch: int = 0

    @property
    def name(self) -> str:
        few = f", {self.records_per_batch} record per batch" if self.records_per_batch else ""
        return f"{self.work} {self.size} B{few}"

    @property
    def share(self) -> float:
        """Of the records that each client has to do."""
        if self.records_per_batch:
            return LONE_SHARE
        return 1.0 if self.size == SIZES[0] else LARGE_SHARE

    @property
    def clients(self) -> list[str]:
        return list(PRODUCE if self.work == "produce" else CONSUME)


# What a producer that does not wait leaves behind: each record in a batch of its own.
LONE = Workload("consume", SIZES[0], records_per_batch=1)
WORKLOADS = (*(Workload(work, size) for size in SIZES for work in ("produce", "consume")), LONE)


class Bench:
    """Runs measurements; keeps records per second (`rates`), and the CPU per record, the client's and the
    broker's.
    """

    def __init__(self, chosen: argparse.Namespace, pages: WarmPages) -> None:
        self._pages = pages
        self.scale = QUICK_SCALE if chosen.quick else 1.0
        self._only = chosen.only
        self.rates: Measured = {}
        self.costs_us: Measured = {}
        self.broker_costs_us: Measured = {}

    def round(self, number: int, target: Target, *, keep: bool = True) -> None:
        for workload in WORKLOADS:
            if self._only and self._only not in workload.name:
                continue
            clients = workload.clients
            first = number % len(clients)
            for client in [*clients[first:], *clients[:first]]:
                self._measure(target, workload, client, number, keep)

    def _measure(self, target: Target, workload: Workload, client: str, number: int, keep: bool) -> None:
        work, size = workload.work, workload.size
        share = workload.share * (1.0 if keep else WARM_UP_SHARE)
        records = max(1_000, int(RECORDS[client] * self.scale * share))
        with contextlib.ExitStack() as stack:
            if work == "produce":
                topic = f"{work}-{size}-{client.replace(' ', '-')}-{number}"
                stack.enter_context(passing_topic(target, topic))
                self._pages.keep()
                self._pages.release()
            else:
                topic = f"read-{size}-{workload.records_per_batch}"
                self._fill(target, topic, workload)
            watch = stack.enter_context(Stopwatch(target.pid))
            figures = _run(target, work, client, topic, records, size)
        if keep:
            self._note(target, workload.name, client, figures, watch.cpu_seconds / (1 + WARM_UP))

    def _note(
        self,
        target: Target,
        workload: str,
        client: str,
        figures: dict[str, float],
        broker_cpu_seconds: float,
    ) -> None:
        rate = figures["records"] / figures["seconds"] / 1_000
        cost = figures["cpu_seconds"] / figures["records"] * 1e6
        broker_cost = broker_cpu_seconds / figures["records"] * 1e6
        print(
            f"  {target.name:7} {workload:33} {client:16} {rate:8.0f} krec/s {cost:7.2f} µs of CPU, the broker {broker_cost:5.2f}",
            flush=True,
        )
        for measured, figure in (
            (self.rates, rate),
            (self.costs_us, cost),
            (self.broker_costs_us, broker_cost),
        ):
            measured.setdefault((target.name, workload), {}).setdefault(client, []).append(figure)

    def _fill(self, target: Target, topic: str, workload: Workload) -> None:
        """A topic with enough for the fastest reader, written once per broker."""
        with wire.connect(target.port) as connection:
            try:
                wire.create_topic(connection, topic)
            except AssertionError:  # it is there already
                return
        most = int(max(RECORDS.values()) * self.scale * workload.share * (1 + WARM_UP)) + 60_000
        few = ["--records-per-batch", str(workload.records_per_batch)]
        _run(target, "produce", "confluent-kafka", topic, most, workload.size, few)


@contextlib.contextmanager
def passing_topic(target: Target, topic: str) -> Iterator[None]:
    """A topic that is gone afterwards, with everything in it."""
    with wire.connect(target.port) as connection:
        wire.create_topic(connection, topic)
    try:
        yield
    finally:
        with wire.connect(target.port) as connection:
            wire.delete_topic(connection, topic)
        if target.broker is not None:
            data = target.broker.data
            wait_until(lambda: not [*data.glob(f"{topic}-0*")], f"{topic} is gone from the disk")


def _run(
    target: Target, work: str, client: str, topic: str, records: int, size: int, more: Sequence[str] = ()
) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.client_loads", "--client", client, "--work", work]
    command += ["--bootstrap", f"127.0.0.1:{target.port}", "--topic", topic]
    command += ["--records", str(records), "--size", str(size), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    if done.returncode:
        raise AssertionError(f"{client} could not {work}:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def ratios(rates: Measured, target: str, workload: str, peer: str) -> list[float]:
    """Ours divided by the peer's, round by round."""
    by_client = rates.get((target, workload), {})
    pairs = zip(by_client.get("ottla", ()), by_client.get(peer, ()), strict=False)
    return [ours / theirs for ours, theirs in pairs if theirs]


def verdicts(rates: Measured) -> list[list[str]]:
    rows: list[list[str]] = []
    for promise in PROMISES:
        for target in TARGETS:
            for size in SIZES:
                workload = f"{promise.work} {size} B"
                found = ratios(rates, target, workload, promise.peer)
                if found:
                    spread = Spread.of(found)
                    held = spread.median >= promise.limit
                    doubt = (
                        ""
                        if (spread.low >= promise.limit) == (spread.high >= promise.limit)
                        else ", rounds disagree"
                    )
                    verdict = (
                        f"held{doubt}"
                        if held
                        else f"MISSED by {1 - spread.median / promise.limit:.0%}{doubt}"
                    )
                    rows.append(
                        [target, workload, promise.peer, f"≥ {promise.limit:g}", spread.text(), verdict]
                    )
    return rows


def figures(measured: Measured) -> list[list[str]]:
    clients = list(RECORDS)
    return [
        [
            target,
            workload,
            *(Spread.of(by_client[client]).text() if client in by_client else "-" for client in clients),
        ]
        for (target, workload), by_client in sorted(measured.items())
    ]


def lone_ratios(rates: Measured) -> list[list[str]]:
    """Ours divided by each other's, where every record has a batch of its own."""
    peers = [client for client in LONE.clients if not client.startswith("ottla")]
    return [
        [target, peer, Spread.of(found).text()]
        for target in TARGETS
        for peer in peers
        if (found := ratios(rates, target, LONE.name, peer))
    ]


def page(bench: Bench, command: str, rounds: int, facts: Sequence[str]) -> str:
    clients = list(RECORDS)
    others = ", ".join(f"{name} {version(name)}" for name in ("aiokafka", "kafka-python"))
    confluent = [
        [target, workload, Spread.of(found).text()]
        for target, workload in sorted(bench.rates)
        if workload != LONE.name and (found := ratios(bench.rates, target, workload, "confluent-kafka"))
    ]
    return "\n".join(
        [
            "# The Python clients, measured",
            "",
            f"Made by `{command}`: {rounds} rounds, the clients taking turns within each, one process each beside one broker;",
            "medians, with the smallest and largest round in brackets. Ratios are made within a round. Compare only within",
            "this page. What each client does, and with which settings, stands in `bench/client_loads.py`. One more round comes first and",
            "is not counted (the virtual machine compiles). What a producer wrote is deleted before the next one begins, and memory is kept warm",
            "(`bench/memory.py`): otherwise brokers soon write into pages that a hypervisor must give first. That takes 3 µs of their CPU for each",
            "KiB, three times what Apache Kafka needs for the rest; it holds the fast clients up and not the slow ones, and says nothing of clients.",
            "",
            "Records: all values alike, without keys, headers or compression, in one partition: the easiest records for a client.",
            "On mixed records the ratios are others: [RESULTS_MIXED.md](RESULTS_MIXED.md).",
            "",
            *facts,
            f"- {others}",
            "",
            "## Ours divided by theirs, records per second",
            "",
            'Asked is the row "clients" of the [table of targets](../docs/benchmarks.md#targets).',
            "",
            *report.table(
                ["broker", "workload", "divided by", "asked", "median (spread)", "verdict"],
                verdicts(bench.rates),
            ),
            "",
            "Beside librdkafka's C (no promise; the `ottla` client is pure Python):",
            "",
            *report.table(["broker", "workload", "ottla ÷ confluent-kafka"], confluent),
            "",
            f"A topic whose batches hold one record each, as producers that do not wait write them (`{LONE.name}`; no promise):",
            "",
            *report.table(["broker", "divided by", "median (spread)"], lone_ratios(bench.rates)),
            "",
            "## Thousand records per second",
            "",
            "`ottla batches` reads with `consumer.batches()`, whose columns need no record objects.",
            "",
            *report.table(["broker", "workload", *clients], figures(bench.rates)),
            "",
            "## Microseconds of the client's CPU per record",
            "",
            *report.table(["broker", "workload", *clients], figures(bench.costs_us)),
            "",
            "## Microseconds of the broker's CPU per record",
            "",
            *report.table(["broker", "workload", *clients], figures(bench.broker_costs_us)),
            "",
        ]
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.clients", description="Measure the Python clients."
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything in one round; writes no results"
    )
    parser.add_argument("--runs", type=int, default=ROUNDS, metavar="N", help=f"rounds (default: {ROUNDS})")
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated (default: all)")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="workloads whose name contains NAME; writes no results"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.targets.split(",")) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return chosen


def main() -> int:
    chosen = options()
    compileall.compile_dir(str(SOURCE), quiet=1)  # as pip leaves an installed package
    facts, rounds = report.machine(), 1 if chosen.quick else chosen.runs
    directory = Path(tempfile.mkdtemp(prefix="ottla-clients-"))
    bench = Bench(chosen, WarmPages(directory, WARM_BYTES))
    try:
        for name in chosen.targets.split(","):
            settings = SETTINGS | (EAGER_APACHE if name == "apache" else {})
            with started([name], directory, settings) as (target,):
                for number in range(0 if rounds > 1 else 1, rounds + 1):
                    bench.round(number, target, keep=number > 0)
    except CannotFetchError as reason:
        print(f"{reason}\nWithout it: --targets ottla", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = page(bench, shlex.join(["python", "-m", "bench.clients", *sys.argv[1:]]), rounds, facts)
    print("\n" + text)
    if not (chosen.quick or chosen.only):
        RESULTS.write_text(text)
        print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
