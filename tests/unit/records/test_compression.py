"""The codecs: what they read, what they write, and what they refuse (WIRE-4)."""

import gzip
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from struct import pack

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.compression import Compression, compress, compression_of, decompress
from ottla.records.corruption import CorruptRecord

CODECS = list(Compression)
PACKING = CODECS[1:]
MIB = 1 << 20
JSON = b"".join(b'{"order": %d, "city": "Prague", "amount": %d}' % (n, n * 7) for n in range(5000))
payloads = st.binary(max_size=2000) | st.integers(0, 200_000).map(lambda size: (JSON + bytes(100_000))[:size])


@pytest.mark.parametrize("codec", CODECS)
@given(data=payloads)
def test_what_was_compressed_comes_back(codec: Compression, data: bytes) -> None:
    for form in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, compress(codec, form)) == data


def test_others_read_what_we_write() -> None:
    assert gzip.decompress(compress(Compression.GZIP, JSON)) == JSON
    assert aiokafka_codec.snappy_decode(compress(Compression.SNAPPY, JSON)) == JSON
    assert aiokafka_codec.lz4_decode(compress(Compression.LZ4, JSON)) == JSON
    assert aiokafka_codec.zstd_decode(compress(Compression.ZSTD, JSON)) == JSON


def test_what_others_make_the_same_way_each_time_is_made_by_us_byte_for_byte() -> None:
    assert compress(Compression.SNAPPY, JSON) == aiokafka_codec.snappy_encode(JSON)
    assert compress(Compression.LZ4, JSON, level=9) == aiokafka_codec.lz4_encode(JSON)
    assert compress(Compression.ZSTD, JSON) == aiokafka_codec.zstd_encode(JSON)


def test_snappy_is_read_raw_too() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(JSON))) == JSON


def test_a_framed_snappy_block_without_parts_is_empty() -> None:
    assert decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"")) == b""


def test_gzip_members_are_joined() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_zstd_frames_and_lz4_frames_are_joined() -> None:
    for codec in (Compression.ZSTD, Compression.LZ4):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two")) == b"one two"


def test_a_level_trades_time_for_size() -> None:
    for codec, fast, slow in ((Compression.GZIP, 1, 9), (Compression.LZ4, 0, 9)):
        assert len(compress(codec, JSON, fast)) > len(compress(codec, JSON, slow))


def test_repetitive_json_becomes_a_seventh_with_gzip() -> None:
    """CHK-6."""
    assert len(compress(Compression.GZIP, JSON)) < 0.15 * len(JSON)


def test_lz4_blocks_stand_alone_as_java_wants_them() -> None:
    flags = compress(Compression.LZ4, JSON)[4]
    assert flags & 0x20, "linked blocks are more than Java's reader can do"
    assert not flags & 0x04, "no content checksum"


@pytest.mark.parametrize("codec", PACKING)
def test_the_limit_may_be_reached_but_not_passed(codec: Compression) -> None:
    packed = compress(codec, JSON)
    assert decompress(codec, packed, len(JSON)) == JSON
    with pytest.raises(CorruptRecord, match=f"larger than the limit of {len(JSON) - 1} bytes"):
        decompress(codec, packed, len(JSON) - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_is_refused_without_its_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match="larger than the limit"):
            decompress(codec, bomb, MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * MIB


def test_a_snappy_block_that_claims_gigabytes_is_refused_without_them() -> None:
    claim = b"\xff\xff\xff\xff\x07" + b"\0" * 10
    with pytest.raises(CorruptRecord, match="larger than the limit"):
        decompress(Compression.SNAPPY, claim)
    claim = b"\x80\x80\x80\x20" + b"\0" * 10
    with pytest.raises(CorruptRecord, match="14 bytes claim to become 67108864"):
        decompress(Compression.SNAPPY, claim)


@pytest.mark.parametrize("codec", PACKING)
@given(data=st.data())
def test_damage_is_corrupt_or_does_no_harm(codec: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, JSON[: data.draw(st.integers(1, 5000))]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(0, len(packed))) :]
    with suppress(CorruptRecord):
        assert len(decompress(codec, packed, MIB)) <= MIB


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_block_that_ends_too_early_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, JSON[:3000])
    for size in range(len(packed)):
        with pytest.raises(CorruptRecord, match="damaged"):
            decompress(codec, packed[:size])


@pytest.mark.parametrize(
    "tail", [b"\0", b"\0\0\0\x09tooshort", pack(">i", -1), pack(">i", 1 << 30), b"\0\0\0\1\xff"]
)
def test_a_damaged_snappy_frame_is_corrupt(tail: bytes) -> None:
    with pytest.raises(CorruptRecord, match="snappy block is damaged"):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, JSON) + tail)


def test_a_cut_snappy_frame_header_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="no xerial header"):
        decompress(Compression.SNAPPY, b"\x82SNAPPY\0\0\0")


@pytest.mark.parametrize("number", [5, 6, 7, -1])
def test_a_codec_number_that_does_not_exist_is_corrupt(number: int) -> None:
    with pytest.raises(CorruptRecord, match=f"codec {number} does not exist"):
        compression_of(number)


def test_nothing_is_loaded_for_batches_that_are_not_opened() -> None:
    program = (
        "import sys, ottla.records.batch, ottla.records.builder, ottla.records.control\n"
        "from ottla.records.compression import Compression, compress\n"
        "compress(Compression.GZIP, b'x')\n"
        "print('cramjam' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
