"""Questions of a test about a broker, asked over the wire as any client asks.

The name it gives itself spares it from the test's faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.security.acl.rules import Acl
from ottla.security.settings import Security
from ottla.testing.faults import INSPECTOR


class Reached(NamedTuple):
    """Where a broker is, and how it lets the questions in."""

    bootstrap: str
    security: Security


async def create_topic(
    reached: Reached, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    topic = NewTopic(name, partitions, replication_factor, configs)
    async with Admin(reached.bootstrap, client_id=INSPECTOR, security=reached.security) as admin:
        succeeded(await admin.create_topics([topic]))


async def add_acls(reached: Reached, acls: Sequence[Acl]) -> None:
    async with Admin(reached.bootstrap, client_id=INSPECTOR, security=reached.security) as admin:
        succeeded(await admin.create_acls(acls))


async def topics(reached: Reached) -> list[str]:
    async with Admin(reached.bootstrap, client_id=INSPECTOR, security=reached.security) as admin:
        return [topic.name for topic in await admin.list_topics()]


async def records(reached: Reached, topic: str) -> list[ConsumerRecord]:
    """Everything up to what is the end now."""
    async with Admin(reached.bootstrap, client_id=INSPECTOR, security=reached.security) as admin:
        described = (await admin.describe_topics([topic]))[topic]
        if isinstance(described, KafkaError):
            if described.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return []
            raise described
        partitions = [TopicPartition(topic, each.index) for each in described.partitions]
        latest = succeeded(await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)))
        earliest = succeeded(await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST)))
    ends = {each: latest[each].offset for each in partitions if earliest[each].offset < latest[each].offset}
    found: list[ConsumerRecord] = []
    async with Consumer(
        reached.bootstrap, client_id=INSPECTOR, security=reached.security, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(ends)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            found += await consumer.poll(timeout_ms=100)
    within = [each for each in found if each.offset < ends[TopicPartition(topic, each.partition)]]
    return sorted(within, key=lambda record: (record.partition, record.offset))


async def empty(reached: Reached) -> None:
    async with Admin(reached.bootstrap, client_id=INSPECTOR, security=reached.security) as admin:
        groups = [group.group_id for group in await admin.list_groups()]
        await admin.delete_groups(groups)
        await admin.delete_topics([topic.name for topic in await admin.list_topics()])
