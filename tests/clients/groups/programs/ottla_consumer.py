"""A member that is our own consumer: its thread runs an event loop of its own, whenever it polls and whenever
it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from tests.clients.groups.model import Committed, Consumed, Membership, Partition
from tests.clients.groups.programs.running import Log
from tests.clients.model import DEADLINE_SECONDS, refuse

from ottla.client.consumer.consumer import CommittedOffset, Consumer
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.wire.connection import CannotConnectError

RETRY_SECONDS = 0.1
Answer = TypeVar("Answer")


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        refuse(error.code, error)


def connect(membership: Membership, log: Log) -> OttlaMember:
    return OttlaMember(membership, log)


def _settings(membership: Membership) -> dict[str, Any]:
    return {
        "group_id": membership.group,
        "group_instance_id": membership.instance_id,
        "partition_assignment_strategy": membership.assignors,
        "session_timeout_ms": membership.session_timeout_ms,
        "heartbeat_interval_ms": membership.heartbeat_interval_ms,
        "max_poll_interval_ms": membership.max_poll_interval_ms,
        "metadata_max_age_ms": membership.metadata_max_age_ms,
        "max_poll_records": membership.max_poll_records,
        "enable_auto_commit": membership.commits == "auto",
        "auto_commit_interval_ms": 100,
        "auto_offset_reset": membership.reset,
        "fetch_max_wait_ms": 100,
    }


class OttlaMember:
    def __init__(self, membership: Membership, log: Log) -> None:
        self._loop = asyncio.new_event_loop()
        self._consumer = Consumer(membership.bootstrap, **_settings(membership))
        while not self._consumer.is_open:
            try:
                self._do(self._open(membership, log))
            except CannotConnectError:
                self.idle(RETRY_SECONDS)

    def _do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        with refusals():
            return self._loop.run_until_complete(asyncio.wait_for(work, DEADLINE_SECONDS))
        raise AssertionError("a refusal was not raised")

    async def _open(self, membership: Membership, log: Log) -> None:
        await self._consumer.__aenter__()
        if membership.partitions:
            self._consumer.assign([TopicPartition(*place) for place in membership.partitions])
            return
        pattern = membership.pattern
        self._consumer.subscribe(
            membership.topics if pattern is None else re.compile(pattern),
            on_assigned=lambda partitions: log.hear("assigned", list(partitions)),
            on_revoked=lambda partitions: log.hear("revoked", list(partitions)),
            on_lost=lambda partitions: log.hear("lost", list(partitions)),
        )

    async def _call(self, method: str, *arguments: Any) -> None:
        """Its plain methods want a running loop, too."""
        getattr(self._consumer, method)(*arguments)

    def poll(self, seconds: float) -> list[Consumed]:
        records = self._do(self._consumer.poll(timeout_ms=int(seconds * 1000)))
        return [
            Consumed(record.topic, record.partition, record.offset, (record.value or b"").decode())
            for record in records
        ]

    def idle(self, seconds: float) -> None:
        self._do(asyncio.sleep(seconds))

    def assignment(self) -> frozenset[Partition]:
        return frozenset((one.topic, one.partition) for one in self._consumer.assignment)

    def member_id(self) -> str:
        return self._consumer.member_id

    def commit(self, offsets: Sequence[Committed] | None, *, is_async: bool) -> None:
        wanted = (
            None
            if offsets is None
            else {
                TopicPartition(one.topic, one.partition): CommittedOffset(one.offset, -1, one.metadata or "")
                for one in offsets
            }
        )
        self._do(self._consumer.commit(wanted))

    def committed(self, partitions: Sequence[Partition]) -> list[Committed]:
        places = [TopicPartition(*place) for place in partitions]
        found = self._do(self._consumer.committed(places))
        return [
            Committed(*place, found[place].offset, found[place].metadata)
            if place in found
            else Committed(*place, -1, "")
            for place in places
        ]

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._do(self._call("pause", [TopicPartition(*place) for place in partitions]))

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._do(self._call("resume", [TopicPartition(*place) for place in partitions]))

    def seek(self, partition: Partition, offset: int) -> None:
        self._do(self._call("seek", TopicPartition(*partition), offset))

    def close(self) -> None:
        self._do(self._consumer.close())
        self._loop.close()
