"""`python -m bench.lake`: tables of topics beside Spark's connector, and one query beside two reads.

python -m bench.lake            a million records of 100 B, three rounds; writes bench/RESULTS_LAKE_TABLES.md
python -m bench.lake --quick    a twentieth of it in one round: is it still alive?

One broker process, one Spark session (`local[2]`), one topic of two partitions. Each round builds the table anew
in each way, in turns. The one query reads a table of four fifths of the topic and the rest from the log; it stands
beside reading the files alone and the rest of the log alone, with the same columns.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.apache.maven import CannotFetchError
from bench.apache.spark_connector import connector_jars
from bench.spark_loads import fill

import ottla.spark
from ottla.lake.plan.definition import TableDefinition
from ottla.lake.reading.query import planned
from ottla.lake.reading.scan import reader_of
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.engines import Engine, LocalEngine, SparkEngine
from ottla.lake.writing.job import Limits, TableWriter
from ottla.localcluster.broker_process import running, start_broker

RESULTS: Final = Path(__file__).with_name("RESULTS_LAKE_TABLES.md")
RECORDS: Final = 1_000_000
ROUNDS: Final = 3
TOPIC: Final = "orders"
COLUMNS: Final = ["partition", "offset", "timestamp", "key", "value"]


class Bench:
    """The ways to build a table and to read one, each measured in rows per second."""

    def __init__(
        self, directory: Path, bootstrap: str, spark: Any, records: int, has_connector: bool
    ) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._spark = spark
        self._records = records
        self._has_connector = has_connector
        self._count = 0

    def ways(self) -> dict[str, Callable[[], int]]:
        local, spark = LocalEngine(), SparkEngine(self._spark)
        return {
            "table: Iceberg, local engine": lambda: self._table("iceberg", local),
            "table: Delta, local engine": lambda: self._table("delta", local),
            "table: Iceberg, Spark engine": lambda: self._table("iceberg", spark),
            "Parquet by Spark, format ottla": lambda: self._parquet("ottla"),
            **({"Parquet by Spark, its Kafka connector": self._by_connector} if self._has_connector else {}),
        }

    def _table(self, table_format: str, engine: Engine) -> int:
        warehouse = Warehouse(self._place())
        definition = TableDefinition(TOPIC, "orders", table_format)
        warehouse.enable(definition)
        limits = Limits(records_per_task=self._records // 4)
        writer = TableWriter(warehouse, definition, Cluster(self._bootstrap), engine, limits)
        return sum(each.rows for each in writer.run())

    def _by_connector(self) -> int:
        return self._parquet("kafka")

    def _parquet(self, source: str) -> int:
        place = str(self._place() / "table")
        options = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": TOPIC, "minPartitions": "4"}
        frame = self._spark.read.format(source).options(**options, includeHeaders="true").load()
        frame.write.option("compression", "zstd").parquet(place)
        return self._records

    def reads(self) -> dict[str, Callable[[], int]]:
        """A table of four fifths, and the ways to read it and the rest."""
        warehouse = Warehouse(self._place())
        definition = TableDefinition(TOPIC, "orders")
        warehouse.enable(definition)
        limits = Limits(records_per_commit=self._records * 4 // 5)
        TableWriter(warehouse, definition, Cluster(self._bootstrap), limits=limits).commit_once()

        def read(*, cold: bool, hot: bool) -> int:
            query = planned(warehouse, Cluster(self._bootstrap), TOPIC)
            part = replace(query, files=query.files if cold else (), ranges=query.ranges if hot else ())
            return sum(batch.num_rows for batch in reader_of(part, COLUMNS))

        return {
            "one query over table and log": lambda: read(cold=True, hot=True),
            "the table alone": lambda: read(cold=True, hot=False),
            "the rest of the log alone": lambda: read(cold=False, hot=True),
        }

    def _place(self) -> Path:
        self._count += 1
        place = self._directory / f"lake-{self._count}"
        shutil.rmtree(self._directory / f"lake-{self._count - 2}", ignore_errors=True)
        place.mkdir()
        return place


def seconds_of(work: Callable[[], int]) -> tuple[float, int]:
    begun = time.perf_counter()
    rows = work()
    return time.perf_counter() - begun, rows


def rounds(ways: dict[str, Callable[[], int]], count: int) -> dict[str, list[tuple[float, int]]]:
    """Each way in turn, after a round that warms everything and is not kept."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
    for number in range(count + 1):
        for name, work in ways.items():
            taken = seconds_of(work)
            print(
                f"  {number}  {name:40} {taken[1] / taken[0] / 1000:8.0f} krow/s {taken[0]:6.2f} s",
                flush=True,
            )
            if number:
                found[name].append(taken)
    return found


def table_of(found: dict[str, list[tuple[float, int]]]) -> list[str]:
    lines = ["| what | seconds | thousand rows per second |", "|---|---|---|"]
    for name, taken in found.items():
        seconds = statistics.median(each for each, _ in taken)
        lines.append(f"| {name} | {seconds:.2f} | {taken[0][1] / seconds / 1000:.0f} |")
    return lines


def report(records: int, built: Any, read: Any) -> str:
    both, cold, hot = (statistics.median(each for each, _ in taken) for taken in read.values())
    return "\n".join(
        [
            "# Tables of topics, measured",
            "",
            f"`python -m bench.lake`: {records:,} records of 100 B in two partitions, medians of rounds, two cores "
            "shared with other work.",
            "",
            "## Building a table",
            "",
            *table_of(built),
            "",
            "## One query beside two reads",
            "",
            *table_of(read),
            "",
            f"One query takes {both / (cold + hot):.2f} of the time of the two reads.",
            "",
        ]
    )


def jars() -> dict[str, str]:
    try:
        return {"spark.jars": ",".join(map(str, connector_jars()))}
    except CannotFetchError as reason:
        print(f"WITHOUT SPARK'S KAFKA CONNECTOR: {reason}")
        return {}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth, one round, no results")
    given = parser.parse_args()
    records, count = (RECORDS // 20, 1) if given.quick else (RECORDS, ROUNDS)
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-lake-"))
    settings = jars()
    try:
        with running(start_broker(directory / "broker")) as broker:
            fill(broker.bootstrap, TOPIC, 100, "none", records)
            spark = ottla.spark.session("bench.lake", "local[2]", **settings)
            bench = Bench(directory, broker.bootstrap, spark, records, bool(settings))
            built, read = rounds(bench.ways(), count), rounds(bench.reads(), count)
            ottla.spark.stop(spark)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = report(records, built, read)
    print(text)
    if not given.quick:
        RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
