"""The same job where it runs on many machines: executors are processes of their own, with the Python that
they have (PIPE-2).

A standalone cluster whose workers have Ottla is in test_pipeline_clusters.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark import cluster_job
from tests.spark.standalone import SHORT_LIVED_JVMS, StandaloneCluster, bare_python

import ottla.testing

# Three JVMs and a driver start within fifteen seconds on a machine that is idle, and within minutes on one
# that is not.
JOB_DEADLINE_S = 380.0
pytestmark = pytest.mark.timeout(400)

JOB = Path(cluster_job.__file__)
SOURCES = Path(ottla.testing.__file__).parents[2]


@pytest.fixture(scope="module")
def python_without_ottla(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(bare_python(tmp_path_factory.mktemp("bare")))


def run_job(
    master: str, directory: Path, *flags: str, environment: dict[str, str], python: str = sys.executable
) -> dict[str, Any]:
    """The output of the job, run by a driver of its own."""
    with ottla.testing.broker() as broker:
        broker.create_topic("orders", 3)
        command = [sys.executable, str(JOB), master, broker.bootstrap, str(directory), *flags]
        done = subprocess.run(
            command,
            env={**environment, **SHORT_LIVED_JVMS, "PYSPARK_PYTHON": python},
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=JOB_DEADLINE_S,
            check=False,
        )
    told = [
        line for line in done.stderr.splitlines() if not line.startswith("\tat ")
    ]  # Java's traces are long
    assert done.returncode == 0, "\n".join(told)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["rows"] == result["distinct"] == cluster_job.ROWS
    assert result["executors"] == 2
    return result


def test_the_job_runs_on_a_local_cluster_with_the_java_from_pypi(
    tmp_path: Path, without_java: dict[str, str]
) -> None:
    result = run_job("local-cluster[2,1,640]", tmp_path, environment=without_java)
    assert result["places"] == [f"{sys.executable} {SOURCES / 'ottla' / '__init__.py'}"]
    assert int(result["java"].split(".")[0]) >= 21


def test_the_job_brings_ottla_to_workers_that_lack_it(
    cluster_of_workers: StandaloneCluster, tmp_path: Path, python_without_ottla: str
) -> None:
    result = run_job(
        cluster_of_workers.master,
        tmp_path,
        "--ship",
        environment=dict(os.environ),
        python=python_without_ottla,
    )
    assert all(place.startswith(python_without_ottla) for place in result["places"])
    assert not any(str(SOURCES) in place for place in result["places"])
