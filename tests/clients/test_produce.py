"""What real producers write is what is stored: codecs, acks, keys, headers, sizes, sequences (WIRE-1, WIRE-4,
PRO-4).
"""

from __future__ import annotations

import os
import time

import pytest
from tests.clients.catalogue import Family, families, family_codecs
from tests.clients.conftest import MakeTopic
from tests.clients.model import Acks, Client, Codec, Message, Received
from tests.clients.raw import stored_batches

from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until

REPETITIVE = [Message(b"ottla " * 200 + str(n).encode(), f"key {n}".encode()) for n in range(30)]


def values(records: list[Received]) -> list[bytes | None]:
    return [record.value for record in records]


@family_codecs()
def test_a_batch_is_stored_with_the_codec_its_producer_chose(
    client: Client,
    family: Family,
    codec: Codec,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    reference: Client,
) -> None:
    topic = make_topic()
    client.produce(topic, REPETITIVE, codec=codec)
    stored = stored_batches(broker.bootstrap, topic)
    assert {batch.codec for batch in stored} == {codec}
    assert sum(batch.records for batch in stored) == len(REPETITIVE)
    written = sum(len(message.value or b"") for message in REPETITIVE)
    assert (sum(batch.size_bytes for batch in stored) < written / 2) == (codec != "none")
    assert values(client.consume(topic, len(REPETITIVE))) == [message.value for message in REPETITIVE]
    assert values(reference.consume(topic, len(REPETITIVE), start=0)) == [
        message.value for message in REPETITIVE
    ]


@families()
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_whatever_acknowledgement_was_asked_for(
    client: Client, acks: Acks, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    messages = [Message(f"record {n}".encode()) for n in range(10)]
    receipts = client.produce(topic, messages, acks=acks)
    assert [receipt.offset for receipt in receipts] == ([] if acks == "0" else list(range(10)))
    received = client.consume(topic, 10)
    assert [(record.offset, record.value) for record in received] == [
        (n, message.value) for n, message in enumerate(messages)
    ]


@families()
def test_keys_values_and_headers_come_back_as_written_also_when_null_or_empty(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    messages = [
        Message(b"plain"),
        Message(b"keyed", b"key"),
        Message(None, b"tombstone"),
        Message(b"", b"empty"),
        Message(b"headed", b"key", (("first", b"1"), ("second", b"two"))),
        Message("žluťoučký kůň".encode(), "klíč".encode()),
    ]
    client.produce(topic, messages)
    received = client.consume(topic, len(messages))
    assert [(record.key, record.value, record.headers) for record in received] == [
        (message.key, message.value, message.headers) for message in messages
    ]


@families("null_headers")
def test_a_header_may_be_null(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client.produce(topic, [Message(b"value", None, (("present", b""), ("absent", None)))])
    assert client.consume(topic, 1)[0].headers == (("present", b""), ("absent", None))


@families("timestamps")
def test_a_record_keeps_the_time_its_producer_gave_it(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic()
    now_ms = int(time.time() * 1000)
    times = [now_ms - 5000, now_ms - 9000, now_ms]
    client.produce(topic, [Message(b"timed", timestamp_ms=when) for when in times])
    assert [record.timestamp_ms for record in client.consume(topic, 3)] == times


@families("admin", "timestamps")
def test_under_log_append_time_the_broker_sets_the_time(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    client.produce(topic, [Message(b"timed", timestamp_ms=before_ms - 60_000)])
    (record,) = client.consume(topic, 1)
    assert before_ms <= record.timestamp_ms <= int(time.time() * 1000)


@families()
def test_a_record_of_almost_a_mebibyte_passes_with_the_default_limits(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    big = os.urandom(1000).hex().encode() * 450
    client.produce(topic, [Message(b"before"), Message(big), Message(b"after")])
    assert values(client.consume(topic, 3)) == [b"before", big, b"after"]


@families()
def test_a_record_of_five_mebibytes_passes_when_the_topic_allows_it(
    client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="8000000")
    big = os.urandom(1000).hex().encode() * 2500
    client.produce(topic, [Message(big)])
    assert values(client.consume(topic, 1)) == [big]


@families("idempotence")
def test_idempotent_batches_carry_their_producer_and_sequence(
    client: Client, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    messages = [Message(f"{n} ".encode() * 400) for n in range(120)]
    client.produce(topic, messages, idempotent=True)
    stored = stored_batches(broker.bootstrap, topic)
    assert len({batch.producer_id for batch in stored}) == 1
    assert stored[0].producer_id >= 0
    assert {batch.producer_epoch for batch in stored} == {0}
    assert [batch.base_sequence for batch in stored] == [batch.base_offset for batch in stored]
    assert values(client.consume(topic, len(messages))) == [message.value for message in messages]


@families("idempotence")
def test_two_idempotent_producers_have_two_ids(
    client: Client, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.produce(topic, [Message(b"first")], idempotent=True)
    client.produce(topic, [Message(b"second")], idempotent=True)
    stored = stored_batches(broker.bootstrap, topic)
    assert len({batch.producer_id for batch in stored}) == 2
    assert [batch.base_sequence for batch in stored] == [0, 0]


@families()
def test_a_batch_without_idempotence_names_no_producer(
    client: Client, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.produce(topic, [Message(b"anonymous")])
    (batch,) = stored_batches(broker.bootstrap, topic)
    assert batch.producer_id == -1  # epoch and sequence mean nothing then: aiokafka and kafkajs write 0 there


@families()
def test_writing_to_an_unknown_topic_creates_it_by_default(
    client: Client, reference: Client, topic_name: str
) -> None:
    client.produce(topic_name, [Message(b"first")])
    assert values(reference.consume(topic_name, 1, start=0)) == [b"first"]


@families()
def test_every_partition_counts_its_own_offsets(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    for partition in (2, 0, 2, 1, 2):
        client.produce(topic, [Message(str(partition).encode())], partition=partition)
    ends = {partition: reference.list_offset(topic, partition, "latest") for partition in range(3)}
    assert ends == {0: 1, 1: 1, 2: 3}
    assert values(client.consume(topic, 3, partition=2)) == [b"2", b"2", b"2"]


@families()
def test_records_with_acks_0_are_there_soon_after(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.produce(topic, [Message(b"unanswered")] * 5, acks="0")
    wait_until(
        lambda: reference.list_offset(topic, 0, "latest") == 5, "five records without an answer are stored"
    )
