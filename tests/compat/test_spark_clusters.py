"""What docs/spark-clusters.md says of clusters whose Python lacks Ottla, on a standalone master with workers;
beyond PyPI's cache, it needs the network (PIPE-2).

- A packed environment, made by the page's own commands, has all that executors need.
- A pipeline ships Ottla to its executors (`--master spark://… --ship`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet
from tests.spark import cluster_job
from tests.spark.standalone import SHORT_LIVED_JVMS, bare_python, standalone_cluster

import ottla.testing
from ottla.spark.pipelines.template import copy_template
from ottla.spark.pipelines.topics import log_ends

DEADLINE_S = 500.0
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark-clusters.md"
pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster.master


@pytest.fixture(scope="module")
def python_without_ottla(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(bare_python(tmp_path_factory.mktemp("bare")))


def run(command: list[str], directory: Path, **environment: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **SHORT_LIVED_JVMS, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def packing_commands() -> list[list[str]]:
    """The page's lines that make and pack an environment, with this Python and with Ottla from this
    directory.
    """
    section = PAGE.read_text(encoding="utf-8").partition("### Send a whole environment")[2]
    lines = [line.split() for line in re.findall(r"^    (.+)$", section, re.MULTILINE)[:3]]
    assert [line[0] for line in lines] == ["python", "environment/bin/pip", "environment/bin/venv-pack"]
    lines[0][0] = sys.executable
    return [[str(ROOT) if word == "ottla" else word for word in line] for line in lines]


def test_an_environment_that_is_packed_as_the_page_says_has_all_that_executors_need(
    master: str, tmp_path: Path
) -> None:
    for command in packing_commands():
        run(command, tmp_path)
    (tmp_path / "conf").mkdir()
    archive = f"{tmp_path / 'environment.tar.gz'}#environment"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.archives {archive}\n", encoding="utf-8")

    with ottla.testing.broker() as broker:
        broker.create_topic("orders", 3)
        job = [sys.executable, cluster_job.__file__, master, broker.bootstrap, str(tmp_path)]
        told = run(
            job,
            tmp_path,
            PYSPARK_PYTHON="./environment/bin/python",
            SPARK_CONF_DIR=str(tmp_path / "conf"),
        )

    result = json.loads(told.splitlines()[-1])
    assert result["rows"] == result["distinct"] == cluster_job.ROWS
    assert result["executors"] == 2
    assert len(result["places"]) == 2  # each in the directory of its executor
    for place in result["places"]:
        python, package = place.split()
        assert re.search(r"/worker\d/app-[\d-]+/\d+/environment/bin/python$", python)
        assert "/environment/lib/" in package


def test_a_pipeline_brings_ottla_to_the_executors_of_a_master(
    master: str, python_without_ottla: str, tmp_path: Path
) -> None:
    copy_template(tmp_path / "coffee")
    with (tmp_path / "coffee" / "spark-pipeline.yml").open("a", encoding="utf-8") as file:
        file.write("  spark.executor.memory: 512m\n")  # as much as the workers have
    ottla_command = [sys.executable, "-m", "ottla.cli.main", "pipeline"]
    with ottla.testing.broker() as broker:
        environment = {"OTTLA_BOOTSTRAP": broker.bootstrap, "PYSPARK_PYTHON": python_without_ottla}
        run([sys.executable, "coffee/generate.py", broker.bootstrap, "200"], tmp_path)
        told = run([*ottla_command, "run", "coffee", "--master", master, "--ship"], tmp_path, **environment)
        records = sum(log_ends(broker.bootstrap, ["orders"]).values())
        status = json.loads(run([*ottla_command, "status", "coffee", "--json"], tmp_path, **environment))

    assert f"starting Spark ({master})" in told
    assert "update completed" in told
    tables = {table["name"]: table["rows"] for table in status["tables"]}
    assert tables["raw_orders"] == records
    assert tables["orders"] > 0
    raw = parquet.read_table(tmp_path / "coffee" / "tables" / "raw_orders", columns=["partition", "offset"])
    assert raw.num_rows == raw.group_by(["partition", "offset"]).aggregate([]).num_rows == records
