"""A topic as the lake sees it: where its log begins and ends, and its records as Arrow batches.

The cluster is asked through `client.sync`, records are read and decoded as Spark's source does it
(`spark.source.scan`): both without an event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ottla.client.requests.metadata import TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.sync.planner_admin import PlannerAdmin
from ottla.errors import KafkaError
from ottla.lake.plan.next_commit import LogState
from ottla.model import TopicPartition
from ottla.security.settings import PLAINTEXT, Security
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.scan import ScanSettings, scan


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to reach a cluster. It is sent to executors: `client` has Kafka's names for the client's settings."""

    bootstrap: str
    security: Security = PLAINTEXT
    client: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = 30_000


class NoTopicError(RuntimeError):
    """The cluster has no such topic."""


def log_state(cluster: Cluster, topic: str, *, read_committed: bool) -> LogState:
    """Where each partition of a topic begins and ends now. The beginnings are asked for first: so no beginning is
    behind its end.
    """
    admin = _admin(cluster)
    try:
        described = admin.describe_topics([topic])[topic]
        if isinstance(described, KafkaError):
            raise NoTopicError(
                f"The cluster at {cluster.bootstrap} has no topic {topic}: {described.message}"
            )
        starts = _listed(admin, described, OffsetSpec.EARLIEST, read_committed)
        ends = _listed(admin, described, OffsetSpec.LATEST, read_committed)
        return LogState(topic, str(described.topic_id), starts, ends)
    finally:
        admin.close()


def topic_names(cluster: Cluster) -> list[str]:
    """The topics of the cluster that are not internal."""
    admin = _admin(cluster)
    try:
        return [each.name for each in admin.list_topics()]
    finally:
        admin.close()


def _admin(cluster: Cluster) -> PlannerAdmin:
    return PlannerAdmin(
        cluster.bootstrap, client_id="ottla-lake", timeout_ms=cluster.timeout_ms, security=cluster.security
    )


def _listed(admin: PlannerAdmin, topic: TopicInfo, spec: OffsetSpec, read_committed: bool) -> dict[int, int]:
    wanted = {TopicPartition(topic.name, each.index): int(spec) for each in topic.partitions}
    listed: Mapping[TopicPartition, ListedOffset] = succeeded(
        admin.list_offsets(wanted, read_committed=read_committed)
    )
    return {partition.partition: found.offset for partition, found in listed.items()}


def read_records(
    cluster: Cluster,
    range: OffsetRange,  # noqa: A002 - the noun of Spark's source
    *,
    read_committed: bool,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of a range, with headers; DataLossError if some are not there."""
    settings = ScanSettings(
        cluster.bootstrap,
        cluster.client,
        security=cluster.security,
        include_headers=True,
        read_committed=read_committed,
        since_ms=since_ms,
        until_ms=until_ms,
    )
    return scan(range, settings)
