"""The four codecs of a batch's records block, and none.

cramjam is loaded at the first compressed batch that must be opened or made: a broker passes batches through
untouched and never needs it.
"""

from enum import IntEnum
from typing import Final

from ottla.records.corruption import CorruptRecord

# A client's batch is at most max.message.bytes when compressed (1 MiB unless configured otherwise). A block that
# becomes more than a hundred times as large is an attack or a mistake.
DECOMPRESSED_LIMIT_BYTES: Final = 128 << 20


class Compression(IntEnum):
    """The codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS: Final = tuple(Compression)


def compression_of(number: int) -> Compression:
    """The codec with this number; CorruptRecord when Kafka has none."""
    if not 0 <= number < len(_CODECS):
        raise CorruptRecord(f"compression codec {number} does not exist")
    return _CODECS[number]


def decompress(codec: Compression, data: memoryview, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes:
    if codec is Compression.NONE:
        return bytes(data)
    raise CorruptRecord("not yet")
