"""The records of __consumer_offsets: Kafka's bytes, and nothing else gets in (GRP-3)."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    group_record,
    offset_record,
)
from ottla.protocol.codec import DecodeError, encode

# Taken from a partition of __consumer_offsets that Apache Kafka 4.3 wrote.
KAFKAS_OFFSET_KEY = bytes.fromhex("0001000673696d706c6500017400000000")


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    value = OffsetCommitValue(5, 2, "m", 1_000)
    record = offset_record("simple", "t", 0, value)
    assert record.key == KAFKAS_OFFSET_KEY
    assert record.value == bytes.fromhex("0004 0000000000000005 00000002 026d 00000000000003e8 00")
    assert decode_record(*record) == (OffsetCommitKey("simple", "t", 0), value)


def test_an_offset_with_an_expiry_of_its_own_is_written_in_the_only_version_that_has_one() -> None:
    value = OffsetCommitValue(5, -1, "m", 1_000, 2_000)
    record = offset_record("simple", "t", 0, value)
    assert record.value == bytes.fromhex("0001 0000000000000005 00016d 00000000000003e8 00000000000007d0")
    assert decode_record(*record) == (OffsetCommitKey("simple", "t", 0), value)


def test_a_topic_id_is_kept() -> None:
    value = OffsetCommitValue(5, topic_id=UUID(int=9))
    decoded = decode_record(*offset_record("g", "t", 0, value))
    assert decoded is not None
    assert decoded[1].topic_id == UUID(int=9)


def test_a_group_is_written_as_kafka_writes_it() -> None:
    member = MemberMetadata("m", "i", "c", "/h", 60_000, 10_000, b"s", b"a")
    value = GroupMetadataValue("consumer", 3, "range", "m", 1_000, [member])
    record = group_record("g", value)
    assert record.key == bytes.fromhex("0002 0001 67")
    assert record.value is not None
    assert record.value[:2] == b"\0\3"
    assert decode_record(*record) == (GroupMetadataKey("g"), value)


@pytest.mark.parametrize("version", range(5))
def test_all_versions_of_both_values_are_read(version: int) -> None:
    prefix = version.to_bytes(2, "big")
    offset = decode_record(KAFKAS_OFFSET_KEY, prefix + encode(OffsetCommitValue(7), version))
    assert offset is not None
    assert offset[1].offset == 7
    group = decode_record(b"\0\2\0\1g", prefix + encode(GroupMetadataValue(generation=7), version))
    assert group is not None
    assert group[1].generation == 7


def test_the_oldest_offsets_are_read_as_the_newer_ones() -> None:
    legacy = b"\0\0" + KAFKAS_OFFSET_KEY[2:]
    assert decode_record(legacy, None) == (OffsetCommitKey("simple", "t", 0), None)


def test_tombstones_have_no_value() -> None:
    assert offset_record("g", "t", 0, None).value is group_record("g", None).value is None
    assert decode_record(*group_record("g", None)) == (GroupMetadataKey("g"), None)


def test_records_of_other_kinds_of_groups_are_passed_over() -> None:
    assert decode_record(b"\0\3\0\1g", b"\0\0anything") is None
    assert decode_record(b"\x7f\xff", None) is None
    assert decode_record(None, b"x") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (KAFKAS_OFFSET_KEY[:-1], None),
        (KAFKAS_OFFSET_KEY + b"\0", None),
        (KAFKAS_OFFSET_KEY, b""),
        (KAFKAS_OFFSET_KEY, b"\0\5"),
        (KAFKAS_OFFSET_KEY, b"\xff\xff"),
        (KAFKAS_OFFSET_KEY, b"\0\4" + bytes(3)),
    ],
)
def test_damage_is_named(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_damage(key: bytes, value: bytes | None) -> None:
    with suppress(DecodeError):
        decode_record(key, value)
