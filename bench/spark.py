"""`python -m bench.spark`: our Spark source and sink beside Spark's own Kafka connector, on the same topics
of the same Ottla broker.

python -m bench.spark                    everything, five rounds, writes bench/RESULTS_SPARK.md
python -m bench.spark --quick            a fiftieth of everything in one round: is it still alive?
python -m bench.spark --only "1024 B"    workloads whose name contains it; writes no results

One broker process, one Spark session (`local[2]`), which has both connectors. They take turns within each
round, the other one first each time, after a round that warms the virtual machine and is not kept. Ratios are
made within a round, and their medians are judged. What the work is stands in `bench/spark_loads.py`.
"""

from __future__ import annotations

import argparse
import compileall
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench import report, spark_loads
from bench.apache.maven import CannotFetchError
from bench.apache.spark_connector import connector_jars, connector_version
from bench.spark_loads import CODECS, RECORDS, SIZES, WRITTEN, Figures, Place, fill, measured
from bench.targets import started
from bench.verdicts import Spread

RESULTS: Final = Path(__file__).with_name("RESULTS_SPARK.md")
SOURCE: Final = Path(__file__).resolve().parents[1] / "src"
CONNECTORS: Final = ("ottla", "kafka")
ROUNDS: Final = 5
QUICK_SCALE: Final = 0.02
ASKED: Final = 1.0  # at least equal: the target "Spark" of docs/benchmarks.md
MASTER: Final = "local[2]"

READS: Final = {
    "batch to noop": spark_loads.read_noop,
    "batch to aggregate": spark_loads.read_aggregate,
    "stream to noop": spark_loads.read_stream,
}


