"""kafka-python: pure Python, speaks newer versions than most, uses fetch sessions."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.clients.model import (
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

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # it reads its schemas by a function that Python retires
    import kafka.codec
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigSourceType
    from kafka.admin import OffsetSpec as AdminOffsetSpec
    from kafka.errors import KafkaError

ABILITIES: frozenset[Ability] = frozenset(
    {
        "admin",
        "incremental_alter_configs",  # its AlterConfigs fills in the settings left out, so it never replaces
        "delete_records",
        "list_offsets",
        "max_timestamp",
        "describe_cluster",
        "log_dirs",
        "idempotence",
        "timestamps",
        "out_of_range_error",
    }
)
# It compresses with libraries of other projects and only with those that are installed.
_PRESENT: dict[Codec, bool] = {
    "none": True,
    "gzip": kafka.codec.has_gzip(),
    "snappy": kafka.codec.has_snappy(),
    "lz4": kafka.codec.has_lz4(),
    "zstd": kafka.codec.has_zstd(),
}
SUPPORTED_CODECS: tuple[Codec, ...] = tuple(codec for codec, present in _PRESENT.items() if present)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        code = getattr(error, "errno", None)
        if isinstance(code, int):
            refuse(code, error)
        raise


class KafkaPythonClient:
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
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all" if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=20,
            max_request_size=20_000_000,
            max_block_ms=5000,
        )
        try:
            with refusals():
                return self._send(producer, topic, messages, partition, acks)
        finally:
            producer.close(timeout=DEADLINE_SECONDS)

    def _send(
        self, producer: Any, topic: str, messages: Sequence[Message], partition: int | None, acks: Acks
    ) -> list[Receipt]:
        try:
            futures = [
                producer.send(
                    topic,
                    message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
        except ValueError as error:  # how it says that its metadata has no such partition
            raise RefusedError("UNKNOWN_TOPIC_OR_PARTITION", str(error)) from error
        answers = [future.get(timeout=DEADLINE_SECONDS) for future in futures]
        return [] if acks == "0" else [Receipt(answer.partition, answer.offset) for answer in answers]

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            auto_offset_reset="none",
            group_id=None,
            enable_auto_commit=False,
            max_partition_fetch_bytes=20_000_000,
        )
        where = TopicPartition(topic, partition)
        try:
            with refusals():
                consumer.assign([where])
                self._seek(consumer, where, start)
                return self._read(consumer, count)
        finally:
            consumer.close()

    def _seek(self, consumer: Any, where: Any, start: Start) -> None:
        if isinstance(start, AtTime):
            consumer.seek(where, consumer.offsets_for_times({where: start.timestamp_ms})[where].offset)
        elif isinstance(start, int):
            consumer.seek(where, start)
        elif start == "earliest":
            consumer.seek_to_beginning(where)
        else:
            consumer.seek_to_end(where)

    def _read(self, consumer: Any, count: int) -> list[Received]:
        received: list[Received] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(received) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"kafka-python read {len(received)} of {count} records")
            for batch in consumer.poll(timeout_ms=200, max_records=count - len(received)).values():
                received += [_received(record) for record in batch]
        return received

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        options = {
            "num_partitions": partitions,
            "replication_factor": replication,
            "configs": dict(configs or {}),
        }
        with refusals():
            self._administrator().create_topics({topic: options})

    def delete_topic(self, topic: str) -> None:
        with refusals():
            self._administrator().delete_topics([topic])

    def describe_topic(self, topic: str) -> dict[int, int]:
        with refusals():
            (described,) = self._administrator().describe_topics([topic])
        refuse(described["error_code"])
        return {partition["partition_index"]: partition["leader_id"] for partition in described["partitions"]}

    def add_partitions(self, topic: str, total: int) -> None:
        with refusals():
            self._administrator().create_partitions({topic: total})

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]:
        with refusals():
            answer = self._administrator().describe_configs(
                [ConfigResource("TOPIC", topic)], config_filter="all"
            )
        return {
            name: ConfigValue(entry["value"], ConfigSourceType[entry["config_source"]].value)
            for name, entry in answer["topic"][topic].items()
        }

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        raise AssertionError("kafka-python's AlterConfigs does not replace")

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        operations = {
            name: (AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
            for name, value in configs.items()
        }
        with refusals():
            answer = self._administrator().alter_configs(
                [ConfigResource("TOPIC", topic, operations)], raise_on_unknown=False, incremental=True
            )
        outcome = answer["topic"][topic]  # "OK", or a sentence with the number in it
        if failed := re.match(r"\[Error (-?\d+)\]", outcome):
            refuse(int(failed.group(1)), outcome)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        where = TopicPartition(topic, partition)
        with refusals():
            low_watermark: int = self._administrator().delete_records({where: before_offset})[where][
                "low_watermark"
            ]
        return low_watermark

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        where = TopicPartition(topic, partition)
        asked = spec.timestamp_ms if isinstance(spec, AtTime) else AdminOffsetSpec[spec.upper()]
        with refusals():
            offset: int = self._administrator().list_partition_offsets({where: asked})[where].offset
        return offset

    def describe_cluster(self) -> Cluster:
        answer = self._administrator().describe_cluster()
        nodes = {broker["broker_id"]: (broker["host"], broker["port"]) for broker in answer["brokers"]}
        return Cluster(answer["cluster_id"], answer["controller_id"], nodes)

    def log_dirs(self, topic: str) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for broker in self._administrator().describe_log_dirs([topic]):
            for directory in broker["log_dirs"]:
                refuse(directory["error_code"])
                for found in directory["topics"]:
                    sizes |= {part["partition_index"]: part["partition_size"] for part in found["partitions"]}
        return sizes

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()

    def _administrator(self) -> Any:
        if self._admin is None:
            self._admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        return self._admin


def _received(record: Any) -> Received:
    return Received(
        record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
    )
