"""The Spark under a pipeline. Declarative pipelines speak Spark Connect, so a driver here gets a Connect
server of its own.

- `LocalSpark` starts a driver in this process (`local[*]`, or a cluster's master) with a Connect server on a
  free port of this machine, and is its only client.
- `RemoteSpark` (remote.py) uses a Connect server that runs already (`sc://host:15002`).

Spark decides by an environment variable whether its functions make columns for the classic API or for
Connect; it is set as soon as the driver runs.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.project import TABLE_FORMAT, WAREHOUSE, Project, ProjectError, local_path
from ottla.spark.pipelines.remote import RemoteSpark, connect_to
from ottla.spark.runtime.sessions import session, stop
from ottla.spark.runtime.shipping import ship
from ottla.spark.table_formats import TableFormatError, format_settings, prepare_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_STDERR: Final = 2
_WORKER_PATIENCE: Final = (
    "SPARK_AUTH_SOCKET_TIMEOUT"  # seconds; the other end of spark.python.authenticate.socketTimeout
)
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"

_SERVER: Final = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "localhost",
    "spark.connect.grpc.binding.port": "0",
    # A resolved plan that is kept has the files that a table had when it was resolved.
    "spark.connect.session.planCache.enabled": "false",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_MANAGER_CLASSES: Final = (  # where it is in Spark 4.3, and in older ones
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
)
# Shipped packages go to the driver's files. A session of the server that is isolated has files of its own,
# and its workers see only those.
_SHARED: Final = {"spark.sql.artifact.isolation.enabled": "false"}
_DEFAULTS: Final = {
    # Streams do without it, and say so each time that they start.
    "spark.sql.adaptive.enabled": "false",
    # Failures worth a retry (a broker that went away, a machine that was busy) are retried soon.
    "spark.sql.pipelines.execution.watchdog.minRetryTime": "1s",
    "spark.sql.streaming.stopTimeout": "30s",
    # Progress is kept for callers that ask; none asks for more than the last few.
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # A Python worker on a busy machine takes longer than Spark's fifteen seconds to say that it is there.
    "spark.python.authenticate.socketTimeout": "60s",
    "spark.log.level": "WARN",
}


@dataclass(frozen=True, slots=True)
class LocalSpark:
    """A driver in this process, and the Connect session through which the pipeline uses it."""

    driver: SparkSession
    connect: SparkSession

    @property
    def decided(self) -> Mapping[str, str | None]:
        """Settings that Spark has otherwise than the project: a driver of ours has none."""
        return {}

    def close(self) -> None:
        """End it; a JVM that has ended already, as after a SIGTERM to all processes of a container, is no
        failure.
        """
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        self.connect.stop()  # the client first: left alone, it would go on telling a server that is gone what it no longer needs
        os.environ.pop(_CONNECT_MODE, None)
        with suppress(Py4JError, OSError):
            stop(self.driver)


@dataclass(frozen=True, slots=True)
class Where:
    """Which Spark a pipeline runs on: a Connect server, or a driver here with a master. `ship` sends Ottla to
    its executors.
    """

    master: str | None = None
    remote: str | None = None
    ship: bool = False
    verbose: bool = False

    def __str__(self) -> str:
        return self.remote or self.master or "local[*]"


def start_spark(project: Project, where: Where) -> LocalSpark | RemoteSpark:
    """Start Spark for a project, or connect to one that runs. A local driver's output goes to `log_file`,
    unless verbose.
    """
    settings = {**_DEFAULTS, **_default_format(project), **project.configuration}
    if where.remote:
        return connect_to(project, where.remote, settings)
    if where.verbose:
        return _start_local(project, where, settings)
    with _errors_to(log_file(project)):
        return _start_local(project, where, settings)


def log_file(project: Project) -> Path:
    """The log of Spark and the output of its Python workers, of the last run."""
    return (local_path(project.storage) or project.directory) / "spark.log"


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Processes started meanwhile write their errors to a file: the JVM, and through it the Python
    workers.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    with file.open("wb") as opened:
        os.dup2(opened.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


def _start_local(project: Project, where: Where, settings: Mapping[str, str]) -> LocalSpark:
    os.environ.setdefault(_WORKER_PATIENCE, "60")
    os.environ[_TOKEN] = secrets.token_urlsafe()  # no other process may use the server
    formats = format_settings(project.table_format, project.warehouse, project.configuration)
    server = {**_SERVER, **_SHARED} if where.ship else _SERVER
    started_with = {WAREHOUSE: project.warehouse, **settings, **formats, **server}
    driver = session(project.name, where.master, **started_with)
    try:
        if where.ship:
            ship(driver)
        _prepare_format(driver, project)
        if project.database:
            driver.sql(f"CREATE DATABASE IF NOT EXISTS `{project.database}`")
        connect = _connect(driver)
        _rename_without_processes(driver, connect, project)
        return LocalSpark(driver, connect)
    except BaseException:
        stop(driver)
        raise


def _connect(driver: SparkSession) -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    jvm = cast(Any, driver)._jvm
    port = getattr(getattr(jvm, _SERVICE), "MODULE$").localPort()
    os.environ[_CONNECT_MODE] = "1"
    connect = ConnectSession.builder.remote(f"sc://localhost:{port}").getOrCreate()
    # A server of this process's own does not come back: Spark's ten minutes of trying are for others.
    connect.client.set_retry_policies([DefaultPolicy(max_retries=3, initial_backoff=100, max_backoff=1000)])
    return cast("SparkSession", connect)


def _rename_without_processes(driver: SparkSession, connect: SparkSession, project: Project) -> None:
    """Let checkpoints on this machine be renamed by a system call. Spark's usual manager asks Hadoop whether a name is a
    link, and Hadoop, without its native library, asks a process (`readlink`), several times for each file.
    """
    if _MANAGER in project.configuration or local_path(project.storage) is None:
        return
    from py4j.protocol import Py4JJavaError

    for name in _MANAGER_CLASSES:
        with suppress(Py4JJavaError):
            cast(Any, driver)._jvm.java.lang.Class.forName(name)
            connect.conf.set(_MANAGER, name)
            return


def _default_format(project: Project) -> dict[str, str]:
    return {"spark.sql.sources.default": project.table_format} if project.table_format != "parquet" else {}


def _prepare_format(driver: SparkSession, project: Project) -> None:
    """Spark would say that it cannot find a class, in the middle of the first run."""
    try:
        prepare_format(driver, project.table_format)
    except TableFormatError as error:
        raise ProjectError(
            f"{project.file}: '{TABLE_FORMAT}' is {project.table_format}, but {error} Or leave the format out for Parquet."
        ) from error
