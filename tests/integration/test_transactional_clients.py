"""Our clients' transactions on Ottla and on Apache Kafka, in both protocols (EOS-1, EOS-2, EOS-3, GRP-5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.conftest import start

import ottla
import ottla.blocking
from ottla.client.consumer.plan.settings import IsolationLevel
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.connection import Connection

_SAFE_DOWNGRADE = 2
TOPICS = iter(range(1_000))


@pytest.fixture(scope="module")
def node(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
    with running(start(target, tmp_path_factory.mktemp("transactions") / "data", settings)) as process:
        yield process


@pytest.fixture(scope="module", params=[2, 1])
def version(request: pytest.FixtureRequest, node: BrokerProcess) -> int:
    level: int = request.param

    async def finalise() -> None:
        async with await Connection.open("localhost", node.port) as connection:
            update = FeatureUpdateKey("transaction.version", level, upgrade_type=_SAFE_DOWNGRADE)
            response: UpdateFeaturesResponse = await connection.ask(
                UpdateFeaturesRequest(feature_updates=[update])
            )
            assert response.error_code == 0, response

    if level != 2:
        asyncio.run(finalise())
    return level


@pytest.fixture
def bootstrap(node: BrokerProcess, version: int) -> str:
    return f"localhost:{node.port}"


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"transactions-{next(TOPICS)}"
    with ottla.blocking.Admin(bootstrap) as admin:
        ottla.succeeded(admin.create_topics([ottla.NewTopic(name, 2)]))
    return name


async def read(bootstrap: str, topic: str, isolation_level: IsolationLevel) -> list[bytes | None]:
    """All values up to the end as it is now, and see that the position gets there."""
    partitions = [ottla.TopicPartition(topic, index) for index in range(2)]
    async with ottla.Consumer(
        bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        values: list[bytes | None] = []
        async with asyncio.timeout(30):
            while not values or any((await consumer.lag()).values()):
                values += [record.value for record in await consumer.poll(timeout_ms=200)]
        return values


async def aborted(producer: ottla.Producer, topic: str, value: bytes) -> None:
    async with producer.transaction():
        await producer.send(topic, value, partition=0)
        raise KeyError(value)


def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap: str, topic: str) -> None:
    async def body() -> None:
        async with ottla.Producer(bootstrap, transactional_id=topic) as producer:
            for number in range(5):
                async with producer.transaction():
                    for partition in range(2):
                        producer.send_soon(topic, b"%d" % number, partition=partition)
                with pytest.raises(KeyError):
                    await aborted(producer, topic, b"aborted")
        assert Counter(await read(bootstrap, topic, "read_committed")) == Counter(
            [b"%d" % n for n in range(5)] * 2
        )
        assert (await read(bootstrap, topic, "read_uncommitted")).count(b"aborted") == 5

    asyncio.run(body())


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(bootstrap: str, topic: str) -> None:
    async def write_twice(first: ottla.Producer) -> None:
        async with first.transaction():
            await first.send(topic, b"zombie", partition=0)
            async with ottla.Producer(bootstrap, transactional_id=topic) as second, second.transaction():
                await second.send(topic, b"heir", partition=0)
            await first.send(topic, b"zombie", partition=1)

    async def body() -> None:
        async with ottla.Producer(bootstrap, transactional_id=topic) as first:
            with pytest.raises(ottla.ProducerFencedError):
                await write_twice(first)
            with pytest.raises(ottla.ProducerFencedError):
                await aborted(first, topic, b"again")
        assert await read(bootstrap, topic, "read_committed") == [b"heir"]

    asyncio.run(body())


def test_offsets_are_committed_with_the_transaction_or_not_at_all(bootstrap: str, topic: str) -> None:
    first = ottla.TopicPartition(topic, 0)

    async def consume(producer: ottla.Producer, consumer: ottla.Consumer, *, fails: bool) -> None:
        async with producer.transaction():
            records = await consumer.poll(max_records=1, timeout_ms=20_000)
            producer.send_soon(topic, records[0].value, partition=1)
            await producer.send_offsets(consumer)
            if fails:
                raise KeyError

    async def body() -> None:
        async with (
            ottla.Producer(bootstrap, transactional_id=topic) as producer,
            ottla.Consumer(
                bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer,
        ):
            async with producer.transaction():
                for value in (b"a", b"b"):
                    producer.send_soon(topic, value, partition=0)
            consumer.assign([first])
            with pytest.raises(KeyError):
                await consume(producer, consumer, fails=True)
            assert await consumer.committed([first]) == {}
            consumer.seek(first, 0)
            await consume(producer, consumer, fails=False)
            assert (await consumer.committed([first]))[first].offset == 1

    asyncio.run(body())


def test_the_blocking_producer_has_transactions_too(bootstrap: str, topic: str) -> None:
    def fail(producer: ottla.blocking.Producer) -> None:
        with producer.transaction():
            producer.send(topic, b"b", partition=0)
            raise KeyError

    with ottla.blocking.Producer(bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"a", partition=0)
            producer.send_offsets("some-group", {ottla.TopicPartition(topic, 0): 1})
        with pytest.raises(KeyError):
            fail(producer)
    assert asyncio.run(read(bootstrap, topic, "read_committed")) == [b"a"]


def test_a_timeout_that_brokers_do_not_allow_is_refused(bootstrap: str, topic: str) -> None:
    with pytest.raises(ottla.TransactionError, match="longer than the broker allows"):
        ottla.blocking.Producer(bootstrap, transactional_id=topic, transaction_timeout_ms=2**31 - 1)


def reader(bootstrap: str, group: str) -> ottla.Consumer:
    return ottla.Consumer(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        partition_assignment_strategy=["cooperative-sticky"],
    )


async def until_read(
    bootstrap: str, topic: str, count: int, *works: asyncio.Task[None]
) -> list[bytes | None]:
    """The committed values of a topic, as soon as there are so many; the works end then."""
    values: list[bytes | None] = []
    async with (
        asyncio.timeout(60),
        ottla.Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([ottla.TopicPartition(topic, index) for index in range(2)])
        while len(values) < count:
            values += [record.value for record in await consumer.poll(timeout_ms=500)]
            for work in works:
                if work.done():
                    work.result()
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        values += [record.value for record in await consumer.poll(timeout_ms=500)]
    return values


def test_each_record_is_transformed_exactly_once_while_members_come_and_go(
    bootstrap: str, topic: str
) -> None:
    output = f"{topic}-out"

    def shout(record: ottla.ConsumerRecord) -> ottla.ProducerRecord:
        return ottla.ProducerRecord(output, (record.value or b"").upper())

    async def work(name: str) -> None:
        async with (
            reader(bootstrap, topic) as consumer,
            ottla.Producer(bootstrap, transactional_id=f"{topic}-{name}") as producer,
        ):
            consumer.subscribe([topic])
            await ottla.exactly_once(consumer, producer, shout, max_records=7)

    async def body() -> None:
        async with ottla.Admin(bootstrap) as admin:
            ottla.succeeded(await admin.create_topics([ottla.NewTopic(output, 2)]))
        async with ottla.Producer(bootstrap) as producer:
            for number in range(200):
                producer.send_soon(topic, b"v%d" % number)
                if number % 50 == 49:
                    await producer.flush()
        first = asyncio.create_task(work("one"))
        await until_read(bootstrap, output, 20)
        second = asyncio.create_task(work("two"))
        await until_read(bootstrap, output, 50, first)  # the first one is cancelled in the middle
        third = asyncio.create_task(work("three"))
        values = await until_read(bootstrap, output, 200, second, third)
        assert Counter(values) == Counter(b"V%d" % number for number in range(200))

    asyncio.run(body())


def test_a_poisonous_record_is_put_aside_in_the_same_transaction(bootstrap: str, topic: str) -> None:
    output = f"{topic}-out"

    async def copy(record: ottla.ConsumerRecord) -> list[ottla.ProducerRecord]:
        if record.value == b"bad":
            raise ValueError("bad")
        return [ottla.ProducerRecord(output, record.value, partition=0)]

    def put_aside(record: ottla.ConsumerRecord, error: Exception) -> ottla.ProducerRecord:
        return ottla.ProducerRecord(output, f"{error}!", partition=1)

    async def body() -> None:
        async with ottla.Admin(bootstrap) as admin:
            ottla.succeeded(await admin.create_topics([ottla.NewTopic(output, 2)]))
        async with (
            reader(bootstrap, topic) as consumer,
            ottla.Producer(bootstrap, transactional_id=topic) as producer,
        ):
            async with producer.transaction():
                for value in (b"a", b"bad", b"b"):
                    producer.send_soon(topic, value, partition=0)
            consumer.subscribe([topic])
            with pytest.raises(ottla.ProcessingError) as caught:
                await ottla.exactly_once(consumer, producer, copy)
            assert caught.value.record.value == b"bad"
            work = asyncio.create_task(
                ottla.exactly_once(consumer, producer, copy, on_error=put_aside, workers=2)
            )
            values = await until_read(bootstrap, output, 3, work)
            assert Counter(values) == Counter([b"a", b"b", b"bad!"])

    asyncio.run(body())
