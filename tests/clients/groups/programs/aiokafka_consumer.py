"""A member that is aiokafka: its thread runs an event loop of its own, whenever it polls and whenever it
waits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError
from tests.clients.families.aiokafka_family import refusals
from tests.clients.groups.model import Committed, Consumed, Membership, Partition
from tests.clients.groups.programs.running import Log
from tests.clients.model import DEADLINE_SECONDS

ASSIGNORS: dict[str, Any] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
RETRY_SECONDS = 0.1
Answer = TypeVar("Answer")


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, log: Log) -> None:
        self._log = log

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._log.hear("assigned", list(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._log.hear("revoked", list(revoked))


def connect(membership: Membership, log: Log) -> AiokafkaMember:
    return AiokafkaMember(membership, log)


def _settings(membership: Membership) -> dict[str, Any]:
    return {
        "bootstrap_servers": membership.bootstrap,
        "group_id": membership.group,
        "group_instance_id": membership.instance_id,
        "partition_assignment_strategy": [ASSIGNORS[name] for name in membership.assignors],
        "session_timeout_ms": membership.session_timeout_ms,
        "rebalance_timeout_ms": membership.max_poll_interval_ms,
        "heartbeat_interval_ms": membership.heartbeat_interval_ms,
        "max_poll_interval_ms": membership.max_poll_interval_ms,
        "metadata_max_age_ms": membership.metadata_max_age_ms,
        "max_poll_records": membership.max_poll_records,
        "enable_auto_commit": membership.commits == "auto",
        "auto_commit_interval_ms": 100,
        "auto_offset_reset": membership.reset,
        "fetch_max_wait_ms": 100,
    }


class AiokafkaMember:
    def __init__(self, membership: Membership, log: Log) -> None:
        self._loop = asyncio.new_event_loop()
        self._consumer: Any = None
        while self._consumer is None:
            # Its start ends with the first rebalance, and fails with the broker; an application tries again.
            try:
                self._consumer = self._do(self._start(membership, log))
            except KafkaConnectionError:
                self.idle(RETRY_SECONDS)

    def _do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        with refusals():
            return self._loop.run_until_complete(asyncio.wait_for(work, DEADLINE_SECONDS))

    async def _start(self, membership: Membership, log: Log) -> Any:
        consumer = AIOKafkaConsumer(**_settings(membership))
        if membership.partitions:
            consumer.assign([TopicPartition(*place) for place in membership.partitions])
        elif membership.pattern is not None:
            consumer.subscribe(pattern=re.compile(membership.pattern).pattern, listener=Listener(log))
        else:
            consumer.subscribe(list(membership.topics), listener=Listener(log))
        try:
            await consumer.start()
        except BaseException:
            await consumer.stop()
            raise
        return consumer

    async def _call(self, method: str, *arguments: Any) -> None:
        """Its plain methods want a running loop, too."""
        getattr(self._consumer, method)(*arguments)

    def poll(self, seconds: float) -> list[Consumed]:
        batches = self._do(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [
            Consumed(record.topic, record.partition, record.offset, record.value.decode())
            for batch in batches.values()
            for record in batch
        ]

    def idle(self, seconds: float) -> None:
        self._do(asyncio.sleep(seconds))

    def assignment(self) -> frozenset[Partition]:
        return frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    def member_id(self) -> str:
        return str(getattr(self._consumer._coordinator, "member_id", ""))

    def commit(self, offsets: Sequence[Committed] | None, *, is_async: bool) -> None:
        wanted = (
            None
            if offsets is None
            else {TopicPartition(o.topic, o.partition): (o.offset, o.metadata or "") for o in offsets}
        )
        self._do(self._consumer.commit(wanted))

    def committed(self, partitions: Sequence[Partition]) -> list[Committed]:
        offsets = [self._do(self._consumer.committed(TopicPartition(*place))) for place in partitions]
        return [
            Committed(*place, -1 if offset is None else offset)
            for place, offset in zip(partitions, offsets, strict=True)
        ]

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._do(self._call("pause", *[TopicPartition(*place) for place in partitions]))

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._do(self._call("resume", *[TopicPartition(*place) for place in partitions]))

    def seek(self, partition: Partition, offset: int) -> None:
        self._do(self._call("seek", TopicPartition(*partition), offset))

    def close(self) -> None:
        self._do(self._consumer.stop())
        self._loop.close()
