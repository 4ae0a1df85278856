"""A standalone Spark cluster of real processes, started as its scripts start them: a master, and workers with an executor each."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pyspark
from tests.brokers import wait_until

from ottla.spark.java import find_java

HOST = "127.0.0.1"
START_DEADLINE_S = 100.0
# Starting costs half when nothing is prepared for a long life.
SHORT_LIVED_JVMS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
_MASTER = re.compile(r"spark://127\.0\.0\.1:\d+")
_REGISTERED = "Successfully registered with master"
_LOGS = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


@contextlib.contextmanager
def standalone_cluster(directory: Path, *, workers: int = 2) -> Iterator[str]:
    """The address of a master that has so many workers, with one core each."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **SHORT_LIVED_JVMS,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(directory / "conf"),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_LOCAL_IP": HOST,
    }
    (directory / "conf").mkdir(parents=True)
    (directory / "conf" / "log4j2.properties").write_text(_LOGS)
    with contextlib.ExitStack() as running:
        arguments = [
            "org.apache.spark.deploy.master.Master",
            "--host",
            HOST,
            "--port",
            "0",
            "--webui-port",
            "0",
        ]
        output = running.enter_context(_daemon(home, arguments, environment, directory / "master.output"))
        wait_until(
            lambda: _MASTER.search(output.read_text()) is not None, "the master listens", START_DEADLINE_S
        )
        found = _MASTER.search(output.read_text())
        assert found is not None
        arguments = [
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            HOST,
            "--webui-port",
            "0",
            "--cores",
            "1",
        ]
        for number in range(workers):
            work = directory / f"worker{number}"
            own = [*arguments, "--memory", "600m", "--work-dir", str(work), found[0]]
            output = running.enter_context(
                _daemon(home, own, environment, directory / f"worker{number}.output")
            )
            wait_until(partial(_says, output, _REGISTERED), "the worker is known", START_DEADLINE_S)
        yield found[0]


def _says(output: Path, words: str) -> bool:
    return words in output.read_text()


@contextlib.contextmanager
def _daemon(home: Path, arguments: list[str], environment: Mapping[str, str], output: Path) -> Iterator[Path]:
    """A process of Spark's, which ends with the block; what it says is in a file."""
    with output.open("wb") as sink:
        command = [str(home / "bin" / "spark-class"), *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment
        )
    try:
        yield output
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
