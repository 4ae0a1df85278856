"""Reading an assigned partition from the start, the end, an offset or a time (WIRE-1, STO-7, STO-8)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.clients.catalogue import Family, families
from tests.clients.conftest import MakeTopic
from tests.clients.model import AtTime, Client, Message, RefusedError
from tests.clients.raw import StoredBatch, stored_batches

from ottla.localcluster.broker_process import BrokerProcess

TEN = [Message(f"record {n}".encode()) for n in range(10)]


@families()
def test_from_earliest_everything_comes_in_order(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, TEN)
    assert [(record.offset, record.value) for record in client.consume(topic, 10)] == [
        (n, message.value) for n, message in enumerate(TEN)
    ]


@families()
def test_from_an_offset_in_the_middle_of_a_batch_nothing_before_it_comes(
    client: Client, reference: Client, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    batch = write_a_batch_of_several(reference, broker, topic)
    middle = batch.base_offset + 1
    assert [record.offset for record in client.consume(topic, 1, start=middle)] == [middle]


def write_a_batch_of_several(reference: Client, broker: BrokerProcess, topic: str) -> StoredBatch:
    """librdkafka tears its first batch apart when it learns late which broker leads the partition; then once
    more.
    """
    while True:
        reference.produce(topic, TEN)
        for batch in stored_batches(broker.bootstrap, topic):
            if batch.records > 1:
                return batch


@families()
def test_from_latest_only_what_is_written_afterwards_comes(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, [Message(b"old")] * 10)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(client.consume, topic, 1, start="latest")
        while not reading.done():
            reference.produce(topic, [Message(b"new")])
        (record,) = reading.result()
    assert record.value == b"new"
    assert record.offset >= 10


@families()
def test_from_a_time_the_first_record_at_or_after_it_comes_first(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    start_ms = int(time.time() * 1000) - 100_000
    for n in range(5):
        reference.produce(topic, [Message(str(n).encode(), timestamp_ms=start_ms + n * 1000)])
    exactly = client.consume(topic, 1, start=AtTime(start_ms + 2000))
    between = client.consume(topic, 1, start=AtTime(start_ms + 2001))
    assert [record.offset for record in exactly + between] == [2, 3]


@families()
def test_a_consumer_that_waits_at_the_end_gets_the_next_record(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, TEN)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(client.consume, topic, 11)
        time.sleep(0.7)  # longer than any client's fetch.max.wait here: it has polled the end at least once
        reference.produce(topic, [Message(b"eleventh")])
        assert reading.result()[-1].value == b"eleventh"


@families("out_of_range_error")
def test_an_offset_beyond_the_end_is_an_error_when_the_consumer_wants_one(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, TEN)
    with pytest.raises(RefusedError) as refused:
        client.consume(topic, 1, start=1000)
    assert refused.value.code == "OFFSET_OUT_OF_RANGE"


@families("out_of_range_error")
def test_an_offset_whose_records_were_deleted_is_an_error_when_the_consumer_wants_one(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    reference.produce(topic, TEN)
    reference.delete_records(topic, 0, 4)
    with pytest.raises(RefusedError) as refused:
        client.consume(topic, 1, start=2)
    assert refused.value.code == "OFFSET_OUT_OF_RANGE"
    assert [record.offset for record in client.consume(topic, 6)] == [4, 5, 6, 7, 8, 9]


@families()
def test_a_log_of_several_segments_reads_as_one(
    client: Client, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(segment_bytes="1048576", index_interval_bytes="4096")
    messages = [Message(bytes([n % 256]) * 9000, timestamp_ms=None) for n in range(400)]
    reference.produce(topic, messages)
    assert [record.offset for record in client.consume(topic, 400)] == list(range(400))
    assert client.consume(topic, 2, start=333)[1].value == messages[334].value


@families()
def test_what_each_family_compresses_this_one_reads(
    client: Client, family: Family, reference: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for codec in family.codecs:
        reference.produce(topic, [Message(codec.encode() * 100)] * 10, codec=codec)
    values = [record.value for record in client.consume(topic, 10 * len(family.codecs))]
    assert values == [codec.encode() * 100 for codec in family.codecs for _ in range(10)]
