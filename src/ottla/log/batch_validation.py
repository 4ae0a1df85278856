"""The checks on a client's batch, and the changes that the broker makes to it.

The hot path (`writing.append`) accepts an ordinary batch by its header. Any other batch is examined here: it
is refused with the error that Kafka's clients expect, or changed as the topic's settings say (LogAppendTime,
another compression, a wrong maxTimestamp). Records are decoded only where that is necessary: for compacted
topics, whose records must have a key, and for topics with another compression.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Final

from crc32c import crc32c

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import (
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    BatchView,
    CorruptRecord,
    read_header,
)
from ottla.records.compression import DECOMPRESSED_LIMIT_BYTES, Compression, compress, decompress
from ottla.records.record import Record

_SIZE: Final = Struct(">i")
_SIZE_POSITION: Final = 8
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 35
_LARGEST_CODEC: Final = int(Compression.ZSTD)


# The answer names the first of the refused records; a client that sends the others again hears of the rest.
_MOST_NAMED: Final = 1000


class RefusedRecordsError(KafkaError):
    """A batch that is refused because of some of its records: their places in the batch, and why (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, records: Iterable[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = tuple(islice(records, _MOST_NAMED))


_CODECS: Final = {"uncompressed": Compression.NONE} | {codec.name.lower(): codec for codec in Compression}
_LZ4_FAST: Final = 9  # Kafka's default level stands for the fast mode


@dataclass(frozen=True, slots=True)
class Limits:
    """A topic's configuration as the append path needs it."""

    max_message_bytes: int
    segment_bytes: int
    before_max_ms: int
    after_max_ms: int
    is_log_append_time: bool
    is_compacted: bool
    compression: Compression | None  # None: as the producer sent it
    compression_level: int | None

    @classmethod
    def of(cls, config: TopicConfig) -> "Limits":
        compression = _CODECS.get(config.compression_type)
        return cls(
            max_message_bytes=config.max_message_bytes,
            segment_bytes=config.segment_bytes,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            is_log_append_time=config.message_timestamp_type == "LogAppendTime",
            is_compacted=config.is_compacted,
            compression=compression,
            compression_level=_level(config, compression),
        )

    def are_broken_by(self, timestamp: int, now_ms: int) -> bool:
        """Whether a record's timestamp is too far from the time of the append."""
        age_ms = now_ms - timestamp
        return timestamp != NO_TIMESTAMP and (age_ms > self.before_max_ms or -age_ms > self.after_max_ms)

    @property
    def examines_all(self) -> bool:
        """Whether every batch of this topic must be examined."""
        return self.is_log_append_time or self.is_compacted or self.compression is not None

    @property
    def largest_ordinary_bytes(self) -> int:
        return 0 if self.examines_all else min(self.max_message_bytes, self.segment_bytes)


def examine(records: memoryview, limits: Limits, now_ms: int) -> memoryview:
    """The batch as it is stored, possibly changed in place; KafkaError if a client may not append it."""
    batch = _one_batch(records)
    _check_size(batch.size_bytes, limits)
    if not batch.crc_is_valid():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
    _check_fields(batch.header)
    _check_timestamps(batch, limits, now_ms)
    largest_timestamp = _check_records(batch, limits)
    if limits.compression is not None and limits.compression != batch.compression:
        records = _compressed_anew(batch, limits.compression, limits.compression_level)
        _check_size(len(records), limits)
    attributes = read_header(records).attributes
    if limits.is_log_append_time:
        _stamp(records, attributes | LOG_APPEND_TIME, now_ms)
    elif largest_timestamp is not None and largest_timestamp != batch.max_timestamp:
        _stamp(records, attributes, largest_timestamp)
    return records


def _one_batch(records: memoryview) -> BatchView:
    try:
        batch = BatchView(records)
    except CorruptRecord as problem:
        raise _invalid(str(problem)) from None
    if batch.size_bytes != len(records):
        raise _invalid("a produce request carries exactly one batch per partition")
    return batch


def _check_size(size_bytes: int, limits: Limits) -> None:
    if size_bytes > limits.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes; max.message.bytes is {limits.max_message_bytes}",
        )
    if size_bytes > limits.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size_bytes} bytes; segment.bytes is {limits.segment_bytes}",
        )


