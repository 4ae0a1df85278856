"""Our ready-made ways to process records, with Ottla and with Apache Kafka alike (GRP-5, GRP-6, GRP-9)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import pytest
from tests.clients.families.ottla_family import run
from tests.clients.groups.conftest import GroupTrial
from tests.clients.model import Message

import ottla
from ottla.localcluster.broker_process import BrokerProcess

PARTITIONS, KEYS, RECORDS = 2, 5, 40
Handler: TypeAlias = Callable[[ottla.ConsumerRecord], Awaitable[None]]
Process: TypeAlias = Callable[[ottla.Consumer, Handler], Awaitable[None]]


@pytest.fixture
def broker(group_broker: BrokerProcess) -> BrokerProcess:
    return group_broker


@pytest.fixture
def topic(trial: GroupTrial) -> str:
    """A topic whose partitions have RECORDS records each, numbered, with KEYS keys; also the name of a
    group.
    """
    name = trial.make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        made = [Message(b"%d" % number, b"%d" % (number % KEYS)) for number in range(RECORDS)]
        trial.writer.produce(name, made, partition=partition)
    return name


def member(broker: BrokerProcess, topic: str) -> ottla.Consumer:
    return ottla.Consumer(
        broker.bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    )


async def process_until(
    broker: BrokerProcess, topic: str, process: Process, handle: Handler, is_done: Callable[[], bool]
) -> None:
    """Process until it is done, or until it fails."""
    async with member(broker, topic) as consumer:
        consumer.subscribe([topic])
        processing = asyncio.ensure_future(process(consumer, handle))
        while not is_done() and not processing.done():
            await asyncio.wait([processing], timeout=0.01)
        processing.cancel()
        outcome = (await asyncio.gather(processing, return_exceptions=True))[0]
        if isinstance(outcome, ottla.ProcessingError):
            raise outcome


async def committed(broker: BrokerProcess, group: str) -> dict[int, int]:
    async with ottla.Admin(broker.bootstrap) as admin:
        found = ottla.succeeded(await admin.list_group_offsets(group))
    return {where.partition: one.offset for where, one in found.items()}


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_at_least_once_processes_all_in_the_order_that_is_asked_for_and_commits_all(
    broker: BrokerProcess, topic: str, order: Literal["partition", "key", "none"]
) -> None:
    seen: dict[tuple[int, bytes | None], list[int]] = defaultdict(list)

    async def handle(record: ottla.ConsumerRecord) -> None:
        # Later records finish sooner, if they may.
        await asyncio.sleep(0.001 * (RECORDS - record.offset) / RECORDS)
        seen[record.partition, record.key if order == "key" else None].append(int(record.value or b""))

    async def process(consumer: ottla.Consumer, handle: Handler) -> None:
        await ottla.at_least_once(consumer, handle, order=order, workers=8)

    async def body() -> None:
        total = PARTITIONS * RECORDS
        await process_until(broker, topic, process, handle, lambda: sum(map(len, seen.values())) == total)
        assert await committed(broker, topic) == dict.fromkeys(range(PARTITIONS), RECORDS)

    run(body())
    assert order == "none" or all(numbers == sorted(numbers) for numbers in seen.values())
    assert sorted(n for numbers in seen.values() for n in numbers) == sorted([*range(RECORDS)] * PARTITIONS)


def test_at_least_once_does_not_commit_what_failed_and_reads_it_again(
    broker: BrokerProcess, topic: str
) -> None:
    seen: list[tuple[int, int]] = []
    cannot = {(0, 17)}

    async def handle(record: ottla.ConsumerRecord) -> None:
        if (record.partition, record.offset) in cannot:
            raise ValueError("not today")
        seen.append((record.partition, record.offset))

    async def body() -> None:
        with pytest.raises(ottla.ProcessingError) as failed:
            await process_until(broker, topic, ottla.at_least_once, handle, lambda: False)
        assert (failed.value.record.partition, failed.value.record.offset) == (0, 17)
        assert (await committed(broker, topic))[0] == 17
        cannot.clear()
        await process_until(
            broker, topic, ottla.at_least_once, handle, lambda: len(set(seen)) == PARTITIONS * RECORDS
        )
        assert await committed(broker, topic) == dict.fromkeys(range(PARTITIONS), RECORDS)

    run(body())
    assert [offset for partition, offset in seen if partition == 0] == list(range(RECORDS))


def test_at_most_once_never_processes_a_record_twice(broker: BrokerProcess, topic: str) -> None:
    begun: list[tuple[int, int]] = []

    async def handle(record: ottla.ConsumerRecord) -> None:
        begun.append((record.partition, record.offset))
        if len(begun) == 25:
            raise ValueError("a crash in the middle of it")

    async def body() -> None:
        with pytest.raises(ottla.ProcessingError):
            await process_until(broker, topic, ottla.at_most_once, handle, lambda: False)
        assert len(begun) == 25
        # Records that were begun were committed before.
        assert sum((await committed(broker, topic)).values()) >= 25
        await process_until(
            broker, topic, ottla.at_most_once, handle, lambda: len(begun) == PARTITIONS * RECORDS
        )

    run(body())
    assert len(begun) == len(set(begun)) == PARTITIONS * RECORDS


def test_what_is_put_aside_does_not_stop_the_others(broker: BrokerProcess, topic: str) -> None:
    done: list[int] = []
    aside: list[tuple[int, str]] = []

    async def handle(record: ottla.ConsumerRecord) -> None:
        if record.offset % 10 == 3:
            raise ValueError("bad")
        done.append(record.offset)

    async def process(consumer: ottla.Consumer, handle: Handler) -> None:
        await ottla.at_least_once(
            consumer, handle, on_error=lambda record, error: aside.append((record.offset, str(error)))
        )

    async def body() -> None:
        total = PARTITIONS * RECORDS
        await process_until(broker, topic, process, handle, lambda: len(done) + len(aside) == total)
        assert await committed(broker, topic) == dict.fromkeys(range(PARTITIONS), RECORDS)

    run(body())
    assert sorted(aside) == sorted([(offset, "bad") for offset in (3, 13, 23, 33)] * PARTITIONS)
