"""Tables of Delta and of Iceberg, each on the newest Spark that it is built for: exactly once, upserted,
audited, made by a pipeline (PIPE-3).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.apache.maven import CannotFetchError
from tests.compat.table_format_job import TOPIC
from tests.compat.table_format_spark import FormatSpark, format_jars, format_spark
from tests.repository import ROOT

import ottla.testing
from ottla.spark.table_formats import TABLE_FORMATS

pytestmark = pytest.mark.timeout(1500)  # the first run fetches two versions of PySpark

JOB = ROOT / "tests" / "compat" / "table_format_job.py"
# Before Spark 4.3, duplicates are not dropped from a table that the pipeline is about to make.
DEDUPLICATED = 'return steps.deduplicate(arrived, "order_id", time="timestamp", late=None)'


@dataclass(frozen=True, slots=True)
class Bench:
    """A format's Spark, a broker, and a directory."""

    spark: FormatSpark
    bootstrap: str
    directory: Path

    def ottla(self, *words: object) -> subprocess.CompletedProcess[str]:
        return self.spark.run(
            "-m",
            "ottla.cli.main",
            *words,
            at=self.directory,
            environment={"OTTLA_BOOTSTRAP": self.bootstrap},
        )


@pytest.fixture(scope="module", params=sorted(TABLE_FORMATS))
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    try:
        spark = format_spark(request.param)
    except CannotFetchError as reason:
        pytest.skip(f"NO {request.param.upper()} TO TRY: {reason}")
    with ottla.testing.broker() as broker:
        broker.create_topic(TOPIC, 2)
        yield Bench(spark, broker.bootstrap, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def job(bench: Bench) -> dict[str, Any]:
    """The findings of the job."""
    words = (bench.spark.table_format, bench.spark.jars, bench.bootstrap, bench.directory)
    done = bench.spark.run(JOB, *words, at=bench.directory, environment={})
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_batch_that_the_table_has_already_is_not_added_again(bench: Bench, job: dict[str, Any]) -> None:
    assert job["provider"] == bench.spark.table_format
    assert job["repeated_batch"] == 0
    assert (
        job["events"]["sentence"]
        == "EQUAL: 120 records, each exactly once in the table, each with the same value."
    )


def test_an_upsert_keeps_the_latest_row_of_each_key(job: dict[str, Any]) -> None:
    assert job["latest"] == [[f"key {each}", f"value {115 + each}", 115 + each] for each in range(5)]


def test_an_audit_finds_what_is_missing_and_what_is_there_twice(bench: Bench, job: dict[str, Any]) -> None:
    wrong = [
        "partition 0: offset 7 not in the table",
        "partition 1: offset 9 more than once in the table",
    ]
    assert job["spoilt"]["offenders"] == wrong
    table = next(bench.directory.glob("tables/**/spoilt"))
    done = bench.ottla("audit", TOPIC, table, "--conf", f"spark.jars={bench.spark.jars}")
    assert done.returncode == 1, done.stderr
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith("  partition ")] == wrong
    assert "NOT EQUAL: 1 missing from the table, 1 too many in the table." in done.stdout


def test_a_pipeline_makes_its_tables_in_that_format(bench: Bench) -> None:
    assert bench.ottla("pipeline", "init", "shop").returncode == 0
    project = bench.directory / "shop"
    _choose_format(project, bench.spark)
    for update in (1, 2):  # the second by a process that knows nothing of the first
        sent = bench.spark.run(
            "shop/generate.py", at=bench.directory, environment={"OTTLA_BOOTSTRAP": bench.bootstrap}
        )
        assert sent.returncode == 0, sent.stderr
        done = bench.ottla("pipeline", "run", "shop", "--master", "local[2]")
        assert done.returncode == 0, (update, done.stdout, done.stderr)
    table = next(project.glob("tables/**/raw_orders"))
    audited = bench.ottla("audit", "orders", table, "--conf", f"spark.jars={bench.spark.jars}")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert "EQUAL: 2," in audited.stdout
    mark = "_delta_log" if bench.spark.table_format == "delta" else "metadata"
    made = {each.parent.name for each in project.glob(f"tables/**/{mark}") if each.is_dir()}
    assert made == {"raw_orders", "orders", "revenue", "customers"}
    status = bench.ottla("pipeline", "status", "shop")
    assert status.returncode == 0, status.stderr
    assert "raw_orders" in status.stdout


def _choose_format(project: Path, spark: FormatSpark) -> None:
    file, flows = project / "spark-pipeline.yml", project / "transformations" / "orders.py"
    settings = f"  spark.ottla.tables.format: {spark.table_format}\n  spark.jars: {spark.jars}\n"
    file.write_text(file.read_text().replace("configuration:\n", f"configuration:\n{settings}"))
    assert DEDUPLICATED in flows.read_text()
    flows.write_text(flows.read_text().replace(DEDUPLICATED, "return arrived"))


@pytest.mark.parametrize("table_format", sorted(TABLE_FORMATS))
def test_jars_for_another_spark_are_refused_before_anything_is_written(
    table_format: str, tmp_path: Path
) -> None:
    """This one runs on the Spark that all tests run on."""
    try:
        jars = format_jars(table_format)
    except CannotFetchError as reason:
        pytest.skip(f"NO {table_format.upper()} TO TRY: {reason}")
    done = _refused(table_format, jars, tmp_path)
    assert done.returncode != 0
    assert f"for Spark {TABLE_FORMATS[table_format].newest}, and this is Spark" in done.stderr
    assert not list(tmp_path.glob("shop/tables/*"))


def _refused(table_format: str, jars: list[Path], directory: Path) -> subprocess.CompletedProcess[str]:
    here = FormatSpark(table_format, Path(sys.executable), ",".join(map(str, jars)))
    with ottla.testing.broker() as broker:
        bench = Bench(here, broker.bootstrap, directory)
        broker.create_topic("orders", 1)
        assert bench.ottla("pipeline", "init", "shop").returncode == 0
        _choose_format(directory / "shop", here)
        return bench.ottla("pipeline", "run", "shop", "--master", "local[1]")
