"""`python -m bench.mixed`: the Python clients side by side on mixed records, against one broker.

python -m bench.mixed                     five rounds, writes bench/RESULTS_MIXED.md
python -m bench.mixed --quick             a tenth of everything in one round: is it still alive?
python -m bench.mixed --target apache     against Apache Kafka; writes no results

The records are those of `bench/mixed_records.py`, the topics have six partitions, the codecs are none, lz4
and zstd. Each measurement is a process of its own (`bench/mixed_loads.py`, `bench/mixed_latency.py`). Ottla's
client is measured as `pip install` leaves it, and with its compiled loops where this installation has them. The
clients take turns within each round, another one first each time; ratios are taken within a round. One round
before the others is not counted.
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
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bench import mixed_latency, report
from bench.memory import WarmPages
from bench.mixed_loads import COMPILED, CONSUME, PARTITIONS, PRODUCE, is_compiled
from bench.mixed_targets import TARGETS, verdicts
from bench.targets import Target, started
from bench.verdicts import Spread

from ottla import NewTopic
from ottla.blocking import Admin

RESULTS = Path(__file__).with_name("RESULTS_MIXED.md")
SOURCE = Path(__file__).resolve().parents[1] / "src"
CODECS: Final = ("none", "lz4", "zstd")
LATENCIES: Final[Mapping[str, Mapping[str, object]]] = {
    "one send": mixed_latency.SENDERS,
    "end to end": mixed_latency.READERS,
}
BATCHES: Final = ("ottla", COMPILED, "confluent-kafka")
ROUNDS, QUICK_SCALE, WARM_UP_SCALE = 5, 0.1, 0.3
DEADLINE_SECONDS = 300
# As many records as take each client half a second or more on a quiet machine.
RECORDS: Final[Mapping[str, int]] = {
    "ottla": 300_000,
    COMPILED: 400_000,
    "aiokafka": 120_000,
    "confluent-kafka": 400_000,
    "kafka-python": 40_000,
}
SINGLE: Final = 3_000  # records of a measurement of time
FILLED: Final = 480_000  # records in a topic to read: more than any client reads, with its warm-up
WARM_BYTES = 250 << 20  # more than one measurement writes
SETTINGS = {"log.segment.delete.delay.ms": "0"}  # the space of a deleted topic is free at once

Measured = dict[str, dict[str, list[float]]]  # workload → client → one figure per round


@dataclass(frozen=True, slots=True)
class Workload:
    """One work with one codec."""

    work: str
    codec: str

    @property
    def name(self) -> str:
        return f"{self.work}, {self.codec}"

    @property
    def clients(self) -> list[str]:
        """All that can: kafka-python needs a package for lz4, and the compiled loops may not be there."""
        known = BATCHES if self.work == "batches" else PRODUCE if self.work == "produce" else CONSUME
        lacks_lz4 = self.codec == "lz4" and find_spec("lz4") is None
        lacking = {"kafka-python": lacks_lz4, COMPILED: not is_compiled()}
        return [client for client in known if not lacking.get(client)]


def workloads(codecs: Sequence[str]) -> list[Workload]:
    """Every codec, but where the shape of the reading loop is the question."""
    found = [Workload(work, codec) for work in ("produce", "consume") for codec in codecs]
    return [*found, *(Workload(work, codecs[-1]) for work in ("one by one", "batches"))]


class MixedBench:
    """Runs the measurements of one broker: records per second and the client's CPU per record, and times."""

    def __init__(self, target: Target, pages: WarmPages, codecs: Sequence[str] = CODECS) -> None:
        self._target = target
        self._pages = pages
        self._codecs = codecs
        self._bootstrap = f"127.0.0.1:{target.port}"
        self.rates: Measured = {}
        self.costs_us: Measured = {}
        self.times_ms: Measured = {}

    def fill(self, scale: float) -> None:
        """Write the topics that consumers read, one for each codec."""
        for codec in self._codecs:
            with Admin(self._bootstrap) as admin:
                admin.create_topics([NewTopic(f"read-{codec}", partitions=PARTITIONS)])
            count = int(FILLED * scale) + 10_000
            self._run(Workload("produce", codec), "confluent-kafka", f"read-{codec}", count)

    def round(self, number: int, scale: float, *, keep: bool) -> None:
        for workload in workloads(self._codecs):
            for client in _in_turn(workload.clients, number):
                self._measure(workload, client, int(RECORDS[client] * scale) + 1, keep)
        for work, clients in LATENCIES.items():
            known = [client for client in clients if client != COMPILED or is_compiled()]
            for client in _in_turn(known, number):
                self._measure_time(work, client, int(SINGLE * scale) + 100, keep)

    def _measure(self, workload: Workload, client: str, records: int, keep: bool) -> None:
        with contextlib.ExitStack() as stack:
            topic = f"read-{workload.codec}"
            if workload.work == "produce":
                topic = stack.enter_context(self._passing_topic("written"))
                self._pages.keep()
                self._pages.release()
            figures = self._run(workload, client, topic, records)
        if not keep:
            return
        rate = figures["records"] / figures["seconds"] / 1_000
        cost = figures["cpu_seconds"] / figures["records"] * 1e6
        print(f"  {workload.name:16} {client:16} {rate:8.0f} krec/s {cost:7.2f} µs of CPU", flush=True)
        for measured, figure in ((self.rates, rate), (self.costs_us, cost)):
            measured.setdefault(workload.name, {}).setdefault(client, []).append(figure)

    def _measure_time(self, work: str, client: str, records: int, keep: bool) -> None:
        with self._passing_topic("timed") as topic:
            figures = self._ask("bench.mixed_latency", client, work, topic, records)
        if not keep:
            return
        print(
            f"  {work:16} {client:16} {figures['p50_ms']:8.3f} ms p50 {figures['p99_ms']:8.3f} ms p99",
            flush=True,
        )
        for figure in ("p50", "p99"):
            by_client = self.times_ms.setdefault(f"{work}, {figure}", {})
            by_client.setdefault(client, []).append(figures[f"{figure}_ms"])

    @contextlib.contextmanager
    def _passing_topic(self, topic: str) -> Iterator[str]:
        """A topic that is gone afterwards, with its files."""
        with Admin(self._bootstrap) as admin:
            admin.create_topics([NewTopic(topic, partitions=PARTITIONS)])
            yield topic
            admin.delete_topics([topic])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._target.broker and [*self._target.broker.data.glob(f"{topic}-[0-9]*")]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the files of {topic} are still there")
            time.sleep(0.01)

    def _run(self, workload: Workload, client: str, topic: str, records: int) -> dict[str, float]:
        return self._ask(
            "bench.mixed_loads", client, workload.work, topic, records, "--codec", workload.codec
        )

    def _ask(
        self, module: str, client: str, work: str, topic: str, records: int, *more: str
    ) -> dict[str, float]:
        command = [sys.executable, "-m", module, "--client", client, "--work", work, *more]
        command += ["--bootstrap", self._bootstrap, "--topic", topic, "--records", str(records)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        if done.returncode:
            raise AssertionError(f"{client} could not do {work}:\n{done.stderr[-3000:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def _in_turn(clients: Sequence[str], number: int) -> list[str]:
    first = number % len(clients)
    return [*clients[first:], *clients[:first]]


PEERS: Final = [client for client in PRODUCE if client not in ("ottla", COMPILED)]


def ratios(measured: Measured) -> list[list[str]]:
    """Ours divided by each other client's, round by round; the median and the spread."""
    return [
        [workload, ours, *(_ratio(by_client[ours], by_client.get(peer, ())) for peer in PEERS)]
        for workload, by_client in measured.items()
        for ours in ("ottla", COMPILED)
        if ours in by_client
    ]


def cpu_ratios(measured: Measured) -> list[list[str]]:
    """The CPU of each other client divided by ours, round by round: above one, ours costs less."""
    return [
        [workload, ours, *(_ratio(by_client.get(peer, ()), by_client[ours]) for peer in PEERS)]
        for workload, by_client in measured.items()
        for ours in ("ottla", COMPILED)
        if ours in by_client
    ]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return _text([mine / other for mine, other in zip(ours, theirs, strict=False)])


def _text(values: Sequence[float]) -> str:
    return Spread.of(values).text() if values else "-"


def figures_of(measured: Measured) -> list[list[str]]:
    return [
        [workload, *(_text(by_client.get(client, ())) for client in PRODUCE)]
        for workload, by_client in measured.items()
    ]


def _words(command: str, rounds: int) -> list[str]:
    loops = "has" if is_compiled() else "does not have"
    return [
        "# The Python clients on mixed records",
        "",
        f"Made by `{command}`: {rounds} rounds, the clients taking turns within each, one process each beside one",
        "broker; medians, with the smallest and the largest round in brackets. Compare only within this page.",
        "[RESULTS_CLIENTS.md](RESULTS_CLIENTS.md) has the same clients on records that are all alike.",
        "",
        "Records (`bench/mixed_records.py`): JSON values of 60 to 900 bytes with log-normal sizes, 5,000 keys with a Zipf",
        "distribution, two headers on a third of the records, six partitions. A consumer reads key, value and headers.",
        "Settings of the clients: `bench/mixed_loads.py`. kafka-python needs the package lz4 for that codec and is left out",
        'where it is missing. "ottla" is the client as `pip install` leaves it, in pure Python; "ottla compiled" has the',
        "two loops over records compiled (`OTTLA_NATIVE=1 pip install`,",
        f"[decision 0006](../docs/decisions/0006-one-loop-may-be-compiled.md)), which this installation {loops}.",
        "",
        "*consume* takes lists of records, *one by one* single ones from each client's loop, *batches* the columns of",
        "`Consumer.batches()`, beside the lists of confluent-kafka. *one send* is the time of one record that is sent and",
        "acknowledged before the next, without lingering; *end to end* the time from sending to reading at 1,000 records",
        "per second (`bench/mixed_latency.py`).",
        "",
    ]


def page(bench: MixedBench, command: str, rounds: int, facts: Sequence[str]) -> str:
    others = ", ".join(f"{name} {version(name)}" for name in ("aiokafka", "kafka-python"))
    return "\n".join(
        [
            *_words(command, rounds),
            *facts,
            f"- {others}",
            "",
            "## Targets",
            "",
            'Medians of the ratios, and whether the target "mixed" of [docs/benchmarks.md](../docs/benchmarks.md) is held.',
            "",
            *report.table(
                ["figure", "target", "ottla", "ottla compiled"],
                verdicts(TARGETS, bench.rates | bench.times_ms, ("ottla", COMPILED)),
            ),
            "",
            "## Ottla's client divided by the others, records per second",
            "",
            *report.table(["workload", "client", *(f"÷ {peer}" for peer in PEERS)], ratios(bench.rates)),
            "",
            "## The CPU per record of the others, divided by that of Ottla's client",
            "",
            "CPU is less disturbed by other work of the machine than the time that passes. confluent-kafka uses two threads.",
            "",
            *report.table(
                ["workload", "client", *(f"{peer} ÷" for peer in PEERS)], cpu_ratios(bench.costs_us)
            ),
            "",
            "## Thousand records per second",
            "",
            *report.table(["workload", *PRODUCE], figures_of(bench.rates)),
            "",
            "## Microseconds of the client's CPU per record",
            "",
            *report.table(["workload", *PRODUCE], figures_of(bench.costs_us)),
            "",
            "## Milliseconds",
            "",
            *report.table(["work", *PRODUCE], figures_of(bench.times_ms)),
            "",
        ]
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.mixed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything; writes no results")
    parser.add_argument("--runs", type=int, default=ROUNDS, metavar="N", help=f"rounds (default: {ROUNDS})")
    parser.add_argument("--target", default="ottla", choices=["ottla", "apache"], help="the broker")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    compileall.compile_dir(str(SOURCE), quiet=1)  # as pip leaves an installed package
    facts, rounds = report.machine(), 1 if chosen.quick else chosen.runs
    scale = QUICK_SCALE if chosen.quick else 1.0
    directory = Path(tempfile.mkdtemp(prefix="ottla-mixed-"))
    try:
        with started([chosen.target], directory, SETTINGS) as (target,):
            bench = MixedBench(target, WarmPages(directory, WARM_BYTES))
            bench.fill(scale)
            if not chosen.quick:
                bench.round(0, WARM_UP_SCALE, keep=False)
            for number in range(1, rounds + 1):
                bench.round(number, scale, keep=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = page(bench, shlex.join(["python", "-m", "bench.mixed", *sys.argv[1:]]), rounds, facts)
    print("\n" + text)
    if not chosen.quick and chosen.target == "ottla":
        RESULTS.write_text(text)
        print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
