"""The records of __transaction_state: Kafka's bytes, and nothing else gets in."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.codec import DecodeError
from ottla.transaction.records import (
    PartitionsSchema,
    TransactionLogValue,
    decode_record,
    transaction_record,
)

VALUE = TransactionLogValue(
    producer_id=7,
    producer_epoch=3,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema("t", [0, 2])],
    transaction_last_update_timestamp_ms=2_000,
    transaction_start_timestamp_ms=1_000,
)


def test_a_value_without_tags_is_written_as_kafka_writes_it() -> None:
    record = transaction_record("id", VALUE, version=0)
    assert record.key == bytes.fromhex("0000 0002 6964")
    assert record.value == bytes.fromhex(
        "0000 0000000000000007 0003 0000ea60 01 00000001 0001 74 00000002 00000000 00000002"
        "00000000000007d0 00000000000003e8"
    )
    assert decode_record(*record) == ("id", VALUE)


def test_the_flexible_value_keeps_what_only_it_has() -> None:
    value = TransactionLogValue(
        producer_id=7,
        previous_producer_id=5,
        next_producer_id=9,
        transaction_partitions=None,
        client_transaction_version=2,
    )
    record = transaction_record("id", value)
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert decode_record(*record) == ("id", value)


def test_a_tombstone_has_no_value() -> None:
    assert decode_record(*transaction_record("id", None)) == ("id", None)


def test_records_of_other_kinds_are_passed_over() -> None:
    assert decode_record(b"\0\1\0\1g", b"\0\0anything") is None
    assert decode_record(None, b"x") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0\0\0\5id", None),
        (b"\0\0\0\2id", b""),
        (b"\0\0\0\2id", b"\0\2"),
        (b"\0\0\0\2idx", None),
    ],
)
def test_a_damaged_record_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes | None) -> None:
    with suppress(DecodeError):
        decode_record(b"\0\0" + key, value)
