"""The part of a read that runs on executors: an exact range of a partition's offsets becomes Arrow record
batches.

Rules
- The range is exact: every record with an offset in [start, end), none else, in order of offsets. Offsets
  without a record (compaction, control batches, aborted transactions for readers of committed records) are no
  loss.
- Data that should be there and are not (deleted by retention, a log that ends early, a topic that is gone)
  are `DataLossError`, or a warning with `fail_on_data_loss=False`: then what is left is read.
- With `read_tier`, records that lie in the brokers' object store are read from there; rows are the same.
- Spark keeps Python workers for many tasks, so connections are kept too, in the process that made them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.range_batches import RangeBatches
from ottla.client.sync.range_reader import OffsetsLostError, RangeReader, RangeSettings
from ottla.model import parse_addresses
from ottla.security.settings import PLAINTEXT, Security
from ottla.spark.decode.fetched import Decoder, Wanted
from ottla.spark.decode.schema import SPARK_SCHEMA, SPARK_SCHEMA_WITH_HEADERS, arrow_schema
from ottla.spark.source.plan.data_loss import DataLossError, report_data_loss
from ottla.spark.source.plan.offsets import OffsetRange

__all__ = [
    "SPARK_SCHEMA",
    "SPARK_SCHEMA_WITH_HEADERS",
    "DataLossError",
    "ScanSettings",
    "arrow_schema",
    "scan",
]

_DEFAULT_FETCH_BYTES: Final = 4 << 20
_MOST_FETCH_BYTES: Final = 64 << 20
# A worker runs one task at a time, for a few queries: more than this are leftovers of queries that ended.
_MOST_IDLE: Final = 8


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """How to read. `client` has Kafka's names: request.timeout.ms, max.partition.fetch.bytes, …"""

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict)
    security: Security = PLAINTEXT
    include_headers: bool = False
    fail_on_data_loss: bool = True
    read_committed: bool = False
    since_ms: int | None = None  # rows outside need not be returned
    until_ms: int | None = None
    read_tier: bool = False
    # How long a missing offset or an unknown topic is put down to a new leader that does not know all yet.
    patience_ms: int = 5_000


class _Reader(Protocol):
    """Reads a range, from brokers or from the object store, too."""

    def read(self) -> RangeBatches | None: ...

    def skip_to(self, offset: int) -> None: ...

    def close(self) -> None: ...


def scan(range: OffsetRange, settings: ScanSettings) -> Iterator[pa.RecordBatch]:  # noqa: A002 - the noun of the caller
    """The records of a range, in order of their offsets, in batches of a size that suits Spark.

    Raises DataLossError, or KafkaError, ConnectionError or TimeoutError after trying again until
    `default.api.timeout.ms`.
    """
    if range.size <= 0:
        return
    key = (settings.bootstrap_servers, tuple(sorted(settings.client.items())), settings.security)
    brokers = _POOL.take(key) or _brokers(settings)
    reader = _reader(brokers, range, settings)
    try:
        yield from _read(reader, range, settings)
    finally:
        reader.close()
        _POOL.give_back(key, brokers)


def _reader(brokers: BlockingBrokers, range: OffsetRange, settings: ScanSettings) -> _Reader:  # noqa: A002
    offsets, how = (range.start, range.end), _range_settings(settings)
    if not settings.read_tier:
        return RangeReader(brokers, range.topic_partition, *offsets, how)
    # Imported here: most queries read from brokers alone.
    from ottla.client.sync.tiered_reader import TieredReader

    return TieredReader(brokers, range.topic_partition, offsets, how)


def _read(reader: _Reader, range: OffsetRange, settings: ScanSettings) -> Iterator[pa.RecordBatch]:  # noqa: A002
    wanted = Wanted(
        range.topic,
        range.partition,
        include_headers=settings.include_headers,
        check_crcs=settings.client.get("check.crcs", "true").lower() != "false",
        since_ms=settings.since_ms,
        until_ms=settings.until_ms,
    )
    decoder = Decoder(wanted)
    while True:
        try:
            raw = reader.read()
        except OffsetsLostError as lost:
            report_data_loss(_words(range, lost), fail=settings.fail_on_data_loss)
            reader.skip_to(lost.end)
            continue
        if raw is None:
            return
        yield from decoder.decode(raw)


def _words(range: OffsetRange, lost: OffsetsLostError) -> str:  # noqa: A002
    wanted = f"{range.topic}-{range.partition}, of which [{range.start}, {range.end}) was to be read"
    return f"the offsets {lost.first} to {lost.end - 1} of {wanted}, are not there: {lost.why}."


# ---- connections


class _Pool:
    """Clusters that no scan uses at the moment, with their open connections. Forked processes begin with
    none.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[object, BlockingBrokers]] = []

    def take(self, key: object) -> BlockingBrokers | None:
        """One that was used for the same, if there is one; no other scan has it."""
        for entry in reversed(self._idle):
            if entry[0] == key:
                try:
                    self._idle.remove(entry)
                except ValueError:  # another thread was faster
                    continue
                return entry[1]
        return None

    def give_back(self, key: object, brokers: BlockingBrokers) -> None:
        """For the next who needs it; the one that was not needed for longest is closed if there are too
        many.
        """
        self._idle.append((key, brokers))
        if len(self._idle) > _MOST_IDLE:
            self._idle.pop(0)[1].close()

    def forget(self) -> None:
        """In a forked process: the connections are the parent's."""
        self._idle.clear()


_POOL: Final = _Pool()
os.register_at_fork(after_in_child=_POOL.forget)


def _brokers(settings: ScanSettings) -> BlockingBrokers:
    return BlockingBrokers(
        parse_addresses(settings.bootstrap_servers),
        client_id=settings.client.get("client.id", "ottla-spark"),
        timeout_ms=_number(settings, "request.timeout.ms", 30_000),
        security=settings.security,
    )


def _range_settings(settings: ScanSettings) -> RangeSettings:
    sizes = ("max.partition.fetch.bytes", "fetch.max.bytes")
    wanted = [_number(settings, name, 0) for name in sizes if name in settings.client]
    return RangeSettings(
        fetch_bytes=max(1, min(*wanted, _MOST_FETCH_BYTES)) if wanted else _DEFAULT_FETCH_BYTES,
        max_wait_ms=_number(settings, "fetch.max.wait.ms", 500),
        is_read_committed=settings.read_committed,
        give_up_ms=_number(settings, "default.api.timeout.ms", 60_000),
        patience_ms=settings.patience_ms,
    )


def _number(settings: ScanSettings, name: str, default: int) -> int:
    text = settings.client.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"kafka.{name} must be a whole number, not {text!r}") from None
