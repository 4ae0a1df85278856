"""`python -m bench.spark_sink`: what exactly once costs a streaming sink, beside itself at least once and beside
Spark's own Kafka connector, into topics of the same Ottla broker.

python -m bench.spark_sink              five rounds, writes bench/RESULTS_SPARK_SINK.md
python -m bench.spark_sink --quick      a fiftieth of everything in one round; writes no results

A stream (available now) copies one topic to another in some micro-batches; all three ways read with the same
source. The ways take turns within each round, after one that warms the virtual machine. What counts is the time of
the micro-batches, by Spark's own account.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import report
from bench.apache.maven import CannotFetchError
from bench.apache.spark_connector import connector_jars
from bench.spark import MASTER, QUICK_SCALE, cost, rate
from bench.spark_loads import MICRO_BATCHES, PARTITIONS, Figures, Place, create, fill, measured, place_of
from bench.targets import started
from bench.verdicts import Spread

RESULTS: Final = Path(__file__).with_name("RESULTS_SPARK_SINK.md")
ROUNDS: Final = 5
RECORDS: Final = {100: 1_200_000, 1024: 240_000}
# Each way: the format of the sink, and its options.
WAYS: Final = {
    "exactly once": ("ottla", {"delivery": "exactly-once"}),
    "at least once": ("ottla", {"delivery": "at-least-once"}),
    "Spark's Kafka connector": ("kafka", {}),
}
SHARE: Final = 0.8  # of at least once
AHEAD: Final = 1.0  # of the connector

Found = dict[int, dict[str, list[Figures]]]  # size of records → way → one per round


def copy_stream(place: Place, way: str, source: str, target: str, rows: int) -> float:
    """Copy a topic; answers how long the micro-batches took."""
    sink, options = WAYS[way]
    checkpoint = tempfile.mkdtemp(prefix="ottla-bench-checkpoint-")
    try:
        frame = (
            place.spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", place.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", rows // MICRO_BATCHES)
            .load()
        )
        writer = frame.select("key", "value").writeStream.format(sink).options(**options)
        writer = writer.option("kafka.bootstrap.servers", place.bootstrap).option("topic", target)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        copied = sum(progress["numInputRows"] for progress in query.recentProgress)
        assert copied == rows, f"{way} copied {copied} of {rows} rows"
        return float(sum(each["durationMs"]["triggerExecution"] for each in query.recentProgress)) / 1_000
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)


def measure(place: Place, rounds: int, scale: float, ways: list[str]) -> Found:
    found: Found = {}
    for size, most in RECORDS.items():
        step = PARTITIONS * MICRO_BATCHES
        rows = max(step, int(most * scale) // step * step)
        source = f"copied-{size}"
        fill(place.bootstrap, source, size, "none", rows)
        for number in range(rounds + 1):
            for way in ways if number % 2 else ways[::-1]:
                target = f"copy-{size}-{number}-{ways.index(way)}"
                create(place.bootstrap, target, retention_bytes=1)
                figures = measured(place, rows, copy_stream, way, source, target, rows)
                if number:
                    found.setdefault(size, {}).setdefault(way, []).append(figures)
                    print(f"  {number}  {size} B  {way:24} {rate(figures):7.0f} krow/s", flush=True)
    return found


def page(found: Found, rounds: int, facts: list[str]) -> str:
    verdicts, rates = [], []
    for size, by_way in found.items():
        ours = by_way["exactly once"]
        for other, asked in (("at least once", SHARE), ("Spark's Kafka connector", AHEAD)):
            if other in by_way:
                spread = Spread.of([rate(a) / rate(b) for a, b in zip(ours, by_way[other], strict=True)])
                held = "held" if spread.median >= asked else f"MISSED by {1 - spread.median / asked:.0%}"
                doubt = "" if (spread.low >= asked) == (spread.high >= asked) else ", rounds disagree"
                verdicts.append(
                    [f"{size} B: exactly once ÷ {other}", f"≥ {asked:g}", spread.text(), held + doubt]
                )
        for way, figures in by_way.items():
            values = [Spread.of([value(each) for each in figures]).text() for value in (rate, cost)]
            rates.append([f"{size} B: {way}", *values])
    return "\n".join(
        [
            "# Exactly once from Spark, measured",
            "",
            f"Made by `python -m bench.spark_sink --rounds {rounds}`: a stream copies a topic in {MICRO_BATCHES} micro-batches, in one Spark",
            f"session ({MASTER}) beside one Ottla broker; medians, with the smallest and largest round in brackets. Ratios are made within a",
            "round. Compare only within this page.",
            "",
            *facts,
            f"- {PARTITIONS} partitions; {RECORDS[100]:,} records of 100 B, {RECORDS[1024]:,} of 1 KiB",
            "",
            *report.table(["rows per second", "asked", "median (spread)", "verdict"], verdicts),
            "",
            *report.table(["way", "thousand rows per second", "µs of Spark's CPU per row"], rates),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    from ottla.spark.runtime.sessions import session, stop

    facts, ways, jars = report.machine(), list(WAYS), ""
    try:
        jars = ",".join(map(str, connector_jars()))
    except CannotFetchError as reason:
        print(f"WITHOUT SPARK'S KAFKA CONNECTOR: {reason}", flush=True)
        ways.remove("Spark's Kafka connector")
    rounds, scale = (1, QUICK_SCALE) if given.quick else (given.rounds, 1.0)
    with tempfile.TemporaryDirectory() as directory, started(["ottla"], Path(directory)) as (target,):
        settings = {"spark.driver.memory": "2g", **({"spark.jars": jars} if jars else {})}
        spark = session("bench-sink", MASTER, **settings)
        try:
            place = place_of(spark, f"127.0.0.1:{target.port}", target.pid)
            text = page(measure(place, rounds, scale, ways), rounds, facts)
        finally:
            stop(spark)
    print(text)
    if not given.quick:
        RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
