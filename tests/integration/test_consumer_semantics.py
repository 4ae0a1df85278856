"""Cooperative groups, patterns, processing and transactions with a real broker (GRP-2, GRP-5, GRP-9, EOS-2).

Runs against Ottla, and, where Apache Kafka can be fetched (`-m compat`), against that too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from tests.conftest import start
from tests.integration.awaiting import awaited, until
from tests.integration.consuming import SETTINGS, append, fill, member
from tests.integration.peer import Peer, batch, create_topic

from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.consumer.processing import at_least_once
from ottla.localcluster.broker_process import BrokerProcess, running
from ottla.model import TopicPartition

COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": ["cooperative-sticky"]}


@pytest.fixture(scope="module")
def node(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start(target, tmp_path_factory.mktemp("semantics") / "data", SETTINGS)) as process:
        yield process


@pytest.fixture
def peer(node: BrokerProcess) -> Iterator[Peer]:
    with Peer(node.port) as connected:
        yield connected


class Member:
    """A cooperative member that reads in a task of its own."""

    def __init__(self, node: BrokerProcess, topic: str) -> None:
        self.consumer = member(node, f"g-{topic}", auto_commit_interval_ms=100, **COOPERATIVE)
        self.topic = topic
        self.seen: list[ConsumerRecord] = []
        self.revoked: list[TopicPartition] = []
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async with self.consumer as consumer:
            consumer.subscribe([self.topic], on_revoked=self.revoked.extend)
            async for record in consumer:
                self.seen.append(record)

    async def stop(self) -> None:
        self._task.cancel()
        (outcome,) = await asyncio.gather(self._task, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError), outcome


def test_who_joins_a_cooperative_group_takes_no_more_than_its_share(node: BrokerProcess, peer: Peer) -> None:
    topic = "cooperative"
    create_topic(peer, topic, partitions=6)
    made = fill(peer, topic, 6, 20)

    async def body() -> None:
        first = Member(node, topic)
        await until(lambda: len(first.consumer.assignment) == 6)
        second, third = Member(node, topic), None
        await until(lambda: [len(each.consumer.assignment) for each in (first, second)] == [3, 3])
        assert len(first.revoked) == 3  # and not all of them
        third = Member(node, topic)
        everyone = (first, second, third)
        await until(lambda: [len(each.consumer.assignment) for each in everyone] == [2, 2, 2])
        assert len(first.revoked) + len(second.revoked) == 5
        made.update(fill(peer, topic, 6, 20))
        await until(lambda: {each.value for one in everyone for each in one.seen} == made)
        await first.stop()
        await until(lambda: len(second.consumer.assignment) + len(third.consumer.assignment) == 6)
        await second.stop()
        await third.stop()

    awaited(body)


def test_a_pattern_is_followed_to_topics_that_come_later(node: BrokerProcess, peer: Peer) -> None:
    create_topic(peer, "pattern-a")
    append(peer, "pattern-a", batch(b"a"))

    async def body() -> None:
        seen = set()
        async with member(node, "g-pattern") as consumer:
            consumer.subscribe(re.compile("pattern-.*"))
            async for record in consumer:
                seen.add(record.value)
                if record.value == b"a":
                    create_topic(peer, "pattern-b")
                    append(peer, "pattern-b", batch(b"b"))
                if seen == {b"a", b"b"}:
                    break
            assert consumer.subscription == {"pattern-a", "pattern-b"}

    awaited(body)


def test_parallel_by_key_in_a_group_that_changes_misses_nothing_and_keeps_each_key_in_order(
    node: BrokerProcess, peer: Peer
) -> None:
    topic = "parallel"
    create_topic(peer, topic, partitions=4)
    keys = 5
    for partition in range(4):
        for number in range(30):
            made = batch(b"%d" % number, key=b"%d" % (number % keys))
            append(peer, topic, made, partition=partition)
    seen: dict[tuple[int, bytes], list[int]] = {}

    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0.005 if record.offset % 7 else 0.02)
        seen.setdefault((record.partition, record.key or b""), []).append(int(record.value or b""))

    async def work() -> None:
        # Members here leave, and are never thrown out: a busy machine may hold them up for longer than a short session.
        options = {"enable_auto_commit": False, "session_timeout_ms": 30_000, **COOPERATIVE}
        async with member(node, topic, **options) as consumer:
            consumer.subscribe([topic])
            await at_least_once(consumer, handle, order="key", workers=8)

    def is_done() -> bool:
        return len(seen) == 4 * keys and all(
            set(each) >= set(range(each[0], 30, keys)) for each in seen.values()
        )

    async def body() -> None:
        workers = [asyncio.ensure_future(work())]
        await until(lambda: sum(map(len, seen.values())) > 10)
        workers.append(asyncio.ensure_future(work()))
        await until(lambda: sum(map(len, seen.values())) > 50)
        workers.pop(0).cancel()
        await until(is_done)
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        for numbers in seen.values():
            # In order; whoever takes a partition over may do again what the other one was in the middle of.
            first_time = list(dict.fromkeys(numbers))
            assert first_time == sorted(first_time)

    awaited(body)


def test_committed_transactions_are_read_and_aborted_ones_are_not(node: BrokerProcess, peer: Peer) -> None:
    topic = "transactions"
    create_topic(peer, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for number, is_commit in enumerate([True, False, True, False, False, True]):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(topic, f"{number}-{each}")
        producer.flush(20)
        if is_commit:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)

    async def read(level: Any, count: int) -> list[str]:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": level}
        async with Consumer(node.bootstrap, **options) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen: list[str] = []
            while len(seen) < count:
                seen += [(record.value or b"").decode() for record in await consumer.poll()]
            assert await consumer.lag() == {TopicPartition(topic, 0): 0} or level == "read_uncommitted"
            return seen

    async def body() -> None:
        expected = [f"{number}-{each}" for number in (0, 2, 5) for each in range(3)]
        assert await read("read_committed", 9) == expected
        assert len(await read("read_uncommitted", 18)) == 18

    awaited(body)
