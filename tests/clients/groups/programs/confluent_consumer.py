"""A member that is confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition
from tests.clients.families.confluent_family import refused
from tests.clients.groups.model import Committed, Consumed, Membership, Partition
from tests.clients.groups.programs.running import Log
from tests.clients.model import DEADLINE_SECONDS, RefusedError


def connect(membership: Membership, log: Log) -> ConfluentMember:
    return ConfluentMember(membership, log)


def _settings(membership: Membership) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": membership.bootstrap,
        "log_level": 0,
        "group.id": membership.group,
        "partition.assignment.strategy": ",".join(membership.assignors),
        "session.timeout.ms": membership.session_timeout_ms,
        "heartbeat.interval.ms": membership.heartbeat_interval_ms,
        "max.poll.interval.ms": membership.max_poll_interval_ms,
        "topic.metadata.refresh.interval.ms": membership.metadata_max_age_ms,
        "enable.auto.commit": membership.commits == "auto",
        "auto.commit.interval.ms": 100,
        "auto.offset.reset": membership.reset,
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 300,
    }
    if membership.instance_id is not None:
        settings["group.instance.id"] = membership.instance_id
    return settings


def _reason(error: Any) -> RefusedError:
    """librdkafka calls what it cannot go on after "fatal", and says why in words."""
    if "fenced by other consumer" in error.str():
        return RefusedError("FENCED_INSTANCE_ID", error.str())
    return refused(error)


class ConfluentMember:
    def __init__(self, membership: Membership, log: Log) -> None:
        self._membership = membership
        self._log = log
        self._consumer = Consumer(_settings(membership))
        if membership.partitions:
            self._consumer.assign([TopicPartition(*place) for place in membership.partitions])
            return
        wanted = list(membership.topics) if membership.pattern is None else [membership.pattern]
        self._consumer.subscribe(
            wanted,
            on_assign=lambda _, partitions: log.hear("assigned", partitions),
            on_revoke=lambda _, partitions: log.hear("revoked", partitions),
            on_lost=lambda _, partitions: log.hear("lost", partitions),
        )

    def poll(self, seconds: float) -> list[Consumed]:
        records = []
        for message in self._consumer.consume(self._membership.max_poll_records, seconds):
            if message.error():
                self._log.fail(_reason(message.error()))
                continue
            place = (message.topic(), message.partition(), message.offset())
            records.append(Consumed(*place, message.value().decode()))
        return records

    def idle(self, seconds: float) -> None:
        time.sleep(seconds)

    def assignment(self) -> frozenset[Partition]:
        return frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    def member_id(self) -> str:
        return self._consumer.memberid() or ""

    def commit(self, offsets: Sequence[Committed] | None, *, is_async: bool) -> None:
        wanted = (
            {}
            if offsets is None
            else {
                "offsets": [TopicPartition(o.topic, o.partition, o.offset, o.metadata or "") for o in offsets]
            }
        )
        try:
            answered = self._consumer.commit(asynchronous=is_async, **wanted)
        except KafkaException as error:
            raise refused(error.args[0]) from error
        for one in answered or ():
            if one.error is not None:
                raise refused(one.error)

    def committed(self, partitions: Sequence[Partition]) -> list[Committed]:
        asked = [TopicPartition(*place) for place in partitions]
        try:
            found = self._consumer.committed(asked, DEADLINE_SECONDS)
        except KafkaException as error:
            raise refused(error.args[0]) from error
        for one in found:
            if one.error is not None:
                raise refused(one.error)
        return [
            Committed(o.topic, o.partition, -1 if o.offset == OFFSET_INVALID else o.offset, o.metadata or "")
            for o in found
        ]

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._consumer.pause([TopicPartition(*place) for place in partitions])

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._consumer.resume([TopicPartition(*place) for place in partitions])

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition, offset))

    def close(self) -> None:
        self._consumer.close()
