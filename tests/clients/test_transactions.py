"""Transactions of unmodified clients: what is committed is read, what is aborted is not, and offsets go with it
(EOS-1, EOS-2, EOS-3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import kafka
import pytest
from tests.clients.conftest import MakeTopic

from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until

DEADLINE_S = 20.0


def confluent_producer(broker: BrokerProcess, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def confluent_consumer(
    broker: BrokerProcess, group: str, isolation: str = "read_committed"
) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )


def values(consumer: confluent_kafka.Consumer, count: int) -> list[bytes]:
    """The next records of a consumer that has partitions."""
    got: list[bytes] = []

    def has_enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            got.append(message.value())
        return len(got) >= count

    wait_until(has_enough, f"{count} records come", DEADLINE_S)
    return got


@pytest.fixture
def name(topic_name: str) -> str:
    return f"id-{topic_name}"


@pytest.fixture
def committed(broker: BrokerProcess, topic_name: str) -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_consumer(broker, f"committed-{topic_name}")
    yield consumer
    consumer.close()


def test_confluent_reads_what_confluent_committed(
    broker: BrokerProcess, make_topic: MakeTopic, name: str, committed: confluent_kafka.Consumer
) -> None:
    topic = make_topic(2)
    producer = confluent_producer(broker, name)
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, f"{number}-{partition}".encode(), partition=partition)
        # Records that are not sent yet would not be sent for an abort.
        assert producer.flush(DEADLINE_S) == 0
        if number % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    committed.subscribe([topic])
    got = values(committed, 6)
    assert sorted(got) == sorted(
        f"{number}-{partition}".encode() for number in (0, 2, 4) for partition in (0, 1)
    )
    reader = confluent_consumer(broker, f"all-{topic}", "read_uncommitted")
    reader.subscribe([topic])
    assert len(values(reader, 12)) == 12
    reader.close()


def test_a_second_producer_with_the_same_id_fences_the_first(
    broker: BrokerProcess, make_topic: MakeTopic, name: str, committed: confluent_kafka.Consumer
) -> None:
    topic = make_topic()
    first = confluent_producer(broker, name)
    first.begin_transaction()
    first.produce(topic, b"of the first")
    first.flush(DEADLINE_S)
    second = confluent_producer(broker, name)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        first.commit_transaction(DEADLINE_S)
    assert caught.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"of the second")
    second.commit_transaction(DEADLINE_S)
    committed.subscribe([topic])
    assert values(committed, 1) == [b"of the second"]


def test_offsets_are_committed_with_the_transaction(
    broker: BrokerProcess, make_topic: MakeTopic, name: str, committed: confluent_kafka.Consumer
) -> None:
    topic = make_topic(2)
    producer = confluent_producer(broker, name)
    producer.begin_transaction()
    producer.produce(topic, b"in", partition=0)
    producer.commit_transaction(DEADLINE_S)
    committed.subscribe([topic])
    assert values(committed, 1) == [b"in"]
    place = confluent_kafka.TopicPartition(topic, 0)

    def offset() -> int:
        return int(committed.committed([place], DEADLINE_S)[0].offset)

    for commits in (False, True):
        producer.begin_transaction()
        producer.produce(topic, b"out", partition=1)
        read = [confluent_kafka.TopicPartition(topic, 0, 1)]
        producer.send_offsets_to_transaction(read, committed.consumer_group_metadata(), DEADLINE_S)
        if commits:
            producer.commit_transaction(DEADLINE_S)
            wait_until(lambda: offset() == 1, "the offset is committed", DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
            assert offset() == confluent_kafka.OFFSET_INVALID
    assert values(committed, 1) == [b"out"]


def test_aiokafka_transforms_exactly_once(broker: BrokerProcess, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(2)

    async def scenario() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        place = aiokafka.TopicPartition(topic, 0)
        await producer.start()
        await consumer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"in", partition=0)
            consumer.subscribe([topic])
            assert (await consumer.getone()).value == b"in"
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"never", partition=1)
            await producer.send_offsets_to_transaction({place: 1}, name)
            await producer.abort_transaction()
            assert await consumer.committed(place) is None
            async with producer.transaction():
                await producer.send_and_wait(topic, b"out", partition=1)
                await producer.send_offsets_to_transaction({place: 1}, name)
            assert (await consumer.getone()).value == b"out"
            assert await consumer.committed(place) == 1
        finally:
            await consumer.stop()
            await producer.stop()

    asyncio.run(asyncio.wait_for(scenario(), 3 * DEADLINE_S))


def test_kafka_python_commits_and_aborts(
    broker: BrokerProcess, make_topic: MakeTopic, name: str, committed: confluent_kafka.Consumer
) -> None:
    topic = make_topic(1)
    partition = kafka.TopicPartition(topic, 0)
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number).get(DEADLINE_S)
        offsets = {partition: kafka.OffsetAndMetadata(number + 1, "", -1)}
        producer.send_offsets_to_transaction(offsets, kafka.ConsumerGroupMetadata(name))
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    committed.subscribe([topic])
    assert values(committed, 2) == [b"1", b"3"]
    reader = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=2_000,
    )
    assert [record.value for record in reader] == [b"1", b"3"]
    reader.close()
    group = confluent_consumer(broker, name)
    (place,) = group.committed([confluent_kafka.TopicPartition(topic, 0)], DEADLINE_S)
    group.close()
    assert place.offset == 4
