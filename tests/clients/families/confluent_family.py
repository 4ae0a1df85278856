"""confluent-kafka (librdkafka): the C client under most of the world's non-Java clients."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from confluent_kafka.admin import OffsetSpec as AdminOffsetSpec
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

from ottla.errors import ErrorCode

ABILITIES: frozenset[Ability] = frozenset(
    {
        "admin",
        "alter_configs",
        "incremental_alter_configs",
        "config_errors",
        "delete_records",
        "list_offsets",
        "max_timestamp",
        "describe_cluster",
        "idempotence",
        "timestamps",
        "null_headers",
        "out_of_range_error",
    }
)
SUPPORTED_CODECS = CODECS
# librdkafka's own words for what Kafka calls otherwise; the rest of its local errors keep their names.
LOCAL_NAMES = {
    "_UNKNOWN_PARTITION": "UNKNOWN_TOPIC_OR_PARTITION",
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PARTITION",
    "_AUTO_OFFSET_RESET": "OFFSET_OUT_OF_RANGE",
}


def refused(error: Any) -> RefusedError:
    if error.code() >= 0:
        return RefusedError(ErrorCode(error.code()).name, error.str())
    return RefusedError(LOCAL_NAMES.get(error.name(), error.name()), error.str())


def _result(futures: Mapping[Any, Any]) -> Any:
    """The answer of an admin call for one resource."""
    (future,) = futures.values()
    try:
        return future.result(DEADLINE_SECONDS)
    except KafkaException as error:
        raise refused(error.args[0]) from error


class ConfluentClient:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin: Any = None

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
        outcomes: list[tuple[Any, Any]] = []
        settings = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,  # it tells of every broker that stops
            "acks": acks,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 20,
            "message.timeout.ms": int(DEADLINE_SECONDS * 1000),
            "message.max.bytes": 20_000_000,
        }
        producer = Producer(settings)
        for message in messages:
            where = {} if partition is None else {"partition": partition}
            when = {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
            producer.produce(
                topic,
                message.value,
                message.key,
                headers=list(message.headers) or None,
                on_delivery=lambda error, delivered: outcomes.append((error, delivered)),
                **where,
                **when,
            )
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(outcomes) < len(messages):  # flush() would ignore linger.ms and tear batches apart
            producer.poll(0.05)
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"confluent-kafka: {len(outcomes)} of {len(messages)} records were answered"
                )
        for error, _ in outcomes:
            if error is not None:
                raise refused(error)
        if acks == "0":
            return []
        return [Receipt(delivered.partition(), delivered.offset()) for _, delivered in outcomes]

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,  # it tells of every broker that stops
            "group.id": "assigned-by-hand",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 20_000_000,
        }
        consumer = Consumer(settings)
        try:
            consumer.assign([self._position(consumer, topic, partition, start)])
            return self._read(consumer, count)
        finally:
            consumer.close()

    def _position(self, consumer: Any, topic: str, partition: int, start: Start) -> Any:
        if isinstance(start, AtTime):
            asked = TopicPartition(topic, partition, start.timestamp_ms)
            (found,) = consumer.offsets_for_times([asked], DEADLINE_SECONDS)
            return found
        named = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
        return TopicPartition(topic, partition, start if isinstance(start, int) else named[start])

    def _read(self, consumer: Any, count: int) -> list[Received]:
        received: list[Received] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(received) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"confluent-kafka read {len(received)} of {count} records")
            for message in consumer.consume(count - len(received), 0.2):
                if message.error():
                    raise refused(message.error())
                received.append(_received(message))
        return received

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        new = NewTopic(topic, partitions, replication, config=dict(configs or {}))
        _result(self._administrator().create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        _result(self._administrator().delete_topics([topic]))

    def describe_topic(self, topic: str) -> dict[int, int]:
        described = _result(self._administrator().describe_topics(TopicCollection([topic])))
        return {partition.id: partition.leader.id for partition in described.partitions}

    def add_partitions(self, topic: str, total: int) -> None:
        _result(self._administrator().create_partitions([NewPartitions(topic, total)]))

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]:
        entries = _result(self._administrator().describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: ConfigValue(entry.value, entry.source) for name, entry in entries.items()}

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=dict(configs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # old, and still spoken by old programs
            futures = self._administrator().alter_configs([resource])
        _result(futures)

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                name,
                value or "",
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _result(self._administrator().incremental_alter_configs([resource]))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        asked = [TopicPartition(topic, partition, before_offset)]
        low_watermark: int = _result(self._administrator().delete_records(asked)).low_watermark
        return low_watermark

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        named = {
            "earliest": AdminOffsetSpec.earliest,
            "latest": AdminOffsetSpec.latest,
            "max_timestamp": AdminOffsetSpec.max_timestamp,
        }
        asked = (
            AdminOffsetSpec.for_timestamp(spec.timestamp_ms) if isinstance(spec, AtTime) else named[spec]()
        )
        answer = self._administrator().list_offsets({TopicPartition(topic, partition): asked})
        offset: int = _result(answer).offset
        return offset

    def describe_cluster(self) -> Cluster:
        cluster = self._administrator().describe_cluster().result(DEADLINE_SECONDS)
        nodes = {node.id: (node.host, node.port) for node in cluster.nodes}
        return Cluster(cluster.cluster_id, cluster.controller.id, nodes)

    def log_dirs(self, topic: str) -> dict[int, int]:
        raise AssertionError("confluent-kafka has no DescribeLogDirs")

    def close(self) -> None:
        self._admin = None

    def _administrator(self) -> Any:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        return self._admin


def _received(message: Any) -> Received:
    return Received(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
