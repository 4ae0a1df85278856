"""aiokafka: asyncio, with a C extension for records; speaks older versions of everything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
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
    refuse,
)

ABILITIES: frozenset[Ability] = frozenset(
    {
        "admin",
        "alter_configs",
        "config_errors",
        "delete_records",
        "list_offsets",
        "describe_cluster",
        "idempotence",
        "timestamps",
        "null_headers",
        "out_of_range_error",
    }
)
SUPPORTED_CODECS = CODECS
Answer = TypeVar("Answer")


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        code = getattr(error, "errno", None)
        if isinstance(code, int):
            refuse(code, error)
        raise


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    with refusals():
        return asyncio.run(asyncio.wait_for(work, DEADLINE_SECONDS))


class AiokafkaClient:
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
        settings = {
            "acks": "all" if acks == "all" else int(acks),
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": idempotent,
            "linger_ms": 20,
            "max_request_size": 20_000_000,
            "max_batch_size": 20_000_000,
        }
        return run(self._produce(topic, messages, partition, settings))

    async def _produce(
        self, topic: str, messages: Sequence[Message], partition: int | None, settings: dict[str, Any]
    ) -> list[Receipt]:
        producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, **settings)
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    message.value,
                    key=message.key,
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            answers = await asyncio.gather(*futures)
        except AssertionError as error:  # how it says that its metadata has no such partition
            raise RefusedError("UNKNOWN_TOPIC_OR_PARTITION", str(error)) from error
        finally:
            await producer.stop()
        return (
            [] if settings["acks"] == 0 else [Receipt(answer.partition, answer.offset) for answer in answers]
        )

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        return run(self._consume(TopicPartition(topic, partition), count, start))

    async def _consume(self, where: Any, count: int, start: Start) -> list[Received]:
        received: list[Received] = []
        async with self._consumer() as consumer:
            consumer.assign([where])
            await self._seek(consumer, where, start)
            while len(received) < count:
                batches = await consumer.getmany(timeout_ms=200, max_records=count - len(received))
                received += [_received(record) for batch in batches.values() for record in batch]
        return received

    async def _seek(self, consumer: Any, where: Any, start: Start) -> None:
        if isinstance(start, AtTime):
            found = await consumer.offsets_for_times({where: start.timestamp_ms})
            consumer.seek(where, found[where].offset)
        elif isinstance(start, int):
            consumer.seek(where, start)
        elif start == "earliest":
            await consumer.seek_to_beginning(where)
        else:
            await consumer.seek_to_end(where)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        new = NewTopic(topic, partitions, replication, topic_configs=dict(configs or {}))
        answer = run(self._ask("create_topics", [new]))
        for _, code, message in answer.topic_errors:
            refuse(code, message)

    def delete_topic(self, topic: str) -> None:
        answer = run(self._ask("delete_topics", [topic]))
        for _, code in answer.topic_error_codes:
            refuse(code)

    def describe_topic(self, topic: str) -> dict[int, int]:
        (described,) = run(self._ask("describe_topics", [topic]))
        refuse(described["error_code"])
        return {partition["partition"]: partition["leader"] for partition in described["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        answer = run(self._ask("create_partitions", {topic: NewPartitions(total)}))
        for _, code, message in answer.topic_errors:
            refuse(code, message)

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]:
        (answer,) = run(self._ask("describe_configs", [ConfigResource(ConfigResourceType.TOPIC, topic)]))
        ((code, message, _, _, entries),) = answer.resources
        refuse(code, message)
        return {name: ConfigValue(value, source) for name, value, _, source, *_ in entries}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (answer,) = run(self._ask("alter_configs", [resource]))
        for code, message, *_ in answer.resources:
            refuse(code, message)

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        raise AssertionError("aiokafka has no IncrementalAlterConfigs")

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        where = TopicPartition(topic, partition)
        answer = run(self._ask("delete_records", {where: RecordsToDelete(before_offset)}))
        low_watermark: int = answer[where]
        return low_watermark

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        return run(self._list_offset(TopicPartition(topic, partition), spec))

    async def _list_offset(self, where: Any, spec: OffsetSpec) -> int:
        async with self._consumer() as consumer:
            if isinstance(spec, AtTime):
                found = (await consumer.offsets_for_times({where: spec.timestamp_ms}))[where]
                return -1 if found is None else int(found.offset)
            look_up = {"earliest": consumer.beginning_offsets, "latest": consumer.end_offsets}[spec]
            return int((await look_up([where]))[where])

    def describe_cluster(self) -> Cluster:
        answer = run(self._ask("describe_cluster"))
        nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in answer["brokers"]}
        return Cluster(answer["cluster_id"], answer["controller_id"], nodes)

    def log_dirs(self, topic: str) -> dict[int, int]:
        raise AssertionError("aiokafka has no DescribeLogDirs")

    def close(self) -> None:
        pass

    async def _ask(self, call: str, *arguments: Any) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            return await getattr(admin, call)(*arguments)
        finally:
            await admin.close()

    @contextlib.asynccontextmanager
    async def _consumer(self) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            auto_offset_reset="none",
            enable_auto_commit=False,
            max_partition_fetch_bytes=20_000_000,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()


def _received(record: Any) -> Received:
    return Received(
        record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
    )
