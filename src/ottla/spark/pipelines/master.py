"""The master of a cluster, as a pipeline's driver meets it.

Spark tries a master that does not answer for a minute, and waits for executors that do not come for ever:
their machines may be on their way. Both are reported here: the one before Spark starts, the other while it
waits.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.failures import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STANDALONE: Final = "spark://"
_DEFAULT_PORT: Final = 7077
_CONNECT_TIMEOUT_S: Final = 5.0
_MEMORY: Final = "spark.executor.memory"


def reach_master(master: str) -> None:
    """Raise a PipelineError where no standalone master listens; one of several (`spark://a:7077,b:7077`) is
    enough. Other kinds are Spark's affair.
    """
    if not master.startswith(_STANDALONE):
        return
    reasons = [_reason(address) for address in master.removeprefix(_STANDALONE).split(",")]
    if all(reasons):
        raise PipelineError(f"No Spark master answers at {master}: {reasons[0]}.")


def _reason(address: str) -> str | None:
    """Why there is no connection to an address; None if there is."""
    host, _, port = address.rpartition(":")
    if not host:
        host, port = address, str(_DEFAULT_PORT)
    if not port.isdecimal():
        return f"{address!r} is no HOST:PORT"
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            return None
    except OSError as error:
        return (error.strerror or str(error)).lower()


def is_cluster(master: str | None) -> bool:
    """Whether executors are processes that must come first."""
    return master is not None and not master.startswith("local")


def waits_for_executors(driver: SparkSession) -> str | None:
    """A sentence if no executor has come yet."""
    status = cast(Any, driver.sparkContext)._jsc.sc().getExecutorMemoryStatus()
    if status.size() > 1:  # the driver is in it, too
        return None
    memory = driver.conf.get(_MEMORY, "1g")
    return f"no executor has come yet: are there workers with free cores, and with {memory} of memory each ({_MEMORY})?"
