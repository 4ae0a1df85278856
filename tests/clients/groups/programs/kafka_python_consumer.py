"""A member that is kafka-python.

kafka-python 3.0.12 joins in the background and takes the outcome over in `poll`. Two defects follow, with any
broker:
- A join that is over when `poll` begins is thrown away, and started again; a group rebalances whenever its
  leader does so. A leader that works between short polls thus rebalances again and again, and so may a static
  member that led before it was bounced. So this member's polls are long until it has joined, and while it
  joins again.
- A rebalance that its leader asked for because of news in the metadata is lost, if `poll` returns before it
  is over: it takes the assignment's snapshot for up to date and never applies the assignment. So this member
  gets the metadata before it joins, and where metadata changes later it polls for longer than a rebalance
  takes. On a busy machine a rebalance may outlast that poll, and then the member would send no heartbeat
  until its session ends; so it asks for another rebalance whenever a poll ends in the middle of one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

from tests.clients.families.kafka_python_family import refusals
from tests.clients.groups.model import Committed, Consumed, Membership, Partition
from tests.clients.groups.programs.running import Log

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.structs import MemberState, OffsetAndMetadata

ASSIGNORS: dict[str, Any] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}

LONG_POLL_SECONDS = 0.5  # longer than a rebalance takes, unless a member is held


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, log: Log) -> None:
        self._log = log

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._log.hear("assigned", list(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._log.hear("revoked", list(revoked))

    def on_partitions_lost(self, lost: Any) -> None:
        self._log.hear("lost", list(lost))


def connect(membership: Membership, log: Log) -> KafkaPythonMember:
    return KafkaPythonMember(membership, log)


def _settings(membership: Membership) -> dict[str, Any]:
    return {
        "bootstrap_servers": membership.bootstrap,
        "group_id": membership.group,
        "group_instance_id": membership.instance_id,
        "partition_assignment_strategy": [ASSIGNORS[name] for name in membership.assignors],
        "session_timeout_ms": membership.session_timeout_ms,
        "heartbeat_interval_ms": membership.heartbeat_interval_ms,
        "max_poll_interval_ms": membership.max_poll_interval_ms,
        "metadata_max_age_ms": membership.metadata_max_age_ms,
        "max_poll_records": membership.max_poll_records,
        "enable_auto_commit": membership.commits == "auto",
        "auto_commit_interval_ms": 100,
        "auto_offset_reset": membership.reset,
        "allow_auto_create_topics": False,
        "fetch_max_wait_ms": 100,
        "reconnect_backoff_max_ms": 300,
    }


class KafkaPythonMember:
    def __init__(self, membership: Membership, log: Log) -> None:
        self._least_poll_seconds = LONG_POLL_SECONDS if membership.metadata_max_age_ms < 60_000 else 0.0
        self._consumer = KafkaConsumer(**_settings(membership))
        self._is_member = not membership.partitions
        if membership.partitions:
            self._consumer.assign([TopicPartition(*place) for place in membership.partitions])
            return
        wanted: dict[str, Any] = (
            {"topics": list(membership.topics)}
            if membership.pattern is None
            else {"pattern": membership.pattern}
        )
        self._consumer.subscribe(listener=Listener(log), **wanted)
        self._consumer.topics()

    def poll(self, seconds: float) -> list[Consumed]:
        with refusals():
            least = LONG_POLL_SECONDS if self._is_joining() else self._least_poll_seconds
            batches = self._consumer.poll(timeout_ms=int(max(seconds, least) * 1000))
            if not batches and self._is_joining():
                self._consumer._coordinator.request_rejoin()
                batches = self._consumer.poll(timeout_ms=int(LONG_POLL_SECONDS * 1000))
        return [
            Consumed(record.topic, record.partition, record.offset, record.value.decode())
            for batch in batches.values()
            for record in batch
        ]

    def _is_joining(self) -> bool:
        return self._is_member and self._consumer.group_metadata().state is not MemberState.STABLE

    def idle(self, seconds: float) -> None:
        time.sleep(seconds)

    def assignment(self) -> frozenset[Partition]:
        return frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    def member_id(self) -> str:
        return str(self._consumer.group_metadata().member_id)

    def commit(self, offsets: Sequence[Committed] | None, *, is_async: bool) -> None:
        wanted = (
            None
            if offsets is None
            else {
                TopicPartition(o.topic, o.partition): OffsetAndMetadata(o.offset, o.metadata or "", -1)
                for o in offsets
            }
        )
        with refusals():
            if is_async:
                self._consumer.commit_async(wanted)
            else:
                self._consumer.commit(wanted)

    def committed(self, partitions: Sequence[Partition]) -> list[Committed]:
        found = []
        for place in partitions:
            with refusals():
                one = self._consumer.committed(TopicPartition(*place), metadata=True)
            found.append(
                Committed(*place, -1, "") if one is None else Committed(*place, one.offset, one.metadata)
            )
        return found

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._consumer.pause(*[TopicPartition(*place) for place in partitions])

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._consumer.resume(*[TopicPartition(*place) for place in partitions])

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition), offset)

    def close(self) -> None:
        self._consumer.close(timeout_ms=5000)
