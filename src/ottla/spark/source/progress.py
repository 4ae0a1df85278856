"""Progress that others can see: what a query has processed is committed to a consumer group, so that its lag
shows like any consumer's.

Spark's checkpoint decides where a query continues; the group's offsets are not read for that. So a commit
that fails harms nothing: it never fails the query, it holds it up for a few seconds at most, and it is logged
once until it works again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.client.sync.planner_admin import PlannerAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.security.settings import PLAINTEXT, Security
from ottla.spark.source.plan.offsets import PartitionOffsets, parse_numbers

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log: Final = logging.getLogger(__name__)

# A query should not wait longer than this for something it does not need, nor try again at every batch.
_TIMEOUT_MS: Final = 5_000
_PAUSE_S: Final = 30.0


class GroupProgress:
    """Commits to one group. Connects when it first has something to commit."""

    def __init__(self, bootstrap_servers: str, group_id: str, security: Security = PLAINTEXT) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._security = security
        self._group_id = group_id
        self._admin: PlannerAdmin | None = None
        self._not_before_s = 0.0
        self._has_warned = False
        self._committed: Mapping[TopicPartition, int] = {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the group where the query is. Never raises."""
        if offsets == self._committed or time.monotonic() < self._not_before_s:
            return
        try:
            refused = self._refused(offsets)
        except Exception as error:
            self._failed(str(error))
            return
        if refused is None:
            self._committed, self._has_warned = offsets, False
        else:
            self._failed(_why(refused))

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _refused(self, offsets: Mapping[TopicPartition, int]) -> KafkaError | None:
        if self._admin is None:
            self._admin = PlannerAdmin(
                self._bootstrap_servers,
                client_id="ottla-spark-progress",
                timeout_ms=_TIMEOUT_MS,
                security=self._security,
            )
        outcomes = self._admin.alter_group_offsets(self._group_id, offsets)
        return next((error for error in outcomes.values() if error is not None), None)

    def _failed(self, reason: str) -> None:
        self.close()
        self._not_before_s = time.monotonic() + _PAUSE_S
        if not self._has_warned:
            _log.warning("The progress could not be committed to the group '%s': %s", self._group_id, reason)
        self._has_warned = True


def _why(error: KafkaError) -> str:
    if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP):
        return "consumers are members of it; give the query a group of its own with the option 'groupId'"
    return str(error)


class QueryGroups(StreamingQueryListener):
    """Commits the progress of every query that has a name to a group of that name.

    spark.streams.addListener(QueryGroups("localhost:9092"))

    A source cannot see the name of its query, so it commits to the group of its option `groupId`. This
    listener sees it. It understands the offsets of this source and of Spark's own Kafka source; other sources
    have no group.
    """

    def __init__(self, bootstrap_servers: str, security: Security = PLAINTEXT) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._security = security
        self._groups: dict[str, GroupProgress] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_bootstrap_servers": self._bootstrap_servers, "_security": self._security, "_groups": {}}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing is processed yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        if event.progress.name:
            offsets = merged_offsets(source.endOffset for source in event.progress.sources)
            self._group(event.progress.name).commit(offsets)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Processed offsets have been committed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The group stays: it says how far the query came."""

    def _group(self, name: str) -> GroupProgress:
        if name not in self._groups:
            self._groups[name] = GroupProgress(self._bootstrap_servers, name, self._security)
        return self._groups[name]


def merged_offsets(end_offsets: Any) -> PartitionOffsets:
    """The offsets of all sources that read topics; two sources that read the same partition have the lower
    one.
    """
    merged: PartitionOffsets = {}
    for text in end_offsets:
        for partition, offset in _offsets(text).items():
            merged[partition] = min(offset, merged.get(partition, offset))
    return merged


def _offsets(text: object) -> PartitionOffsets:
    try:
        return parse_numbers(text if isinstance(text, str) else json.dumps(text))
    except ValueError:
        return {}
