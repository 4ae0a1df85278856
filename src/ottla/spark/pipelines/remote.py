"""A Spark Connect server that runs elsewhere, as a pipeline uses it.

Rules
- Whether a server answers is found out by one request: Spark's client would try for ten minutes.
- What a server decides when it starts (`spark.sql.warehouse.dir`, jars, memory) it has decided: a project's
  other wishes are reported, not granted.
- A server that is lost in the middle is waited for as long as a restart takes, not ten minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.catalog import quoted
from ottla.spark.pipelines.failures import PipelineError, in_words
from ottla.spark.pipelines.project import Project
from ottla.spark.runtime.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANY_SETTING: Final = "spark.sql.catalogImplementation"
_DETAILS: Final = re.compile(r'details = "(.+?)"')
# Half a minute in all.
_TRIES, _FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 8, 50, 8_000
# Of a driver that starts, and of the log: neither is a session's affair.
_OF_DRIVERS: Final = ("spark.log.level", "spark.python.authenticate.socketTimeout")


@dataclass(frozen=True, slots=True)
class RemoteSpark:
    """A session of a Connect server somewhere. `decided` are settings of the project that the server has
    otherwise, with the server's values.
    """

    connect: SparkSession
    decided: Mapping[str, str | None]

    @property
    def driver(self) -> None:
        return None

    def close(self) -> None:
        self.connect.stop()


def connect_to(project: Project, url: str, settings: Mapping[str, str]) -> RemoteSpark:
    """A session of the server at a URL, with a project's settings."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    reach_server(url)
    wanted = {name: value for name, value in settings.items() if name not in _OF_DRIVERS}
    connect = session(project.name, url, **wanted)
    patience = DefaultPolicy(
        max_retries=_TRIES, initial_backoff=_FIRST_PAUSE_MS, max_backoff=_LONGEST_PAUSE_MS
    )
    cast(Any, connect).client.set_retry_policies([patience])
    if project.database:
        database = [project.catalog, project.database] if project.catalog else [project.database]
        connect.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
    return RemoteSpark(connect, _decided(connect, project))


def reach_server(url: str) -> None:
    """Raise a PipelineError where no Spark Connect server answers."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import SparkConnectClient

    try:
        client = SparkConnectClient(connection=url)
    except PySparkException as error:
        raise PipelineError(f"--remote {url}: {in_words(str(error))}") from error
    client.set_retry_policies([])
    try:
        client.get_configs(_ANY_SETTING)
    except PySparkException as error:
        raise PipelineError(
            f"No Spark Connect server answers at {url}: {_reason(str(error))}. "
            "Where Spark is, $SPARK_HOME/sbin/start-connect-server.sh starts one."
        ) from error
    finally:
        client.close()


def _reason(said: str) -> str:
    """The end of what gRPC says about a connection, which is a row of reasons, each for the one before."""
    details = _DETAILS.search(said)
    if details is None:
        return in_words(said).rstrip(".")
    return details[1].rstrip("].").rpartition(": ")[2]


def _decided(connect: SparkSession, project: Project) -> dict[str, str | None]:
    found = {name: connect.conf.get(name, None) for name in project.configuration}
    return {name: value for name, value in found.items() if value != project.configuration[name]}
