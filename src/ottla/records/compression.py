"""The four codecs of a batch's records block, and none (WIRE-4).

Rules
- A block never grows beyond the limit it was given: gzip inflates in a stream that stops there, the others
  write into a buffer of a size we chose. A bomb costs the limit at most, and the first guess at worst if it
  is damaged.
- cramjam is loaded at the first block that needs it: a broker passes batches through untouched, and never
  does.
- What we write, Java reads: snappy in xerial's framing, lz4 frames of independent blocks without a content
  checksum.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeAlias

from ottla.records.corruption import CorruptRecord

Readable: TypeAlias = bytes | bytearray | memoryview

# A client's batch is at most max.message.bytes when compressed (1 MiB unless configured otherwise). A block
# that becomes more than a hundred times as large is an attack or a mistake.
DECOMPRESSED_LIMIT_BYTES: Final = 128 << 20

# lz4 and zstd do not say how large a block becomes: 16 times covers most data at the first attempt, and a
# second attempt with 16 times more covers nearly all that is left.
_GROWTH: Final = 16
_SMALLEST_GUESS_BYTES: Final = 4096

_GZIP_FORMAT: Final = zlib.MAX_WBITS | 16
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 << 10  # what Java's and most other clients use
_INT32: Final = Struct(">i")
# One snappy instruction of three bytes copies up to 64: more than 22 times cannot be, whatever a block
# claims.
_SNAPPY_LARGEST_RATIO: Final = 22


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


def compress(codec: Compression, data: Readable, level: int | None = None) -> bytes:
    """The block in the codec's format. Without a level: 6 for gzip, 3 for zstd, the fast mode for lz4."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            deflate = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, _GZIP_FORMAT)
            return deflate.compress(data) + deflate.flush()
        case Compression.SNAPPY:
            return _snappy_compress(data)
        case Compression.LZ4:
            return _lz4_compress(data, 0 if level is None else level)
        case Compression.ZSTD:
            from cramjam import zstd

            return bytes(zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Compression, data: Readable, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes:
    """The decompressed bytes. CorruptRecord when they are damaged, or would become larger than the limit."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _gunzip(data, limit_bytes)
        case Compression.SNAPPY:
            return _snappy_decompress(data, limit_bytes)
        case Compression.LZ4:
            from cramjam import lz4

            return _decompress_into("lz4", lz4.decompress_into, data, limit_bytes)
        case Compression.ZSTD:
            from cramjam import zstd

            return _decompress_into("zstd", zstd.decompress_into, data, limit_bytes)


def decompress_into(codec: Compression, data: Readable, room: memoryview) -> int | None:
    """Decompress into memory of the caller's: how many bytes it became; None if there is not enough room.

    CorruptRecord when it is damaged.
    """
    match codec:
        case Compression.LZ4:
            from cramjam import lz4

            return _fill("lz4", lz4.decompress_into, data, room)
        case Compression.ZSTD:
            from cramjam import zstd

            return _fill("zstd", zstd.decompress_into, data, room)
    block = decompress(codec, data)
    if len(block) > len(room):
        return None
    room[: len(block)] = block
    return len(block)


def _too_large(codec: str, limit_bytes: int) -> CorruptRecord:
    return CorruptRecord(f"the {codec} block becomes larger than the limit of {limit_bytes} bytes")


def _decompress_into(
    codec: str, decompress_into: Callable[[Readable, memoryview], int], data: Readable, limit_bytes: int
) -> bytes:
    guess = max(_SMALLEST_GUESS_BYTES, len(data) * _GROWTH)
    while True:
        room = memoryview(bytearray(min(guess, limit_bytes)))
        size = _fill(codec, decompress_into, data, room)
        if size is not None:
            return bytes(room[:size])
        if len(room) == limit_bytes:
            raise _too_large(codec, limit_bytes)
        guess *= _GROWTH


def _fill(
    codec: str, decompress_into: Callable[[Readable, memoryview], int], data: Readable, room: memoryview
) -> int | None:
    from cramjam import DecompressionError

    try:
        return decompress_into(data, room)
    except DecompressionError as damage:
        # The only way cramjam has to say that the room was too small (a test holds it to these words).
        if "failed to write whole buffer" in str(damage):
            return None
        raise CorruptRecord(f"the {codec} block is damaged: {damage}") from None


def _gunzip(data: Readable, limit_bytes: int) -> bytes:
    """Inflate all members: Java joins them too. One byte more than the limit is asked for, to see that it is
    there.
    """
    blocks: list[bytes] = []
    room = limit_bytes + 1
    try:
        while data:
            inflate = zlib.decompressobj(_GZIP_FORMAT)
            blocks.append(inflate.decompress(data, room))
            room -= len(blocks[-1])
            if room <= 0:
                raise _too_large("gzip", limit_bytes)
            if not inflate.eof:
                raise CorruptRecord("the gzip block is damaged: it ends too early")
            data = inflate.unused_data
    except zlib.error as damage:
        raise CorruptRecord(f"the gzip block is damaged: {damage}") from None
    if not blocks:
        raise CorruptRecord("the gzip block is damaged: it is empty")
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _lz4_compress(data: Readable, level: int) -> bytes:
    from cramjam import lz4

    compressor = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # the one function of cramjam that takes nothing else
    return bytes(compressor.finish())


def _snappy_compress(data: Readable) -> bytes:
    from cramjam import snappy

    parts: list[bytes] = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(data: Readable, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, limit_bytes, limit_bytes)
    parts: list[bytes] = []
    position, room = len(_XERIAL_HEADER), limit_bytes
    if len(view) < position:
        raise CorruptRecord(f"the snappy block is damaged: {len(view)} bytes are no xerial header")
    while position < len(view):
        start, end = _xerial_block(view, position)
        parts.append(_snappy_block(view[start:end], room, limit_bytes))
        room -= len(parts[-1])
        position = end
    return b"".join(parts)


def _xerial_block(view: memoryview, position: int) -> tuple[int, int]:
    start = position + _INT32.size
    try:
        (size,) = _INT32.unpack_from(view, position)
    except struct_error:
        raise CorruptRecord(
            f"the snappy block is damaged: it ends at byte {len(view)}, inside a length"
        ) from None
    if not 0 <= size <= len(view) - start:
        raise CorruptRecord(
            f"the snappy block is damaged: a part claims {size} bytes, {len(view) - start} are left"
        )
    return start, start + size


def _snappy_block(block: memoryview, room: int, limit_bytes: int) -> bytes:
    from cramjam import DecompressionError, snappy

    try:
        claimed = snappy.decompress_raw_len(block)
        if claimed > room:
            raise _too_large("snappy", limit_bytes)
        if claimed > len(block) * _SNAPPY_LARGEST_RATIO:
            raise CorruptRecord(f"the snappy block is damaged: {len(block)} bytes claim to become {claimed}")
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as damage:
        raise CorruptRecord(f"the snappy block is damaged: {damage}") from None
