"""The bytes that consumers of a group exchange. The vectors were written by the Java client of Kafka
4.3.1.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.other_clients import (
    AiokafkaAssignment,
    AiokafkaSubscription,
    KafkaPythonAssignment,
    KafkaPythonSubscription,
)

from ottla.client.requests.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_assignments,
    encode_subscription,
)
from ottla.model import TopicPartition
from ottla.protocol.codec import DecodeError

TOPICS = "000000020005617564697400066f7264657273"
OWNED = "0000000100066f7264657273000000020000000000000001"
FROM_JAVA = {
    0: f"0000{TOPICS}0000000175",
    1: f"0001{TOPICS}0000000175{OWNED}",
    2: f"0002{TOPICS}0000000175{OWNED}00000007",
    3: f"0003{TOPICS}0000000175{OWNED}00000007ffff",
}
SUBSCRIPTION = MemberSubscription(
    ("audit", "orders"), (TopicPartition("orders", 0), TopicPartition("orders", 1)), 7, b"u"
)
ASSIGNMENT = "0003000000020001610000000200000001000000020001620000000100000000ffffffff"
PARTITIONS = (TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0))


@pytest.mark.parametrize("version", FROM_JAVA)
def test_every_version_of_a_subscription_is_read(version: int) -> None:
    found = decode_subscription(bytes.fromhex(FROM_JAVA[version]))
    assert (found.topics, found.user_data) == (SUBSCRIPTION.topics, b"u")
    assert found.owned == (SUBSCRIPTION.owned if version >= 1 else ())
    assert found.generation_id == (7 if version >= 2 else -1)


def test_a_subscription_is_written_as_java_writes_it() -> None:
    assert encode_subscription(SUBSCRIPTION).hex() == FROM_JAVA[3]
    assert encode_subscription(MemberSubscription(("t",))).hex() == (
        "000300000001000174ffffffff00000000ffffffffffff"
    )


def test_the_same_topics_in_another_order_are_the_same_bytes() -> None:
    assert encode_subscription(MemberSubscription(("b", "a"))) == encode_subscription(
        MemberSubscription(("a", "b"))
    )


def test_an_assignment_is_written_and_read_as_java_does() -> None:
    assert encode_assignment(reversed(PARTITIONS)).hex() == ASSIGNMENT
    assert decode_assignment(bytes.fromhex(ASSIGNMENT)) == PARTITIONS
    assert encode_assignment([]).hex() == "000300000000ffffffff"
    assert encode_assignments({"m": []}) == {"m": encode_assignment([])}


def test_a_member_without_an_assignment_has_no_partitions() -> None:
    assert decode_assignment(b"") == ()


def test_a_version_from_the_future_is_read_as_far_as_we_know_it() -> None:
    future = bytes.fromhex("0009" + FROM_JAVA[3][4:] + "cafe")
    assert decode_subscription(future) == SUBSCRIPTION
    assert decode_assignment(bytes.fromhex("0009" + ASSIGNMENT[4:] + "cafe")) == PARTITIONS


@pytest.mark.parametrize("data", ["00", "ffff", "0003", "00037fffffff", FROM_JAVA[3][:-6]])
def test_bytes_that_are_no_subscription_are_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(bytes.fromhex(data))


@given(st.binary(max_size=60))
def test_whatever_the_bytes_nothing_but_a_decode_error_comes_out(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        with contextlib.suppress(DecodeError):
            read(data)


def test_aiokafka_reads_what_we_write_and_we_what_it_writes() -> None:
    theirs = AiokafkaSubscription.decode(encode_subscription(SUBSCRIPTION))
    assert list(theirs.subscription) == ["audit", "orders"]
    assert AiokafkaAssignment.decode(bytes.fromhex(ASSIGNMENT)).partitions() == list(PARTITIONS)
    written = AiokafkaSubscription(0, ["t"], b"").encode()
    assert decode_subscription(written) == MemberSubscription(("t",), user_data=b"")
    given_out = AiokafkaAssignment(0, [("a", [1, 2]), ("b", [0])], b"").encode()
    assert decode_assignment(given_out) == PARTITIONS


def test_kafka_python_reads_what_we_write_and_we_what_it_writes() -> None:
    theirs = KafkaPythonSubscription.decode(encode_subscription(SUBSCRIPTION))
    assert (list(theirs.topics), theirs.generation_id) == (["audit", "orders"], 7)
    assigned = KafkaPythonAssignment.decode(bytes.fromhex(ASSIGNMENT))
    assert [(each.topic, list(each.partitions)) for each in assigned.assigned_partitions] == [
        ("a", [1, 2]),
        ("b", [0]),
    ]
    assert decode_subscription(KafkaPythonSubscription(0, ["t"], b"").encode()).topics == ("t",)
