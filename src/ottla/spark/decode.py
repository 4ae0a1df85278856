"""Record batches as a broker stores them become Arrow record batches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from crc32c import crc32c

from ottla.client.aborted_transactions import AbortedTransactions
from ottla.client.raw_batches import PlacedBatch, RawBatches
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BatchView
from ottla.records.compression import compression_of, decompress
from ottla.records.corruption import CorruptRecord
from ottla.records.decoding import RecordColumns, decode_columns
from ottla.records.header import CODEC_MASK, CONTROL, CRC_START, HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from ottla.records.record import Header
from ottla.spark.schema import HEADERS, TIMESTAMP, arrow_schema

_LARGEST_MS = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records become rows: offsets [start, end) of a partition; batches that are older or newer may be left out."""

    topic: str
    partition: int
    start: int
    end: int
    include_headers: bool = False
    check_crcs: bool = True
    since_ms: int | None = None
    until_ms: int | None = None


def decode(raw: RawBatches, wanted: Wanted) -> list[pa.RecordBatch]:
    """The rows of an answer. Raises KafkaError(CORRUPT_MESSAGE) that names the place, for all of it, if a batch is damaged."""
    rows: list[pa.RecordBatch] = []
    transactions = AbortedTransactions(raw.aborted) if raw.aborted else None
    for batch in raw.batches:
        try:
            if transactions is not None and transactions.hides(BatchView(raw.records, batch.position)):
                continue
            if not _is_skipped(batch.header, wanted) and batch.header.last_offset >= wanted.start:
                rows += _decoded(raw.records, batch, wanted)
        except CorruptRecord as damage:
            raise _damaged(wanted, batch.header.base_offset, damage) from damage
    if raw.damage is not None:
        raise _damaged(wanted, raw.next_offset, raw.damage)
    return rows


def _is_skipped(header: BatchHeader, wanted: Wanted) -> bool:
    if header.attributes & CONTROL or not header.records_count:
        return True
    if wanted.since_ms is not None and header.max_timestamp < wanted.since_ms:
        return True
    is_stamped = bool(header.attributes & LOG_APPEND_TIME)
    return wanted.until_ms is not None and is_stamped and header.max_timestamp > wanted.until_ms


def _decoded(records: memoryview, batch: PlacedBatch, wanted: Wanted) -> list[pa.RecordBatch]:
    position, end, header = batch
    if wanted.check_crcs and (computed := crc32c(records[position + CRC_START : end])) != header.crc:
        raise CorruptRecord(f"the checksum says {header.crc:08x}, the bytes say {computed:08x}")
    block: bytes | memoryview = records[position + HEADER_BYTES : end]
    codec = header.attributes & CODEC_MASK
    columns = decode_columns(header, decompress(compression_of(codec), block) if codec and block else block)
    first = bisect_left(columns.offsets, wanted.start)
    last = bisect_left(columns.offsets, wanted.end)
    return [_arrow(columns, header, wanted).slice(first, last - first)] if last > first else []


def _arrow(columns: RecordColumns, header: BatchHeader, wanted: Wanted) -> pa.RecordBatch:
    count = len(columns.values)
    if max(columns.timestamps) > _LARGEST_MS or min(columns.timestamps) < -_LARGEST_MS:
        raise CorruptRecord("a timestamp does not fit into Spark's microseconds")
    timestamp_type = int(bool(header.attributes & LOG_APPEND_TIME))
    arrays: list[Any] = [
        pa.array(columns.keys, pa.binary()),
        pa.array(columns.values, pa.binary()),
        pa.repeat(pa.scalar(wanted.topic), count),
        pa.repeat(pa.scalar(wanted.partition, pa.int32()), count),
        pa.array(columns.offsets, pa.int64()),
        pa.array([each * 1000 for each in columns.timestamps], pa.int64()).cast(TIMESTAMP),
        pa.repeat(pa.scalar(timestamp_type, pa.int32()), count),
    ]
    if wanted.include_headers:
        arrays.append(_headers(columns.headers or [()] * count))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(include_headers=wanted.include_headers))


def _headers(rows: Sequence[tuple[Header, ...]]) -> pa.Array:
    """Null where a record has none, as Spark's Kafka source has it. Keys that are no text are made text, as Java does."""
    return pa.array([[_pair(each) for each in row] if row else None for row in rows], HEADERS)


def _pair(header: Header) -> dict[str, object]:
    key = header[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"key": key, "value": header[1]}


def _damaged(wanted: Wanted, offset: int, damage: CorruptRecord) -> KafkaError:
    place = f"{wanted.topic}-{wanted.partition} at offset {offset}"
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{place}: {damage}")
