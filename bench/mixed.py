"""`python -m bench.mixed`: the Python clients side by side on mixed records, against one broker.

python -m bench.mixed                     five rounds, writes bench/RESULTS_MIXED.md
python -m bench.mixed --quick             a tenth of everything in one round: is it still alive?
python -m bench.mixed --target apache     against Apache Kafka; writes no results

The records are those of `bench/mixed_records.py`, the topics have six partitions, the codecs are none, lz4
and zstd. Each measurement is a process of its own (`bench/mixed_loads.py`). The clients take turns within
each round, another one first each time; ratios are taken within a round. One round before the others is not
counted.
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
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bench import report
from bench.memory import WarmPages
from bench.mixed_loads import PARTITIONS, PRODUCE
from bench.targets import Target, started
from bench.verdicts import Spread

from ottla import NewTopic
from ottla.blocking import Admin

RESULTS = Path(__file__).with_name("RESULTS_MIXED.md")
SOURCE = Path(__file__).resolve().parents[1] / "src"
CODECS: Final = ("none", "lz4", "zstd")
WORKS: Final = ("produce", "consume")
ROUNDS, QUICK_SCALE, WARM_UP_SCALE = 5, 0.1, 0.3
DEADLINE_SECONDS = 300
# As many records as take each client half a second or more on a quiet machine.
RECORDS: Final[Mapping[str, int]] = {
    "ottla": 120_000,
    "aiokafka": 80_000,
    "confluent-kafka": 200_000,
    "kafka-python": 25_000,
}
FILLED: Final = 300_000  # records in a topic to read: more than any client reads, with its warm-up
WARM_BYTES = 150 << 20  # more than one measurement writes
SETTINGS = {"log.segment.delete.delay.ms": "0"}  # the space of a deleted topic is free at once

Measured = dict[str, dict[str, list[float]]]  # workload → client → one figure per round


def clients_for(codec: str) -> list[str]:
    """All clients, but for kafka-python without the package that it needs for lz4."""
    lacks_lz4 = codec == "lz4" and find_spec("lz4") is None
    return [client for client in PRODUCE if not (lacks_lz4 and client == "kafka-python")]


class MixedBench:
    """Runs the measurements of one broker and keeps records per second, and the client's CPU per record."""

    def __init__(self, target: Target, pages: WarmPages, codecs: Sequence[str] = CODECS) -> None:
        self._target = target
        self._pages = pages
        self._codecs = codecs
        self._bootstrap = f"127.0.0.1:{target.port}"
        self.rates: Measured = {}
        self.costs_us: Measured = {}

    def fill(self, scale: float) -> None:
        """Write the topics that consumers read, one for each codec."""
        for codec in self._codecs:
            with Admin(self._bootstrap) as admin:
                admin.create_topics([NewTopic(f"read-{codec}", partitions=PARTITIONS)])
            count = int(FILLED * scale) + 10_000
            self._run("produce", "confluent-kafka", codec, f"read-{codec}", count)

    def round(self, number: int, scale: float, *, keep: bool) -> None:
        for work in WORKS:
            for codec in self._codecs:
                clients = clients_for(codec)
                first = number % len(clients)
                for client in clients[first:] + clients[:first]:
                    self._measure(work, client, codec, int(RECORDS[client] * scale) + 1, keep)

    def _measure(self, work: str, client: str, codec: str, records: int, keep: bool) -> None:
        with contextlib.ExitStack() as stack:
            topic = f"read-{codec}"
            if work == "produce":
                topic = stack.enter_context(self._passing_topic(f"{client}-{codec}"))
                self._pages.keep()
                self._pages.release()
            figures = self._run(work, client, codec, topic, records)
        if not keep:
            return
        rate = figures["records"] / figures["seconds"] / 1_000
        cost = figures["cpu_seconds"] / figures["records"] * 1e6
        print(f"  {work}, {codec:5} {client:16} {rate:8.0f} krec/s {cost:7.2f} µs of CPU", flush=True)
        for measured, figure in ((self.rates, rate), (self.costs_us, cost)):
            measured.setdefault(f"{work}, {codec}", {}).setdefault(client, []).append(figure)

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

    def _run(self, work: str, client: str, codec: str, topic: str, records: int) -> dict[str, float]:
        command = [sys.executable, "-m", "bench.mixed_loads", "--client", client, "--work", work]
        command += ["--codec", codec, "--bootstrap", self._bootstrap, "--topic", topic]
        command += ["--records", str(records)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        if done.returncode:
            raise AssertionError(f"{client} could not {work}:\n{done.stderr[-3000:]}")
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def ratios(measured: Measured) -> list[list[str]]:
    """Ours divided by each other client's, round by round; the median and the spread."""
    peers = [client for client in PRODUCE if client != "ottla"]
    return [
        [workload, *(_ratio(by_client["ottla"], by_client.get(peer, ())) for peer in peers)]
        for workload, by_client in measured.items()
    ]


def cpu_ratios(measured: Measured) -> list[list[str]]:
    """The CPU of each other client divided by ours, round by round: above one, ours costs less."""
    peers = [client for client in PRODUCE if client != "ottla"]
    return [
        [workload, *(_ratio(by_client.get(peer, ()), by_client["ottla"]) for peer in peers)]
        for workload, by_client in measured.items()
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


def page(bench: MixedBench, command: str, rounds: int, facts: Sequence[str]) -> str:
    others = ", ".join(f"{name} {version(name)}" for name in ("aiokafka", "kafka-python"))
    peers = [client for client in PRODUCE if client != "ottla"]
    return "\n".join(
        [
            "# The Python clients on mixed records",
            "",
            f"Made by `{command}`: {rounds} rounds, the clients taking turns within each, one process each beside one",
            "broker; medians, with the smallest and the largest round in brackets. Compare only within this page.",
            "[RESULTS_CLIENTS.md](RESULTS_CLIENTS.md) has the same clients on records that are all alike.",
            "",
            "Records (`bench/mixed_records.py`): JSON values of 60 to 900 bytes with log-normal sizes, 5,000 keys with a Zipf",
            "distribution, two headers on a third of the records, six partitions. A consumer reads key, value and headers.",
            "Settings of the clients: `bench/mixed_loads.py`. kafka-python needs the package lz4 for that codec and is left out",
            "where it is missing. There is no target for these figures yet.",
            "",
            *facts,
            f"- {others}",
            "",
            "## Ottla's client divided by the others, records per second",
            "",
            *report.table(["workload", *(f"÷ {peer}" for peer in peers)], ratios(bench.rates)),
            "",
            "## The CPU per record of the others, divided by that of Ottla's client",
            "",
            "CPU is less disturbed by other work of the machine than the time that passes. confluent-kafka uses two threads.",
            "",
            *report.table(["workload", *(f"{peer} ÷ ottla" for peer in peers)], cpu_ratios(bench.costs_us)),
            "",
            "## Thousand records per second",
            "",
            *report.table(["workload", *PRODUCE], figures_of(bench.rates)),
            "",
            "## Microseconds of the client's CPU per record",
            "",
            *report.table(["workload", *PRODUCE], figures_of(bench.costs_us)),
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
