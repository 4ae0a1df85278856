"""Records that the caller has encoded go the same way as all others."""

from __future__ import annotations

import pytest
from tests.unit.client.producing import Driven, values

import ottla.testing
from ottla.blocking import Producer
from ottla.client.producer.machine.batch import Fields, RecordBlock
from ottla.client.producer.machine.batch_answers import Answer
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.errors import ErrorCode, KafkaError
from ottla.records.columns import Columns, encode_columns

HEADERS = (("name", b"content"),)


def block(contents: list[bytes], *, partition: int = 0, topic: str = "t") -> RecordBlock:
    """A block with these values; the first record has headers."""

    def fields(index: int) -> Fields:
        return contents[index], b"k%d" % index, HEADERS if index == 0 else ()

    keys: list[bytes | None] = [b"k%d" % index for index in range(len(contents))]
    encoded = encode_columns(Columns(contents, keys, {0: HEADERS}, [(0, 1_000)]))
    return RecordBlock(topic, partition, len(contents), 1_000, encoded, fields)


def test_a_block_is_a_batch_of_its_own_and_goes_at_once() -> None:
    driven = Driven()
    before = driven.append(b"before")
    driven.accumulator.append_block(driven.topic, block([b"a", b"b"]))
    after = driven.append(b"after")
    assert driven.take() == [before]
    (batch,) = driven.take()
    assert values(batch) == [b"a", b"b"]
    assert (batch.first_sequence, batch.last_sequence) == (1, 2)
    driven.now_ms += 5
    assert driven.take() == [after]


def test_a_block_is_split_where_a_broker_finds_it_too_large() -> None:
    driven = Driven()
    driven.accumulator.append_block(driven.topic, block([b"a", b"b", b"c"]))
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(ErrorCode.MESSAGE_TOO_LARGE))
    (first,) = driven.take()
    assert values(first) == [b"a"]
    driven.accumulator.answered(first, Answer(base_offset=7))
    (second,) = driven.take()
    assert values(second) == [b"b", b"c"]
    driven.accumulator.answered(second, Answer(base_offset=8))
    assert batch.outcome(2) == DeliveryReport("t", 0, 9, 1_000)


def test_a_refused_block_says_which_records_were_in_it() -> None:
    driven = Driven()
    driven.accumulator.append_block(driven.topic, block([b"a", b"b"]))
    (batch,) = driven.take()
    driven.accumulator.answered(batch, Answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    outcome = batch.outcome(0)
    assert isinstance(outcome, DeliveryError)
    (record,) = outcome.records
    assert (record.value, record.key, record.headers, record.timestamp_ms) == (b"a", b"k0", HEADERS, 1_000)


def test_a_block_for_a_partition_that_is_not_there_is_refused() -> None:
    driven = Driven(partitions=2)
    with pytest.raises(DeliveryError, match='there is no partition 2 of "t": it has 2'):
        driven.accumulator.append_block(driven.topic, block([b"a"], partition=2))


def test_a_block_larger_than_a_request_is_refused() -> None:
    driven = Driven(max_request_size=1_000)
    with pytest.raises(DeliveryError, match="max_request_size allows 1000"):
        driven.accumulator.append_block(driven.topic, block([b"x" * 1_000]))


def test_a_producer_delivers_blocks_once_it_knows_their_topic() -> None:
    with ottla.testing.broker() as broker, Producer(broker.bootstrap, compression="zstd") as producer:
        broker.create_topic("orders", 2)
        with pytest.raises(KafkaError, match='nothing is known of "orders"'):
            producer.send_block(block([b"a"], topic="orders"))
        assert producer.partitions_for("orders") == 2
        producer.send_block(block([b"%04d" % number for number in range(1_000)], topic="orders", partition=1))
        producer.flush()
        records = broker.records("orders")
        assert [record.value for record in records] == [b"%04d" % number for number in range(1_000)]
        assert {record.partition for record in records} == {1}
        assert (records[0].key, dict(records[0].headers), records[0].timestamp_ms) == (
            b"k0",
            dict(HEADERS),
            1_000,
        )
