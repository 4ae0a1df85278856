"""The operations that every client family has, so that one test holds for all of them.

A family is a real, unmodified client library behind a thin adapter: the adapter translates words, never
behaviour. What a family cannot do is missing from its `abilities` or `codecs`, and the tests are generated
from those, so that nothing is skipped in silence. An error that the broker answered arrives as `RefusedError`
with Kafka's name for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ottla.errors import ErrorCode

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]
Headers = tuple[tuple[str, bytes | None], ...]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_SECONDS = 30.0  # generous: two shared cores and a JVM that has not warmed up

Ability = Literal[
    "admin",  # create, delete and describe topics; add partitions; describe configs
    "alter_configs",
    "incremental_alter_configs",
    "config_errors",  # DescribeConfigs of what does not exist fails (kafka-python answers an empty table)
    "delete_records",
    "list_offsets",
    "max_timestamp",  # ListOffsets -3
    "describe_cluster",
    "log_dirs",
    "idempotence",
    "timestamps",  # the application sets the time of a record
    "null_headers",  # a header whose value is null
    "out_of_range_error",  # the consumer can be told to fail instead of starting elsewhere
]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after this time."""

    timestamp_ms: int


Start = Literal["earliest", "latest"] | int | AtTime
OffsetSpec = Literal["earliest", "latest", "max_timestamp"] | AtTime


@dataclass(frozen=True, slots=True)
class Message:
    """A record as an application writes it."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where the broker says a record lies."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Received:
    """A record as an application reads it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting as DescribeConfigs answers it; `source` is Kafka's number (1 topic, 4 static broker, 5
    default).
    """

    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, as DescribeCluster or Metadata says."""

    cluster_id: str
    controller_id: int
    nodes: Mapping[int, tuple[str, int]]


class RefusedError(Exception):
    """The broker, or the client on its word, refused; `code` is Kafka's name of the error."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def refuse(code: int, message: object = "") -> None:
    """Raise `RefusedError` for an error code of the protocol; nothing for 0."""
    if code != 0:
        raise RefusedError(ErrorCode(code).name, str(message or ""))


class Client(Protocol):
    """A family connected to one broker. Each call opens and closes what it needs."""

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
        """Write and wait for the answers; empty with acks 0, where there are none."""

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = "earliest"
    ) -> list[Received]:
        """Read exactly `count` records of an assigned partition, in the order they came."""

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def describe_topic(self, topic: str) -> dict[int, int]:
        """The leader of each partition."""

    def add_partitions(self, topic: str, total: int) -> None: ...

    def describe_configs(self, topic: str) -> dict[str, ConfigValue]: ...

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """The old way: what is not named returns to its default."""

    def incremental_alter_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Set what has a value, delete what has none."""

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """The low watermark afterwards."""

    def list_offset(self, topic: str, partition: int, spec: OffsetSpec) -> int: ...

    def describe_cluster(self) -> Cluster: ...

    def log_dirs(self, topic: str) -> dict[int, int]:
        """Bytes on disk of each partition."""

    def close(self) -> None: ...
