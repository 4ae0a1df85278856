"""Messages become exactly the bytes that the protocol says, and come back."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated
from uuid import UUID

import pytest

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Bytes,
    DecodeError,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    codec,
    decode,
    encode,
    message,
    nullable_since,
    record,
    since,
    struct,
    tag,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@message(key=90, versions=(0, 1), flexible=1)
class Scalars:
    flag: Boolean = False
    tiny: Int8 = 0
    small: Int16 = 0
    normal: Int32 = 0
    large: Int64 = 0
    port: UInt16 = 0
    checksum: UInt32 = 0
    ratio: Float64 = 0.0
    identity: Uuid = ZERO_UUID


@struct
class Leaf:
    value: Int16 = 0
    note: Annotated[String | None, tag(3, since=1)] = None


@message(key=91, versions=(0, 2), flexible=1)
class Tree:
    name: Annotated[String | None, nullable_since(1)] = ""
    leaf: Leaf | None = None
    leaves: list[Leaf] | None = field(default_factory=list)
    numbers: list[Int32] = field(default_factory=list)
    names: list[String] = field(default_factory=list)
    ids: list[Uuid] = field(default_factory=list)
    data: Bytes = b""
    late: Annotated[Int8, since(2)] = 5
    count: Annotated[Int64, tag(0, since=1)] = -1
    best: Annotated[Leaf, tag(1, since=1)] = field(default_factory=Leaf)
    owner: Annotated[Leaf | None, tag(2, since=1)] = None


@record(key=1, versions=(0, 0), flexible=None)
class OldStyle:
    text: String | None = None
    view: Records | None = None


def test_scalars_are_big_endian_one_after_the_other() -> None:
    value = Scalars(True, -1, -2, -3, -4, 65535, 2**32 - 1, 1.5, ID)
    expected = (
        "01 ff fffe fffffffd fffffffffffffffc ffff ffffffff 3ff8000000000000 00112233445566778899aabbccddeeff"
    )
    assert encode(value, 0) == bytes.fromhex(expected)
    assert encode(value, 1) == bytes.fromhex(expected + "00")
    assert decode(Scalars, encode(value, 1), 1) == value


def test_an_old_version_has_fixed_lengths() -> None:
    value = Tree("ab", None, [Leaf(1)], [7], ["c"], [ID], b"xyz")
    expected = (
        "0002 6162  ff  00000001 0001  00000001 00000007  00000001 0001 63"
        f"  00000001 {ID.hex}  00000003 78797a"
    )
    assert encode(value, 0) == bytes.fromhex(expected)


def test_a_flexible_version_has_compact_lengths_and_a_section_of_tags() -> None:
    value = Tree("ab", Leaf(9), [Leaf(1)], [7], ["c"], [ID], b"xyz")
    expected = f"03 6162  01 0009 00  02 0001 00  02 00000007  02 02 63  02 {ID.hex}  04 78797a  00"
    assert encode(value, 1) == bytes.fromhex(expected)


def test_tagged_fields_are_written_in_order_and_only_if_not_default() -> None:
    value = Tree(late=0, count=2, best=Leaf(4, "é"), owner=Leaf(5))
    plain = "01 ff 01 01 01 01 01 00"
    tags = "03  00 08 0000000000000002  01 08 0004 01 03 03 03 c3a9  02 04 01 0005 00"
    assert encode(value, 2) == bytes.fromhex(plain + tags)
    assert decode(Tree, encode(value, 2), 2) == value


def test_null_has_the_length_minus_one_or_compact_zero() -> None:
    assert encode(OldStyle(), 0) == bytes.fromhex("ffff ffffffff")
    assert decode(OldStyle, bytes.fromhex("ffff ffffffff"), 0) == OldStyle()
    assert encode(Tree(name=None, leaves=None), 1).startswith(bytes.fromhex("00 ff 00"))


def test_fields_that_a_version_lacks_are_not_written_and_read_as_default() -> None:
    value = Tree(late=9, count=3, owner=Leaf(1))
    assert decode(Tree, encode(value, 0), 0) == Tree()


def test_lists_and_structs_of_absent_fields_are_never_shared() -> None:
    first, second = (decode(Tree, encode(Tree(), 0), 0) for _ in range(2))
    assert first.best is not second.best
    assert first.leaves is not second.leaves


def test_unknown_tags_are_skipped() -> None:
    data = encode(Scalars(tiny=3), 1)[:-1] + bytes.fromhex("02  00 02 abcd  8f4e 00")
    assert decode(Scalars, data, 1) == Scalars(tiny=3)
    data = encode(Tree(), 1)[:-1] + bytes.fromhex("02  00 08 0000000000000002  09 01 ff")
    assert decode(Tree, data, 1) == Tree(count=2)


def test_a_tag_of_another_version_is_unknown() -> None:
    assert decode(Tree, encode(Tree(name="x"), 1)[:-1] + bytes.fromhex("01  05 01 00"), 1) == Tree(name="x")


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16382, 16383, 16384, 2**21])
def test_compact_lengths_of_every_size_are_read_back(length: int) -> None:
    value = ProduceRequest(
        "t" * min(length, 5000), topic_data=[TopicProduceData("n", partition_data=[])] * 200
    )
    value.topic_data[0] = TopicProduceData(
        "x", partition_data=[PartitionProduceData(1, memoryview(bytes(length)))]
    )
    assert decode(ProduceRequest, encode(value, 9), 9) == value
    assert decode(ProduceRequest, encode(value, 8), 8) == value


def test_records_and_bytes_are_views_of_the_input() -> None:
    data = encode(OldStyle("a", memoryview(b"records")), 0)
    read = decode(OldStyle, data, 0)
    assert isinstance(read.view, memoryview)
    read.view[0] = ord("R")
    assert bytes(data).endswith(b"Records")


def test_reading_starts_anywhere_and_tells_where_it_ended() -> None:
    data = b"head" + encode(Tree("ab"), 1) + b"tail"
    assert codec(Tree, 1).read(memoryview(data), 4) == (Tree("ab"), len(data) - 4)


def test_bytes_left_over_are_refused() -> None:
    with pytest.raises(DecodeError, match="1 bytes are left over"):
        decode(Tree, encode(Tree(), 1) + b"?", 1)


def test_a_version_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="Tree has the versions 0 to 2, not 3"):
        codec(Tree, 3)
    with pytest.raises(DecodeError, match="Tree has the versions 0 to 2, not -1"):
        decode(Tree, b"", -1)


def test_a_codec_is_compiled_once() -> None:
    assert codec(Tree, 1) is codec(Tree, 1)


@pytest.mark.parametrize(
    ("value", "version", "message"),
    [
        (Tree(name=None), 0, "Tree v0: name may not be null"),
        (Tree(names=["a", 3]), 1, r"Tree v1: names\[1\] must be a string, not int"),  # type: ignore[list-item]
        (Tree(numbers=[1, 2**31]), 1, r"Tree v1: numbers\[1\] must be an int32, not 2147483648"),
        (Tree(numbers=None), 1, "Tree v1: numbers may not be null"),  # type: ignore[arg-type]
        (Tree(leaves=[Leaf(1), Leaf(99999)]), 1, r"Tree v1: leaves\[1\].value must be an int16, not 99999"),
        (Tree(leaves=[Scalars()]), 1, r"Tree v1: leaves\[0\] must be a Leaf, not Scalars"),  # type: ignore[list-item]
        (Tree(leaves=3), 1, "Tree v1: leaves must be a list, not int"),  # type: ignore[arg-type]
        (Tree(best=None), 1, "Tree v1: best may not be null"),  # type: ignore[arg-type]
        (Tree(best=Leaf(2**15)), 1, "Tree v1: best.value must be an int16, not 32768"),
        (Tree(ids=["no"]), 1, r"Tree v1: ids\[0\] must be a UUID, not str"),  # type: ignore[list-item]
        (Tree(data="no"), 1, "Tree v1: data must be bytes, not str"),  # type: ignore[arg-type]
        (Tree(name="\ud800"), 1, "Tree v1: name cannot be written as UTF-8"),
        (Tree(name="x" * 32768), 0, "Tree v0: name is longer than 32767 bytes"),
        (Scalars(identity=None), 0, "Scalars v0: identity may not be null"),  # type: ignore[arg-type]
        (Scalars(ratio="x"), 0, "Scalars v0: ratio must be an float64, not 'x'"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value.split(":")[1].strip()[:30] if isinstance(value, str) else None,
)
def test_a_value_that_does_not_fit_is_named(value: object, version: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(value, version)


def test_writing_another_class_is_refused() -> None:
    with pytest.raises(ValueError, match="Tree v1: cannot write a Leaf"):
        codec(Tree, 1).write(Leaf(), bytearray())  # type: ignore[arg-type]