def _check_fields(header: BatchHeader) -> None:
    attributes = header.attributes
    if header.magic != MAGIC:
        raise _invalid(f"magic {header.magic} is not {MAGIC}")
    if not header.last_offset_delta + 1 == header.records_count > 0:
        raise _invalid(
            f"{header.records_count} records do not fit the last offset delta {header.last_offset_delta}"
        )
    if attributes & (CONTROL | DELETE_HORIZON):
        raise _invalid("a client may not write control batches or delete horizons")
    if attributes & CODEC_MASK > _LARGEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid("a batch with a producer id needs a sequence and an epoch")
    if header.producer_id < 0 and attributes & TRANSACTIONAL:
        raise _invalid("a transactional batch needs a producer id")


def _check_timestamps(batch: BatchView, limits: Limits, now_ms: int) -> None:
    if limits.is_log_append_time:
        return
    header = batch.header
    if header.attributes & LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set LogAppendTime")
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if limits.are_broken_by(timestamp, now_ms):
            raise RefusedRecordsError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} lies outside message.timestamp.before.max.ms and"
                f" message.timestamp.after.max.ms around {now_ms}",
                (
                    (number, f"timestamp {record.timestamp} is out of range")
                    for number, record in enumerate(_records(batch))
                    if limits.are_broken_by(record.timestamp, now_ms)
                ),
            )


def _check_records(batch: BatchView, limits: Limits) -> int | None:
    """Decode and check the records if that is necessary; return their largest timestamp if it was."""
    is_wrong = batch.max_timestamp < batch.base_timestamp and not limits.is_log_append_time
    if not (limits.is_compacted or is_wrong):
        return None
    largest = NO_TIMESTAMP
    without_key = []
    for number, record in enumerate(_records(batch)):
        if record.key is None and limits.is_compacted:
            without_key.append(number)
        largest = max(largest, record.timestamp)
    if without_key:
        reason = "a compacted topic takes no record without a key"
        raise RefusedRecordsError(
            ErrorCode.INVALID_RECORD, reason, ((number, reason) for number in without_key)
        )
    return largest


def _records(batch: BatchView) -> Iterator[Record]:
    try:
        yield from batch.records()
    except CorruptRecord as problem:
        raise _invalid(str(problem)) from None


def _level(config: TopicConfig, codec: Compression | None) -> int | None:
    """The level at which batches are compressed anew; None for the codec's own choice."""
    if codec is Compression.GZIP:
        return config.compression_gzip_level
    if codec is Compression.ZSTD:
        return config.compression_zstd_level
    if codec is Compression.LZ4 and config.compression_lz4_level != _LZ4_FAST:
        return config.compression_lz4_level
    return None


def _compressed_anew(batch: BatchView, codec: Compression, level: int | None) -> memoryview:
    """The same records in another compression: the block is recompressed, not re-encoded."""
    view = batch.view()
    try:
        block = decompress(batch.compression, view[HEADER_BYTES:], DECOMPRESSED_LIMIT_BYTES)
    except CorruptRecord as problem:
        raise _invalid(str(problem)) from None
    rebuilt = bytearray(view[:HEADER_BYTES])
    rebuilt += compress(codec, block, level)
    _SIZE.pack_into(rebuilt, _SIZE_POSITION, len(rebuilt) - BATCH_OVERHEAD_BYTES)
    records = memoryview(rebuilt)
    _stamp(records, batch.attributes & ~CODEC_MASK | codec, batch.max_timestamp)
    return records


def _stamp(records: memoryview, attributes: int, max_timestamp: int) -> None:
    """Write attributes and maxTimestamp, and update the checksum."""
    _ATTRIBUTES.pack_into(records, CRC_START, attributes)
    _MAX_TIMESTAMP.pack_into(records, _MAX_TIMESTAMP_POSITION, max_timestamp)
    _CRC.pack_into(records, CRC_POSITION, crc32c(records[CRC_START:]))


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)
