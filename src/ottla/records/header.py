"""The 61 bytes in front of every record batch (STO-3).

They say all that a broker needs to number, check, store and send a batch. Base offset and leader epoch lie
before the checksummed range: a broker writes its own values there, in place.
"""

from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from ottla.model import NO_TIMESTAMP
from ottla.records.compression import Readable
from ottla.records.corruption import CorruptRecord

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
MAGIC: Final = 2  # the only format since Kafka 4.0 (KIP-896)
BATCH_OVERHEAD_BYTES: Final = 12  # base offset and length: what batch_length does not count
CRC: Final = Struct(">I")
CRC_POSITION: Final = 17
CRC_START: Final = 21  # the checksum covers everything from the attributes on
_SMALLEST_LENGTH: Final = HEADER_BYTES - BATCH_OVERHEAD_BYTES

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class TimestampType(IntEnum):
    """The author of a batch's timestamps: its producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header's fields, in the order in which they lie in the file."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and all."""
        return self.batch_length + BATCH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def newest_record_ms(self) -> int:
        """The largest timestamp of its records. NO_TIMESTAMP if compaction has left no more than the header, which
        keeps the time for the sake of its producer's age.
        """
        return self.max_timestamp if self.records_count else NO_TIMESTAMP


def read_header(buffer: Readable, position: int = 0) -> BatchHeader:
    """The header at `position`; the records after it need not be in the buffer."""
    try:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    except struct_error:
        left = max(0, len(buffer) - position)
        raise CorruptRecord(f"{left} bytes are left where a batch header needs {HEADER_BYTES}") from None
    # By index: a named attribute costs more, and this runs once per batch of every walk through a log.
    if header[3] != MAGIC:
        raise CorruptRecord(
            f"magic is {header[3]}, not {MAGIC}: no record batch starts here, or one of a format before v2"
        )
    if header[1] < _SMALLEST_LENGTH:
        raise CorruptRecord(
            f"batch length {header[1]} is less than the {_SMALLEST_LENGTH} bytes of an empty batch"
        )
    return header
