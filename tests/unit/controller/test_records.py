"""Metadata records: Kafka's frame around Kafka's records, and a clear refusal of everything else."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.records import (
    RECORD_TYPES,
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)
from ottla.protocol.codec import DecodeError

TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")


def test_a_topic_record_has_the_bytes_that_kafka_writes() -> None:
    expected = "01 02 00  04 666f6f  0123456789abcdef0123456789abcdef  00"
    assert encode_record(TopicRecord("foo", TOPIC_ID)) == bytes.fromhex(expected)


def test_a_partition_record_has_the_bytes_that_kafka_writes() -> None:
    record = PartitionRecord(
        partition_id=1,
        topic_id=TOPIC_ID,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[TOPIC_ID],
        eligible_leader_replicas=[2],
    )
    expected = (
        "01 03 02  00000001  0123456789abcdef0123456789abcdef  02 00000001  02 00000001  01  01"
        "  00000001  00000000  00000000  02 0123456789abcdef0123456789abcdef  01 01 05 02 00000002"
    )
    assert encode_record(record) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    "record",
    [
        RegisterBrokerRecord(
            1,
            False,
            TOPIC_ID,
            7,
            [BrokerEndpoint("PLAINTEXT", "localhost", 65535, 0)],
            rack="r",
            fenced=False,
        ),
        UnregisterBrokerRecord(1, 7),
        PartitionChangeRecord(3, TOPIC_ID, isr=[], leader=-1),
        PartitionChangeRecord(3, TOPIC_ID),
        PartitionChangeRecord(
            3, TOPIC_ID, directories=[TOPIC_ID], eligible_leader_replicas=[], last_known_elr=[4]
        ),
        ConfigRecord(2, "foo", "retention.ms", None),
        RemoveTopicRecord(TOPIC_ID),
        FeatureLevelRecord("metadata.version", 14),
        ProducerIdsRecord(1, 7, 2000),
        BrokerRegistrationChangeRecord(1, 7, fenced=1, in_controlled_shutdown=1),
        AccessControlEntryRecord(TOPIC_ID, 2, "foo", 4, "User:alice", "*", 3, 3),
        RemoveAccessControlEntryRecord(TOPIC_ID),
        NoOpRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_is_written_reads_back(record: Any) -> None:
    assert decode_record(encode_record(record)) == record
    assert decode_record(memoryview(encode_record(record))) == record


@pytest.mark.parametrize("key", sorted(RECORD_TYPES))
def test_every_type_of_record_can_be_written_with_its_defaults(key: int) -> None:
    record = RECORD_TYPES[key]()
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "ends within its header"),
        (b"\x01", "ends within its header"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "the type 99"),
        (b"\x01\x02\x05", "versions 0 to 0, not 5"),
        (b"\xff" * 9, "ends within its header"),
        (encode_record(NoOpRecord()) + b"x", "1 bytes follow"),
        (encode_record(TopicRecord("foo", TOPIC_ID))[:-4], "."),
    ],
)
def test_a_value_that_is_no_known_record_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_record(value)


@given(st.binary(max_size=80))
def test_no_bytes_do_anything_but_decode_or_be_refused(value: bytes) -> None:
    for start in (b"", b"\x01\x00\x01", b"\x01\x03\x00"):
        with suppress(DecodeError):
            decode_record(start + value)
