"""kcat: the command line client that operators reach for, with the librdkafka of Debian 12 (2.0.2).

It knows no administration. Empty and null cannot be told apart within one of its runs, and headers belong to
a run: messages are sent in runs of equal shape.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Mapping, Sequence

from tests.clients.model import (
    CODECS,
    DEADLINE_SECONDS,
    Ability,
    Acks,
    AtTime,
    Cluster,
    Codec,
    ConfigValue,
    Headers,
    Message,
    OffsetSpec,
    Receipt,
    Received,
    RefusedError,
    Start,
)

ABILITIES: frozenset[Ability] = frozenset({"list_offsets", "idempotence", "out_of_range_error"})
SUPPORTED_CODECS = CODECS
END_OF_MESSAGE = b"\x1e"  # ASCII's record and unit separators: no test message holds them
END_OF_KEY = b"\x1f"
# librdkafka's sentences for what Kafka calls by a name.
SENTENCES = {
    "Message size too large": "MESSAGE_TOO_LARGE",
    "Unknown topic or partition": "UNKNOWN_TOPIC_OR_PARTITION",
    "Unknown partition": "UNKNOWN_TOPIC_OR_PARTITION",
    "Unknown topic": "UNKNOWN_TOPIC_OR_PARTITION",
    "Offset out of range": "OFFSET_OUT_OF_RANGE",
    "no previously committed offset": "OFFSET_OUT_OF_RANGE",
}


class KcatClient:
    def __init__(self, path: str, bootstrap: str) -> None:
        self._command = [path, "-b", bootstrap, "-m", str(int(DEADLINE_SECONDS))]

    def _run(self, arguments: Sequence[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                input=stdin,
                capture_output=True,
                timeout=DEADLINE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"kcat {' '.join(arguments)}: {error.stderr!r}") from None
        errors = done.stderr.decode(errors="replace")
        if done.returncode != 0 or "% ERROR" in errors or "Delivery failed" in errors:
            for sentence, code in SENTENCES.items():
                if sentence in errors:
                    raise RefusedError(code, errors)
            raise AssertionError(f"kcat {' '.join(arguments)} ended with {done.returncode}: {errors}")
        return done

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
        arguments = ["-P", "-t", topic, "-z", codec, "-vvv", "-D", END_OF_MESSAGE.decode()]
        arguments += ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
        arguments += ["-X", "linger.ms=20", "-X", "message.max.bytes=20000000"]
        if partition is not None:
            arguments += ["-p", str(partition)]
        receipts: list[Receipt] = []
        for _, run in itertools.groupby(messages, key=_shape):
            receipts += self._produce_run(arguments, list(run))
        return [] if acks == "0" else receipts

    def _produce_run(self, arguments: Sequence[str], run: Sequence[Message]) -> list[Receipt]:
        headers, has_key, has_value = _shape(run[0])
        arguments = [
            *arguments,
            *([] if has_value else ["-Z"]),
            *(["-K", END_OF_KEY.decode()] if has_key else []),
        ]
        for name, value in headers:
            arguments += ["-H", f"{name}={(value or b'').decode()}"]
        lines = [
            (b"" if message.key is None else message.key + END_OF_KEY) + (message.value or b"")
            for message in run
        ]
        done = self._run(arguments, END_OF_MESSAGE.join(lines) + END_OF_MESSAGE)
        found = re.findall(rb"delivered to partition (\d+) \(offset (-?\d+)\)", done.stderr)
        return [Receipt(int(partition), int(offset)) for partition, offset in found]

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        place = {"earliest": "beginning", "latest": "end"}
        where = f"s@{start.timestamp_ms}" if isinstance(start, AtTime) else place.get(str(start), str(start))
        arguments = ["-C", "-q", "-t", topic, "-p", str(partition), "-o", where, "-c", str(count)]
        arguments += ["-X", "topic.auto.offset.reset=error", "-X", "fetch.message.max.bytes=20000000"]
        shape = ["-f", "%p %o %T %K %S %h\n%k%s\n"]
        return _parse(self._run([*arguments, *shape]).stdout)

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int:
        named = {"earliest": -2, "latest": -1}
        asked = spec.timestamp_ms if isinstance(spec, AtTime) else named[spec]
        answer = self._run(["-Q", "-t", f"{topic}:{partition}:{asked}"]).stdout.decode()
        return int(answer.rsplit(" offset ", 1)[1])

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        raise AssertionError("kcat has no CreateTopics")

    def delete_topic(self, topic: str) -> None:
        raise AssertionError("kcat has no DeleteTopics")

    def describe_topic(self, topic: str) -> dict[int, int]:
        raise AssertionError("kcat describes topics for people only")

    def add_partitions(self, topic: str, total: int) -> None:
        raise AssertionError("kcat has no CreatePartitions")

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]:
        raise AssertionError("kcat has no DescribeConfigs")

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        raise AssertionError("kcat has no AlterConfigs")

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        raise AssertionError("kcat has no IncrementalAlterConfigs")

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        raise AssertionError("kcat has no DeleteRecords")

    def describe_cluster(self) -> Cluster:
        raise AssertionError("kcat has no DescribeCluster")

    def log_dirs(self, topic: str) -> dict[int, int]:
        raise AssertionError("kcat has no DescribeLogDirs")

    def close(self) -> None:
        pass


def _shape(message: Message) -> tuple[Headers, bool, bool]:
    return message.headers, message.key is not None, message.value is not None


def _parse(output: bytes) -> list[Received]:
    """Lines of `partition offset timestamp key-size value-size headers`, each followed by the bytes
    themselves.
    """
    records: list[Received] = []
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        partition, offset, timestamp, key_size, value_size, *rest = (
            output[position:end].decode().split(" ", 5)
        )
        position = end + 1
        key, position = _take(output, position, int(key_size))
        value, position = _take(output, position, int(value_size))
        position += 1
        records.append(
            Received(int(partition), int(offset), int(timestamp), key, value, _headers("".join(rest)))
        )
    return records


def _take(output: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    return (None, position) if size < 0 else (output[position : position + size], position + size)


def _headers(text: str) -> Headers:
    pairs = [pair.split("=", 1) for pair in text.split(",")] if text else []
    return tuple((name, value.encode()) for name, value in pairs)
