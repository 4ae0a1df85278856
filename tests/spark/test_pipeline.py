"""`ottla pipeline` as a user types it: a new project runs as it is, goes on where it was, stops when told,
and says what is wrong with it (PIPE-4, PIPE-7).

Each command that starts Spark costs some ten seconds, so the tests that run a project share one, in the order
in which a user would.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import ottla.testing
from ottla.blocking import Admin, Consumer
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.model import TopicPartition

# A run takes some fifteen seconds on a quiet machine.
DEADLINE_S = 360.0
README = Path(__file__).resolve().parents[2] / "README.md"
pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True, slots=True)
class Project:
    """A project of its own, on a broker of its own: the template's topics have fixed names."""

    directory: Path
    bootstrap: str

    def ottla(self, *arguments: str, expect: int = 0) -> str:
        return self.run("-m", "ottla.cli.main", "pipeline", *arguments, expect=expect)

    def run(self, *arguments: str, expect: int = 0) -> str:
        """A Python program beside the project; what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            cwd=self.directory.parent,
            env=self.environment(),
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        return {**os.environ, "OTTLA_BOOTSTRAP": self.bootstrap}

    def generate(self, count: int) -> None:
        self.run(str(self.directory / "generate.py"), self.bootstrap, str(count))

    def status(self) -> dict[str, Any]:
        content = json.loads(self.ottla("status", str(self.directory), "--json"))
        assert isinstance(content, dict)
        return content

    def rows(self) -> dict[str, int]:
        return {table["name"]: table["rows"] for table in self.status()["tables"]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    directory = tmp_path_factory.mktemp("pipelines") / "coffee"
    with ottla.testing.broker() as broker:
        made = Project(directory, broker.bootstrap)
        yield made


def log_end(bootstrap: str, topic: str) -> int:
    from ottla.spark.pipelines.topics import log_ends

    return sum(log_ends(bootstrap, [topic]).values())


def dead_letters(bootstrap: str) -> int:
    """How many there are; each was written once, in a transaction."""
    place = TopicPartition("orders.dead", 0)
    origins: list[tuple[bytes | None, ...]] = []
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        while not origins or any(consumer.lag().values()):
            for record in consumer.poll(timeout_ms=1_000):
                headers = dict(record.headers)
                origins.append((headers["dead-letter.partition"], headers["dead-letter.offset"]))
    assert len(set(origins)) == len(origins)
    assert log_end(bootstrap, "orders.dead") > len(origins), "there is no marker of a transaction"
    return len(origins)


def readme_commands() -> list[str]:
    """The README's lines about pipelines, but for the installation."""
    section = README.read_text(encoding="utf-8").partition("## Spark\n")[2]
    block = section.partition("```sh\n")[2].partition("```")[0]
    return [line for line in block.splitlines() if not line.startswith("pip ")]


def test_the_readmes_lines_make_a_project_and_run_it(project: Project) -> None:
    told = ""
    for line in readme_commands():
        word, _, rest = line.partition(" ")
        if word == "ottla":
            told += project.ottla(*rest.removeprefix("pipeline ").split())
        else:
            assert word == "python"
            project.run(*rest.split())

    assert "update completed" in told
    assert "last update completed" in told
    records, letters = log_end(project.bootstrap, "orders"), dead_letters(project.bootstrap)
    rows = project.rows()
    assert rows["raw_orders"] == records
    assert 0 < letters < 150
    assert 0 < rows["orders"] <= records - letters
    assert 0 < rows["customers"] <= 50
    flows = {flow["name"]: flow for flow in project.status()["flows"]}
    assert flows["raw_orders"]["group"] == "coffee.raw_orders"
    assert flows["raw_orders"]["lag"] == 0
    with Admin(project.bootstrap) as admin:
        committed = admin.list_group_offsets("coffee.raw_orders")
    assert sum(each.offset for each in committed.values() if isinstance(each, CommittedOffset)) == records


def test_it_goes_on_where_it_was_until_it_is_stopped(project: Project) -> None:
    before = project.rows()
    project.generate(200)
    wanted = log_end(project.bootstrap, "orders")
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "pipeline",
        "run",
        str(project.directory),
        "--continuous",
    ]
    last = ""
    running = subprocess.Popen(
        [*command, "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=project.environment(),
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        assert running.stdout is not None
        for line in running.stdout:
            assert time.monotonic() < deadline, line
            if "update completed" in line and project.rows()["raw_orders"] >= wanted:
                last = line
                break
        running.send_signal(signal.SIGTERM)
        rest, _ = running.communicate(timeout=DEADLINE_S)
    finally:
        running.kill()
        running.wait()

    assert running.returncode == 0, rest
    assert re.search(r"\borders read", last)  # in the same update: after the table that it reads
    raw = parquet.read_table(project.directory / "tables" / "raw_orders", columns=["partition", "offset"])
    assert raw.num_rows == wanted
    assert len(set(zip(*raw.to_pydict().values(), strict=True))) == wanted
    assert project.rows()["orders"] > before["orders"]
    assert project.status()["last_update"]["outcome"] in ("completed", "stopped")


def test_a_table_is_made_anew_from_a_time_on(project: Project) -> None:
    before = project.rows()
    later = str(time.time_ns() // 1_000_000)
    project.generate(50)

    project.ottla("run", "coffee", "--full-refresh", "raw_orders", "--since", later, "--master", "local[2]")

    rows = project.rows()
    assert 50 <= rows["raw_orders"] <= 60  # some are sent twice
    assert rows["orders"] == before["orders"]  # it was not asked for


def test_what_is_wrong_is_said_with_file_and_line(project: Project) -> None:
    definitions = project.directory / "transformations"
    (definitions / "customers.sql").write_text(
        "CREATE MATERIALIZED VIEW customers AS\nSELECT nobody FROM orders", encoding="utf-8"
    )
    (definitions / "more.py").write_text(
        "from pyspark import pipelines as dp\n"
        "from pyspark.sql import functions as F\n"
        "from ottla.spark import steps\n"
        "@dp.table\n"
        "def returns():\n"
        "    return steps.read_topic(spark, 'returns')\n"
        "@dp.table\n"
        "def early():\n"
        "    return steps.read_table(spark, 'raw_orders').withColumn('x', F.lit(1))\n",
        encoding="utf-8",
    )
    told = project.ottla("check", "coffee", "--master", "local[2]", expect=1)
    assert "customers.sql:1: the flow customers failed" in told
    assert "`nobody` cannot be resolved" in told
    assert "stacktrace" not in told
    assert f"{definitions}/more.py:4: the flow returns reads the topic returns, which does not exist" in told
    assert "ottla topics create returns" in told
    assert "the flow early uses `withColumn` on raw_orders" in told


def test_mistakes_are_found_before_spark_starts(project: Project, tmp_path: Path) -> None:
    assert "is there already: nothing was changed" in project.ottla("init", "coffee", expect=1)
    assert "cannot be called '9x'" in project.ottla("init", "9x", expect=1)
    assert "is not a pipeline" in project.ottla("run", str(tmp_path), expect=1)
    assert "--since goes with --full-refresh" in project.ottla(
        "run", "coffee", "--since", "2026-01-01", expect=2
    )
    assert "leave out --full-refresh" in project.ottla(
        "run", "coffee", "--full-refresh-all", "--refresh", "a", expect=2
    )
    assert "is not a duration" in project.ottla("run", "coffee", "--every", "often", expect=2)
    with ottla.testing.broker() as broker:
        gone = broker.bootstrap
    assert f"No broker answers at {gone}" in project.ottla("run", "coffee", "--bootstrap", gone, expect=1)
