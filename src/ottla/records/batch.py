"""A record batch as a view of bytes (STO-3).

The 61-byte header is parsed, the rest stays where it is: a broker numbers, checks, stores and sends batches
without ever looking at a record. Only code that must see records (a client, the cleaner, `ottla dump`) calls
`BatchView.records`, and only there they cost time.

Rules
- Nothing here trusts a length. A buffer that is too short, a batch that claims more than there is, a record
  that does not end where it said: all of it is `CorruptRecord`, never an IndexError and never a large
  allocation.
- The checksum is verified only when asked (`crc_is_valid`): a broker checks once, on arrival.
- Base offset and leader epoch lie before the checksummed range, so a broker may patch them in place.
"""

from collections.abc import Iterator

from crc32c import crc32c

from ottla.records.compression import (
    DECOMPRESSED_LIMIT_BYTES,
    Compression,
    Readable,
    compression_of,
    decompress,
)
from ottla.records.corruption import CorruptRecord
from ottla.records.header import (
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
    read_header,
)
from ottla.records.record import Record, read_records

__all__ = [
    "BATCH_OVERHEAD_BYTES",
    "CODEC_MASK",
    "CONTROL",
    "CRC_POSITION",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_BYTES",
    "LOG_APPEND_TIME",
    "MAGIC",
    "TRANSACTIONAL",
    "BatchHeader",
    "BatchView",
    "CorruptRecord",
    "Readable",
    "Record",
    "TimestampType",
    "iter_batches",
    "read_header",
]


class BatchView:
    """One whole batch inside a buffer, which it neither copies nor changes.

    The header is read once, when the view is made: a view of a buffer that is patched afterwards still tells
    the old base offset and leader epoch.
    """

    __slots__ = ("buffer", "header", "position")

    def __init__(self, buffer: Readable, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        self.header = header = read_header(buffer, position)
        left = len(buffer) - position
        if header.size_bytes > left:
            raise CorruptRecord(f"the batch claims {header.size_bytes} bytes and {left} are there")

    def __repr__(self) -> str:
        return f"BatchView(offsets {self.base_offset}..{self.last_offset}, {self.size_bytes} bytes at {self.position})"

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def batch_length(self) -> int:
        return self.header.batch_length

    @property
    def partition_leader_epoch(self) -> int:
        return self.header.partition_leader_epoch

    @property
    def magic(self) -> int:
        return self.header.magic

    @property
    def crc(self) -> int:
        return self.header.crc

    @property
    def attributes(self) -> int:
        return self.header.attributes

    @property
    def last_offset_delta(self) -> int:
        return self.header.last_offset_delta

    @property
    def base_timestamp(self) -> int:
        return self.header.base_timestamp

    @property
    def max_timestamp(self) -> int:
        return self.header.max_timestamp

    @property
    def producer_id(self) -> int:
        return self.header.producer_id

    @property
    def producer_epoch(self) -> int:
        return self.header.producer_epoch

    @property
    def base_sequence(self) -> int:
        return self.header.base_sequence

    @property
    def records_count(self) -> int:
        return self.header.records_count

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and all."""
        return self.header.batch_length + BATCH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The last offset the batch stands for, whether a record is still there or compaction took it."""
        return self.header.base_offset + self.header.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        """The codec of the records block; CorruptRecord for a number that Kafka has not given out."""
        return compression_of(self.header.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.header.attributes & LOG_APPEND_TIME:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.header.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.header.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """The cleaner has seen tombstones here; `base_timestamp` says from when on it may drop them."""
        return bool(self.header.attributes & DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.header.base_timestamp if self.has_delete_horizon else None

    def view(self) -> memoryview:
        """The bytes of the whole batch."""
        return memoryview(self.buffer)[self.position : self.position + self.size_bytes]

    def computed_crc(self) -> int:
        """The checksum that the present bytes should have."""
        return crc32c(self.view()[CRC_START:])

    def crc_is_valid(self) -> bool:
        return self.computed_crc() == self.header.crc

    def records(self, *, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> Iterator[Record]:
        """Decode the records one by one.

        Raises CorruptRecord at the first byte that makes no sense, after the records before it were given;
        the checksum is not looked at. A compressed block may not grow beyond `limit_bytes`.
        """
        block: Readable = self.view()[HEADER_BYTES:]
        codec = self.compression
        if codec and block:  # compaction leaves batches with nothing in them
            block = decompress(codec, block, limit_bytes)
        return read_records(self.header, block)


def iter_batches(buffer: Readable, *, allow_partial_end: bool = False) -> Iterator[BatchView]:
    """The batches of a buffer, one behind the other.

    A fetch response may end in the middle of a batch: with `allow_partial_end` such a rest ends the iteration
    silently, without it the rest is CorruptRecord.
    """
    position, end = 0, len(buffer)
    while position < end:
        if allow_partial_end and _is_cut_off(buffer, position):
            return
        batch = BatchView(buffer, position)
        yield batch
        position += batch.size_bytes


def _is_cut_off(buffer: Readable, position: int) -> bool:
    left = len(buffer) - position
    return left < HEADER_BYTES or left < read_header(buffer, position).size_bytes
