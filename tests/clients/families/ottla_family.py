"""Our own clients, asked the same questions as all others, by the same tests, of the same brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from tests.clients.model import (
    CODECS,
    DEADLINE_SECONDS,
    Ability,
    Acks,
    AtTime,
    Cluster,
    Codec,
    ConfigValue,
    Message,
    OffsetSpec,
    Receipt,
    Received,
    RefusedError,
    Start,
)

import ottla
from ottla.client.requests.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded

ABILITIES: frozenset[Ability] = frozenset(
    {
        "admin",
        "incremental_alter_configs",
        "config_errors",
        "delete_records",
        "list_offsets",
        "max_timestamp",
        "describe_cluster",
        "log_dirs",
        "idempotence",
        "timestamps",
        "null_headers",
        "out_of_range_error",
    }
)
SUPPORTED_CODECS = CODECS
SPECS = {
    "earliest": ottla.OffsetSpec.EARLIEST,
    "latest": ottla.OffsetSpec.LATEST,
    "max_timestamp": ottla.OffsetSpec.MAX_TIMESTAMP,
}
Answer = TypeVar("Answer")


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """To the end, within the deadline; what the broker refuses goes by its Kafka name."""
    try:
        return asyncio.run(asyncio.wait_for(work, DEADLINE_SECONDS))
    except ottla.KafkaError as error:
        raise RefusedError(error.code.name, error.message) from error


class OttlaClient:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int | None = 0,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> list[Receipt]:
        settings: dict[str, Any] = {
            "acks": acks if acks == "all" else int(acks),
            "enable_idempotence": idempotent,
            "compression": codec,
            "max_request_size": 20_000_000,
            "max_block_ms": 3_000,  # a partition that is not there is waited for this long
        }
        receipts = run(self._produce(topic, messages, partition, settings))
        return [] if acks == "0" else receipts

    async def _produce(
        self, topic: str, messages: Sequence[Message], partition: int | None, settings: dict[str, Any]
    ) -> list[Receipt]:
        async with ottla.Producer(self._bootstrap, **settings) as producer:
            deliveries = [
                producer.send_soon(
                    topic,
                    message.value,
                    key=message.key,
                    headers=message.headers,
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            reports = [await delivery for delivery in deliveries]
        return [Receipt(report.partition, report.offset) for report in reports]

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        return run(self._consume(ottla.TopicPartition(topic, partition), count, start))

    async def _consume(self, where: ottla.TopicPartition, count: int, start: Start) -> list[Received]:
        received: list[Received] = []
        async with ottla.Consumer(self._bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([where])
            if isinstance(start, int):
                consumer.seek(where, start)
            else:
                spec = start.timestamp_ms if isinstance(start, AtTime) else SPECS[start]
                await consumer.seek_to(spec)
            while len(received) < count:
                received += [
                    _received(each) for each in await consumer.poll(max_records=count - len(received))
                ]
        return received

    def _asked(self, question: Callable[[ottla.Admin], Awaitable[Answer]]) -> Answer:
        async def ask() -> Answer:
            async with ottla.Admin(self._bootstrap) as admin:
                return await question(admin)

        return run(ask())

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        new = ottla.NewTopic(topic, partitions, replication, configs or {})
        _check(self._asked(lambda admin: admin.create_topics([new])))

    def delete_topic(self, topic: str) -> None:
        _check(self._asked(lambda admin: admin.delete_topics([topic])))

    def describe_topic(self, topic: str) -> dict[int, int]:
        (described,) = _check(self._asked(lambda admin: admin.describe_topics([topic]))).values()
        return {partition.index: partition.leader for partition in described.partitions}

    def add_partitions(self, topic: str, total: int) -> None:
        _check(self._asked(lambda admin: admin.create_partitions({topic: total})))

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (entries,) = _check(self._asked(lambda admin: admin.describe_configs([resource]))).values()
        return {name: ConfigValue(entry.value, int(entry.source)) for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        raise AssertionError("ottla has no AlterConfigs: what is not named stays as it is")

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        changes = [
            ConfigChange(name, value, ConfigOperation.SET if value is not None else ConfigOperation.DELETE)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic)
        _check(self._asked(lambda admin: admin.alter_configs({resource: changes})))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        where = ottla.TopicPartition(topic, partition)
        watermarks = _check(self._asked(lambda admin: admin.delete_records({where: before_offset})))
        return int(watermarks[where])

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        where = ottla.TopicPartition(topic, partition)
        wanted = spec.timestamp_ms if isinstance(spec, AtTime) else SPECS[spec]
        listed = _check(self._asked(lambda admin: admin.list_offsets({where: wanted})))
        return int(listed[where].offset)

    def describe_cluster(self) -> Cluster:
        cluster = self._asked(lambda admin: admin.describe_cluster())
        nodes = {broker.node_id: (broker.host, broker.port) for broker in cluster.brokers}
        assert cluster.controller_id is not None
        return Cluster(cluster.cluster_id, cluster.controller_id, nodes)

    def log_dirs(self, topic: str) -> dict[int, int]:
        directories = _check(self._asked(lambda admin: admin.describe_log_dirs()))
        return {
            where.partition: replica.size_bytes
            for found in directories.values()
            for directory in found
            for where, replica in directory.replicas.items()
            if where.topic == topic
        }

    def close(self) -> None:
        pass


def _check(outcomes: Mapping[Any, Any]) -> dict[Any, Any]:
    try:
        return succeeded(outcomes)
    except ottla.KafkaError as error:
        raise RefusedError(error.code.name, error.message) from error


def _received(record: ottla.ConsumerRecord) -> Received:
    return Received(
        record.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
    )
