"""A key has the same partition with every producer: ours and those that hash as Java's does (PRO-1).

Not librdkafka: it hashes with CRC32 unless told otherwise.
"""

from __future__ import annotations

import random

import pytest
from tests.clients.catalogue import FAMILIES
from tests.clients.conftest import MakeTopic
from tests.clients.families.ottla_family import OttlaClient
from tests.clients.model import Client, Message
from tests.clients.test_scenarios import read_all

from ottla.localcluster.broker_process import BrokerProcess

PARTITIONS = 13  # prime: a wrong bit anywhere in the hash shows
LIKE_JAVA = ("java", "kafkajs", "franz-go", "aiokafka", "kafka-python")


def keys() -> list[bytes]:
    """Of every length up to 40, of any bytes and of text: each tail of the hash's four-byte steps, high bits
    too.
    """
    drawn = random.Random(5)
    return [
        b"",
        *(drawn.randbytes(size) for size in range(1, 41) for _ in range(3)),
        *(f"table {number}".encode() for number in range(50)),
        *(text.encode() for text in ("žluťoučký kůň", "注文", "\N{HOT BEVERAGE}")),
    ]


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=family.name, marks=() if family.from_pypi else (pytest.mark.compat,))
        for family in FAMILIES
        if family.name in LIKE_JAVA
    ],
)
def test_a_key_goes_where_the_other_client_puts_it(
    client: Client, reference: Client, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(PARTITIONS)
    messages = [Message(b"", key) for key in keys()]
    client.produce(topic, messages, partition=None)
    theirs = {
        record.key: partition
        for partition, records in read_all(reference, topic, PARTITIONS).items()
        for record in records
    }
    receipts = OttlaClient(broker.bootstrap).produce(topic, messages, partition=None)
    ours = {message.key: receipt.partition for message, receipt in zip(messages, receipts, strict=True)}
    assert ours == theirs
    assert set(ours.values()) == set(range(PARTITIONS))
