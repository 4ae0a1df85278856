"""A project on a Spark Connect server whose executors are the workers of a cluster: six processes of
Spark's, and the command that runs it (PIPE-2).

One test, because each of those processes takes seconds to start. `--master spark://…` is in
tests/compat/test_spark_clusters.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.spark.standalone import StandaloneCluster, connect_server

import ottla.testing
from ottla.spark.pipelines.template import copy_template
from ottla.spark.pipelines.topics import log_ends

DEADLINE_S = 360.0
pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True, slots=True)
class Commands:
    """`ottla pipeline` for one project, as a user types it."""

    project: Path
    bootstrap: str

    def __call__(self, command: str, *arguments: str, expect: int = 0) -> str:
        return self._run(
            "-m", "ottla.cli.main", "pipeline", command, str(self.project), *arguments, expect=expect
        )

    def generate(self, count: int) -> None:
        self._run(str(self.project / "generate.py"), self.bootstrap, str(count))

    def _run(self, *arguments: str, expect: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={**os.environ, "OTTLA_BOOTSTRAP": self.bootstrap},
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self("status", "--json"))
        return content


def test_a_project_runs_on_a_connect_server_with_executors_elsewhere(
    cluster_of_workers: StandaloneCluster, tmp_path: Path
) -> None:
    former = cluster_of_workers.executors()
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    with (
        ottla.testing.broker() as broker,
        connect_server(tmp_path / "server", cluster_of_workers.master, sys.executable, **warehouse) as server,
    ):
        copy_template(tmp_path / "coffee", broker.bootstrap)
        commands = Commands(tmp_path / "coffee", broker.bootstrap)
        commands.generate(200)
        with (tmp_path / "coffee" / "spark-pipeline.yml").open("a", encoding="utf-8") as file:
            file.write("  spark.sql.warehouse.dir: /elsewhere\n")

        told = commands("run", "--remote", server)
        assert f"connecting to Spark at {server}" in told
        assert re.search(r"the server decides spark.sql.warehouse.dir: \S*/warehouse, not /elsewhere", told)
        assert "update completed" in told
        commands.generate(50)
        told = commands("run", "--remote", server)  # in a session of its own: it goes on where the first was

        records = sum(log_ends(broker.bootstrap, ["orders"]).values())
        letters = len(
            broker.records("orders.dead")
        )  # not its end: the markers of transactions have offsets, too
        status = commands.status()
    read = {flow: int(count) for flow, count in re.findall(r"(\w+) read (\d+) rows", told)}
    assert 50 <= read["raw_orders"] == read["orders"] == read["dead_letters"] <= 60  # some are sent twice
    tables = {table["name"]: table for table in status["tables"]}
    assert tables["raw_orders"]["rows"] == records
    assert 0 < tables["orders"]["rows"] <= records - letters
    assert tables["customers"]["rows"] > 0
    flows = {flow["name"]: flow for flow in status["flows"]}
    assert (flows["raw_orders"]["lag"], flows["raw_orders"]["group"]) == (0, "coffee.raw_orders")
    raw = parquet.read_table(tmp_path / "warehouse" / "raw_orders", columns=["partition", "offset"])
    assert raw.num_rows == raw.group_by(["partition", "offset"]).aggregate([]).num_rows == records
    executors = cluster_of_workers.executors() - former
    assert len({executor.parents[1] for executor in executors}) == 2
