"""A range of a topic for an audit: where its partitions begin and end, and its records, read as any user's job
reads them.

Aborted records are no records of a topic: transactions are read when they are committed, unless
`kafka.isolation.level` says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ottla.blocking import Admin
from ottla.spark.audit.scope import Bound, LogEnds, PartitionScope, ask_ends
from ottla.spark.kafka_security import security_of

_ASK_TIMEOUT_MS: Final = 30_000
_ISOLATION: Final = "kafka.isolation.level"
_COMMITTED: Final = "read_committed"


def reading_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options of the source, with those that an audit has by default."""
    return {_ISOLATION: _COMMITTED, **(options or {})}


def ends_of(bootstrap: str, topic: str, bounds: tuple[Bound, ...], options: Mapping[str, str]) -> LogEnds:
    """Where a topic begins and ends. AuditError if there is no such topic."""
    is_committed = options[_ISOLATION].lower() == _COMMITTED
    security = security_of(options)
    with Admin(bootstrap, client_id="ottla-audit", timeout_ms=_ASK_TIMEOUT_MS, security=security) as admin:
        return ask_ends(admin, topic, bounds, read_committed=is_committed)


def records_of(
    spark: SparkSession,
    topic: str,
    bootstrap: str,
    scope: Mapping[int, PartitionScope],
    options: Mapping[str, str],
) -> DataFrame:
    """Exactly these ranges of a topic.

    For one query: Spark 4.3 plans a DataFrame of a Python source once, with the filters of the first query.
    """
    starts = {str(partition): each.start for partition, each in scope.items()}
    ends = {str(partition): each.end for partition, each in scope.items()}
    reader = spark.read.format("ottla").options(**options).option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("assign", json.dumps({topic: sorted(scope)}))
    reader = reader.option("startingOffsets", json.dumps({topic: starts}))
    return reader.option("endingOffsets", json.dumps({topic: ends})).load()
