"""A standalone Spark cluster of real processes, started as its scripts start them: a master, and workers with
an executor each; and a Connect server.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow
import pyspark

from ottla.localcluster.waiting import wait_until
from ottla.spark.runtime.class_archive import archive_options
from ottla.spark.runtime.java import find_java

HOST = "127.0.0.1"
START_DEADLINE_S = 100.0
# Starting costs half when nothing is prepared for a long life.
SHORT_LIVED_JVMS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
_HOME = Path(pyspark.__file__).parent
_CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
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


_CONNECT = re.compile(r"Spark Connect server started at: \S+:(\d+)")


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """A master and its workers; `directory` holds what they write."""

    master: str
    directory: Path

    def executors(self) -> set[Path]:
        """The directories of all executors that ever ran, below that of their worker and application."""
        return {said.parent for said in self.directory.glob("worker?/app-*/*/stderr")}


@contextlib.contextmanager
def standalone_cluster(directory: Path, *, workers: int = 2) -> Iterator[StandaloneCluster]:
    """A master that has so many workers, with one core each."""
    environment = _environment(directory)
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
        command = [_program("spark-class"), *arguments]
        output = running.enter_context(_daemon(command, environment, directory / "master.output"))
        master = _said(output, _MASTER, "the master listens")[0]
        arguments = [
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            HOST,
            "--webui-port",
            "0",
            "--cores",
            "1",
        ]
        outputs = []
        for number in range(workers):
            own = ["--memory", "600m", "--work-dir", str(directory / f"worker{number}"), master]
            command = [_program("spark-class"), *arguments, *own]
            said = directory / f"worker{number}.output"
            outputs.append(running.enter_context(_daemon(command, environment, said)))
        for output in outputs:
            wait_until(partial(_says, output, _REGISTERED), "the worker is known", START_DEADLINE_S)
        yield StandaloneCluster(master, directory)


@contextlib.contextmanager
def connect_server(directory: Path, master: str, python: str, **conf: str) -> Iterator[str]:
    """The address of a Spark Connect server of its own process, as `sbin/start-connect-server.sh` starts it,
    on a master.
    """
    settings = {
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        **conf,
    }
    command = [_program("spark-submit"), "--master", master, "--class", _CONNECT_SERVER]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    # To Spark's scripts this server is a daemon, too.
    environment = {**_environment(directory), "PYSPARK_PYTHON": python, "SPARK_DAEMON_MEMORY": "512m"}
    with _daemon([*command, "spark-internal"], environment, directory / "connect.output") as output:
        port = _said(output, _CONNECT, "the Connect server listens")[1]
        yield f"sc://{HOST}:{port}"


def _environment(directory: Path) -> dict[str, str]:
    """What all of Spark's processes have: their logs are below a directory, and they start from the archive
    of classes, if there is one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    logs = directory / "log4j2.properties"
    logs.write_text(_LOGS)
    java = find_java()
    options = [
        SHORT_LIVED_JVMS["JDK_JAVA_OPTIONS"],
        *archive_options(java),
        f"-Dlog4j2.configurationFile={logs}",
    ]
    return {
        **os.environ,
        "JDK_JAVA_OPTIONS": " ".join(options),
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(_HOME),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_LOCAL_IP": HOST,
    }


def _program(name: str) -> str:
    return str(_HOME / "bin" / name)


def _said(output: Path, words: re.Pattern[str], what: str) -> re.Match[str]:
    wait_until(lambda: words.search(output.read_text()) is not None, what, START_DEADLINE_S)
    found = words.search(output.read_text())
    assert found is not None
    return found


def _says(output: Path, words: str) -> bool:
    return words in output.read_text()


@contextlib.contextmanager
def _daemon(command: list[str], environment: Mapping[str, str], output: Path) -> Iterator[Path]:
    """A process of Spark's, which ends with the block; what it says is in a file."""
    with output.open("wb") as sink:
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


def bare_python(directory: Path) -> Path:
    """A Python that has what Spark's Arrow needs, and neither Ottla nor what Ottla needs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    for name in ("pyarrow", "pyarrow.libs", "numpy", "numpy.libs"):
        place = Path(pyarrow.__file__).parents[1] / name
        if place.exists():
            (packages / name).symlink_to(place)
    return directory / "bin" / "python"
