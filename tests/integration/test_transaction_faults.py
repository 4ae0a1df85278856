"""Transactions of our clients when the requests of a transaction fail, are lost, or come late (EOS-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.awaiting import awaited

import ottla
import ottla.blocking
from ottla.testing import EmbeddedBroker, Fault, Faults, broker

NUMBERS = iter(range(1_000))
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def served() -> Iterator[EmbeddedBroker]:
    settings = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2}
    with broker(settings=settings) as running:
        yield running


@pytest.fixture
def topic(served: EmbeddedBroker) -> Iterator[str]:
    name = f"input-{next(NUMBERS)}"
    with ottla.blocking.Admin(served.bootstrap) as admin:
        ottla.succeeded(admin.create_topics([ottla.NewTopic(name), ottla.NewTopic(f"{name}-out")]))
    yield name
    served.faults.clear()


async def copied(bootstrap: str, topic: str, set_faults: Callable[[], None]) -> list[bytes | None]:
    """The output of `exactly_once` over ten records, with faults from the third on."""
    output = f"{topic}-out"
    group = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    settings: dict[str, Any] = {**group, "enable_auto_commit": False}

    async def copy(record: ottla.ConsumerRecord) -> ottla.ProducerRecord:
        if record.value == b"3":
            set_faults()
        return ottla.ProducerRecord(output, record.value)

    async with (
        ottla.Producer(bootstrap, transactional_id=topic, request_timeout_ms=3_000) as producer,
        ottla.Consumer(bootstrap, **settings) as consumer,
    ):
        async with producer.transaction():
            for number in range(10):
                producer.send_soon(topic, b"%d" % number)
        consumer.subscribe([topic])
        work = asyncio.create_task(ottla.exactly_once(consumer, producer, copy, max_records=2))
        values = await committed_values(bootstrap, output, 10, work)
        work.cancel()
        await asyncio.wait({work})
        return values


async def committed_values(
    bootstrap: str, topic: str, count: int, work: asyncio.Task[None] | None = None
) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with ottla.Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0)])
        while len(values) < count or (any((await consumer.lag()).values())):
            values += [record.value for record in await consumer.poll(timeout_ms=200)]
            if work is not None and work.done():
                work.result()
    return values


def found_values(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []

    async def body() -> None:
        found.extend(await committed_values(bootstrap, topic, count))

    awaited(body)
    return found


FAULTS: dict[str, Callable[[Faults], Fault]] = {
    "the coordinator moves": lambda faults: faults.fail("end_txn", "NOT_COORDINATOR", times=2),
    "markers are being written": lambda faults: faults.fail("produce", "CONCURRENT_TRANSACTIONS", times=2),
    "a transaction must be aborted": lambda faults: faults.fail("produce", "TRANSACTION_ABORTABLE"),
    "a commit is refused": lambda faults: faults.fail("end_txn", "TRANSACTION_ABORTABLE"),
    "the answer to an end is lost": lambda faults: faults.lose_answer("end_txn", times=2),
    "an end is lost": lambda faults: faults.lose_request("end_txn", times=2),
    "offsets are lost": lambda faults: faults.lose_request("txn_offset_commit"),
    "the answer to offsets is lost": lambda faults: faults.lose_answer("txn_offset_commit"),
    "another member has the partitions": lambda faults: faults.fail(
        "txn_offset_commit", "ILLEGAL_GENERATION"
    ),
    "the answer to records is lost": lambda faults: faults.lose_answer("produce", times=2),
    "an end comes late": lambda faults: faults.delay("end_txn", ms=300),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_record_is_copied_exactly_once(served: EmbeddedBroker, topic: str, fault: str) -> None:
    set_faults: list[Fault] = []

    def begin() -> None:
        if not set_faults:
            set_faults.append(FAULTS[fault](served.faults))

    async def body() -> None:
        assert await copied(served.bootstrap, topic, begin) == [b"%d" % number for number in range(10)]

    awaited(body)
    assert set_faults[0].hits > 0


# The requests of a transaction at `transaction.version` 1, one after the other, and their faults.
STEPS = ("add_partitions_to_txn", "produce", "add_offsets_to_txn", "txn_offset_commit", "end_txn")
MISHAPS: dict[str, Callable[[Faults, str], Fault]] = {
    "the coordinator moves": lambda faults, api: faults.fail(
        api, "NOT_LEADER_OR_FOLLOWER" if api == "produce" else "NOT_COORDINATOR"
    ),
    "it is lost": lambda faults, api: faults.lose_request(api),
    "its answer is lost": lambda faults, api: faults.lose_answer(api),
    "it comes late": lambda faults, api: faults.delay(api, ms=50),
}


@pytest.fixture(scope="module")
def older() -> Iterator[EmbeddedBroker]:
    """A broker at `transaction.version` 1: clients ask for each step themselves."""
    settings = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2}
    with broker(settings=settings) as running:
        with ottla.blocking.Admin(running.bootstrap) as admin:
            admin.update_feature("transaction.version", 1, downgrades=True)
        yield running


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_transaction_is_whole_whatever_happens_to_any_of_its_steps(
    older: EmbeddedBroker, mishap: str
) -> None:
    """A record and an offset in each transaction. One that is aborted is run again, as its error says."""
    topic = older.create_topic(f"steps-{next(NUMBERS)}")
    partition = ottla.TopicPartition(topic, 0)

    def write(producer: ottla.blocking.Producer, number: int, api: str) -> bool:
        try:
            with producer.transaction():
                producer.send(topic, api.encode())
                producer.send_offsets(topic, {partition: number + 1})
        except ottla.TransactionAbortedError:
            return False
        return True

    with ottla.blocking.Producer(older.bootstrap, transactional_id=topic) as producer:
        for number, api in enumerate(STEPS):
            fault = MISHAPS[mishap](older.faults, api)
            while not write(producer, number, api):
                pass
            assert fault.hits == 1, api
    assert found_values(older.bootstrap, topic, len(STEPS)) == [api.encode() for api in STEPS]
    with ottla.blocking.Admin(older.bootstrap) as admin:
        assert ottla.succeeded(admin.list_group_offsets(topic))[partition].offset == len(STEPS)


def test_a_transaction_whose_timeout_is_over_now_is_aborted(served: EmbeddedBroker, topic: str) -> None:
    def write_too_long(producer: ottla.blocking.Producer) -> None:
        with producer.transaction():
            producer.send(topic, b"late")
            served.time_out(topic)

    with ottla.blocking.Producer(served.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(LookupError, match=f"no open transaction of '{topic}' here"):
            served.time_out(topic)
        with pytest.raises(ottla.TransactionAbortedError):
            write_too_long(producer)
        with producer.transaction():
            producer.send(topic, b"again")
    assert found_values(served.bootstrap, topic, 1) == [b"again"]


def test_while_markers_are_held_readers_wait_and_the_next_transaction_too(
    served: EmbeddedBroker, topic: str
) -> None:
    with ottla.blocking.Producer(served.bootstrap, transactional_id=topic) as producer:
        with served.holding_markers():
            with producer.transaction():
                producer.send(topic, b"first")
            waiting = producer.transaction()
            waiting.__enter__()
            second = producer.send_soon(topic, b"second")
            with ottla.blocking.Admin(served.bootstrap) as admin:
                place = {ottla.TopicPartition(topic, 0): ottla.OffsetSpec.LATEST}
                stable = ottla.succeeded(admin.list_offsets(place, read_committed=True))
            assert [each.offset for each in stable.values()] == [0]
            assert not second.done()
        second.result(timeout_s=DEADLINE_S)
        waiting.__exit__(None, None, None)
    assert found_values(served.bootstrap, topic, 2) == [b"first", b"second"]


def test_a_commit_whose_answer_never_comes_is_settled_by_the_group(
    served: EmbeddedBroker, topic: str
) -> None:
    """The commit is carried out, and every answer to it is lost: the records must not be copied again."""

    async def body() -> None:
        partition = ottla.TopicPartition(topic, 0)
        settings: dict[str, Any] = {"transactional_id": topic, "max_block_ms": 2_000}
        async with ottla.Producer(served.bootstrap, **settings) as producer:
            served.faults.lose_answer("end_txn", times=None)
            with pytest.raises(ottla.TransactionUncertainError):
                await write(producer, topic, partition)
            served.faults.clear()
            async with producer.transaction():
                await producer.send(topic, b"next")
        assert await committed_values(served.bootstrap, topic, 2) == [b"first", b"next"]
        async with ottla.Consumer(served.bootstrap, group_id=topic) as consumer:
            assert (await consumer.committed([partition]))[partition].offset == 7

    async def write(producer: ottla.Producer, topic: str, partition: ottla.TopicPartition) -> None:
        async with producer.transaction():
            await producer.send(topic, b"first")
            await producer.send_offsets(topic, {partition: 7})

    awaited(body)


def test_a_commit_that_never_arrives_is_aborted_by_the_next_transaction(
    served: EmbeddedBroker, topic: str
) -> None:
    async def body() -> None:
        settings: dict[str, Any] = {"transactional_id": topic, "max_block_ms": 2_000}
        async with ottla.Producer(served.bootstrap, **settings) as producer:
            served.faults.lose_request("end_txn", times=None)
            with pytest.raises(ottla.TransactionUncertainError):
                await write(producer)
            served.faults.clear()
            async with producer.transaction():
                await producer.send(topic, b"next")
        assert await committed_values(served.bootstrap, topic, 1) == [b"next"]

    async def write(producer: ottla.Producer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"first")

    awaited(body)


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_may_go_on() -> None:
    """The coordinator looks for such transactions often here; by default it does every ten seconds."""

    async def body(bootstrap: str) -> None:
        async with ottla.Producer(
            bootstrap, transactional_id="slow", transaction_timeout_ms=3_000
        ) as producer:
            with pytest.raises(ottla.TransactionAbortedError):
                await write(producer, bootstrap)
            async with producer.transaction():
                await producer.send("slow", b"again")
        assert await committed_values(bootstrap, "slow", 1) == [b"again"]

    async def write(producer: ottla.Producer, bootstrap: str) -> None:
        async with producer.transaction():
            await producer.send("slow", b"late")
            async with ottla.Admin(bootstrap) as admin:
                while await state(admin) == "Ongoing":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    async def state(admin: ottla.Admin) -> str:
        return ottla.succeeded(await admin.describe_transactions(["slow"]))["slow"].state

    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "transaction.state.log.num.partitions": 1,
    }
    with broker(settings=settings) as impatient:
        awaited(lambda: body(impatient.bootstrap))