@dataclass(slots=True)
class Bench:
    """Runs rounds and keeps what each connector did in each: workload → connector → figures, one per
    round.
    """

    place: Place
    scale: float = 1.0
    only: str = ""
    figures: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    _filled: set[str] = field(default_factory=set)
    _frames: dict[int, Any] = field(default_factory=dict)

    def round(self, number: int, *, keep: bool) -> None:
        order = CONNECTORS if number % 2 else CONNECTORS[::-1]
        for workload, rows, work in self._work(number):
            for connector in order:
                figures = measured(self.place, rows, work, connector)
                if keep:
                    self.figures.setdefault(workload, {}).setdefault(connector, []).append(figures)
                    print(f"  {number}  {workload:30} {connector:6} {_line(figures)}", flush=True)

    def _work(self, number: int) -> Iterator[tuple[str, int, Callable[[Place, str], float | None]]]:
        for name, size, codec in ((n, s, c) for s in SIZES for c in CODECS for n in READS):
            workload = f"{name}, {size} B {'plain' if codec == 'none' else codec}"
            if self.only in workload:
                rows = self._count(RECORDS[size])
                topic = self._topic(size, codec, rows)
                yield workload, rows, self._reading(name, topic, rows)
        for size in SIZES:
            workload = f"write, {size} B"
            if self.only in workload:
                yield workload, self._count(WRITTEN[size]), self._writing(size, number)

    def _reading(self, name: str, topic: str, rows: int) -> Callable[[Place, str], float | None]:
        return lambda place, connector: READS[name](place, connector, topic, rows)

    def _writing(self, size: int, number: int) -> Callable[[Place, str], float | None]:
        if size not in self._frames:
            self._frames[size] = spark_loads.write_frame(self.place.spark, size, self._count(WRITTEN[size]))
        topics = {each: f"write-{size}-{each}-{number}" for each in CONNECTORS}
        for topic in topics.values():
            spark_loads.create(self.place.bootstrap, topic, retention_bytes=1)
        frame = self._frames[size]
        return lambda place, connector: spark_loads.write(place, connector, frame, topics[connector])

    def _topic(self, size: int, codec: str, rows: int) -> str:
        topic = f"read-{size}-{codec}"
        if topic not in self._filled:
            fill(self.place.bootstrap, topic, size, codec, rows)
            self._filled.add(topic)
        return topic

    def _count(self, most: int) -> int:
        # Each partition has the same number, and each micro-batch too.
        step = spark_loads.PARTITIONS * spark_loads.MICRO_BATCHES
        return max(step, int(most * self.scale) // step * step)


def _line(figures: Figures) -> str:
    return f"{rate(figures):7.0f} krow/s {cost(figures):6.2f} µs of Spark's CPU {figures.seconds:6.2f} s"


def rate(figures: Figures) -> float:
    """Thousand rows per second."""
    return figures.rows / figures.seconds / 1_000


def cost(figures: Figures) -> float:
    """Microseconds of CPU per row of the JVM and its Python workers."""
    return figures.spark_cpu_seconds / figures.rows * 1e6


def broker_cost(figures: Figures) -> float:
    """Microseconds of the broker's CPU per row."""
    return figures.broker_cpu_seconds / figures.rows * 1e6


def start(figures: Figures) -> float:
    """Seconds besides the micro-batches."""
    return figures.start_seconds


def ratios(by_connector: dict[str, list[Figures]]) -> list[float]:
    """Ours divided by theirs, round by round."""
    pairs = zip(by_connector.get("ottla", ()), by_connector.get("kafka", ()), strict=False)
    return [rate(ours) / rate(theirs) for ours, theirs in pairs]


def verdicts(bench: Bench) -> list[list[str]]:
    found = {workload: ratios(by_connector) for workload, by_connector in bench.figures.items()}
    return [_judged(workload, each) for workload, each in found.items() if each]


def _judged(workload: str, found: list[float]) -> list[str]:
    spread = Spread.of(found)
    doubt = "" if (spread.low >= ASKED) == (spread.high >= ASKED) else ", rounds disagree"
    held = "held" if spread.median >= ASKED else f"MISSED by {1 - spread.median / ASKED:.0%}"
    return [workload, spread.text(), held + doubt]


def whole_streams(bench: Bench) -> list[list[str]]:
    """Streams from their definition to their end, ours divided by theirs."""
    rows: list[list[str]] = []
    for workload, by_connector in bench.figures.items():
        pairs = zip(by_connector.get("ottla", ()), by_connector.get("kafka", ()), strict=False)
        found = [(b.seconds + b.start_seconds) / (a.seconds + a.start_seconds) for a, b in pairs]
        if workload.startswith("stream") and found:
            rows.append(_judged(workload, found))
    return rows


def _cells(bench: Bench, value: Callable[[Figures], float], kind: str = "") -> list[list[str]]:
    return [
        [
            workload,
            *(Spread.of([value(each) for each in by_connector[name]]).text() for name in CONNECTORS),
        ]
        for workload, by_connector in bench.figures.items()
        if set(CONNECTORS) <= by_connector.keys() and workload.startswith(kind)
    ]


def page(bench: Bench, command: str, rounds: int, facts: Sequence[str]) -> str:
    headings = ["workload", "ottla", "Spark's Kafka connector"]
    return "\n".join(
        [
            "# Spark, measured",
            "",
            f"Made by `{command}`: {rounds} rounds, the connectors taking turns within each, in one Spark session ({MASTER}) beside one",
            "Ottla broker, all on one machine; medians, with the smallest and largest round in brackets. Ratios are made within a round.",
            "Compare only within this page. What is read and written, and how, stands in `bench/spark_loads.py`.",
            "",
            *facts,
            f"- PySpark {version('pyspark')}, PyArrow {version('pyarrow')}, Spark's Kafka connector {connector_version()}",
            f"- {spark_loads.PARTITIONS} partitions; {RECORDS[100]:,} records of 100 B, {RECORDS[1024]:,} of 1 KiB, written by librdkafka",
            f"- streams read all there is (available now) in {spark_loads.MICRO_BATCHES} micro-batches; what counts is the time of these, by Spark's own",
            "  account; what a query takes besides, to start and to end, stands below",
            "",
            "## Rows per second, ours divided by theirs",
            "",
            'Asked is at least 1, the row "Spark" of the [table of targets](../docs/benchmarks.md#targets).',
            "",
            *report.table(["workload", "median (spread)", "verdict"], verdicts(bench)),
            "",
            "## Thousand rows per second",
            "",
            *report.table(headings, _cells(bench, rate)),
            "",
            "## Microseconds of CPU per row, of the JVM and its Python workers",
            "",
            *report.table(headings, _cells(bench, cost)),
            "",
            "## Seconds that a stream takes to start and to end, besides its micro-batches",
            "",
            "Spark starts a Python process for each stream of a Python source; its Kafka connector lives in the JVM.",
            "",
            *report.table(headings, _cells(bench, start, "stream")),
            "",
            "With these seconds counted, rows per second of so short a stream, ours divided by theirs:",
            "",
            *report.table(["workload", "median (spread)", "verdict"], whole_streams(bench)),
            "",
            "## Microseconds of the broker's CPU per row",
            "",
            *report.table(headings, _cells(bench, broker_cost)),
            "",
        ]
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark",
        description="Measure Spark with our source and with its Kafka connector.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a fiftieth of everything in one round; writes no results"
    )
    parser.add_argument("--runs", type=int, default=ROUNDS, metavar="N", help=f"rounds (default: {ROUNDS})")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="workloads whose name contains NAME; writes no results"
    )
    return parser.parse_args()


def run(chosen: argparse.Namespace, directory: Path) -> str:
    """All rounds, and the page about them."""
    import ottla.spark

    facts, rounds = report.machine(), 1 if chosen.quick else chosen.runs
    jars = ",".join(map(str, connector_jars()))
    with started(["ottla"], directory) as (target,):
        spark = ottla.spark.session("bench", MASTER, **{"spark.jars": jars, "spark.driver.memory": "2g"})
        try:
            place = spark_loads.place_of(spark, f"127.0.0.1:{target.port}", target.pid)
            bench = Bench(place, QUICK_SCALE if chosen.quick else 1.0, chosen.only)
            for number in range(rounds + 1):
                bench.round(number, keep=number > 0)
        finally:
            ottla.spark.stop(spark)
    return page(bench, shlex.join(["python", "-m", "bench.spark", *sys.argv[1:]]), rounds, facts)


def main() -> int:
    chosen = options()
    compileall.compile_dir(str(SOURCE), quiet=1)  # as pip leaves an installed package
    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    try:
        text = run(chosen, directory)
    except CannotFetchError as reason:
        print(reason, file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("\n" + text)
    if not (chosen.quick or chosen.only):
        RESULTS.write_text(text)
        print(f"written to {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
