"""Questions of a test about a broker, asked over the wire as any client asks.

The name it gives itself spares it from the test's faults.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.testing.faults import INSPECTOR


async def create_topic(
    bootstrap: str, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    topic = NewTopic(name, partitions, replication_factor, configs)
    async with Admin(bootstrap, client_id=INSPECTOR) as admin:
        succeeded(await admin.create_topics([topic]))


async def topics(bootstrap: str) -> list[str]:
    async with Admin(bootstrap, client_id=INSPECTOR) as admin:
        return [topic.name for topic in await admin.list_topics()]


async def records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """Everything up to what is the end now."""
    async with Admin(bootstrap, client_id=INSPECTOR) as admin:
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
    async with Consumer(bootstrap, client_id=INSPECTOR, auto_offset_reset="earliest") as consumer:
        consumer.assign(ends)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            found += await consumer.poll(timeout_ms=100)
    within = [each for each in found if each.offset < ends[TopicPartition(topic, each.partition)]]
    return sorted(within, key=lambda record: (record.partition, record.offset))


async def empty(bootstrap: str) -> None:
    async with Admin(bootstrap, client_id=INSPECTOR) as admin:
        groups = [group.group_id for group in await admin.list_groups()]
        await admin.delete_groups(groups)
        await admin.delete_topics([topic.name for topic in await admin.list_topics()])
