"""Two-phase commit over TCP (KIP-939): prepared transactions outlive their producer and their broker.

EOS-1, EOS-4, OPS-7.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.test_transactional_offsets import FEW_PARTITIONS, OFTEN

import ottla
import ottla.blocking
from ottla.cli.main import ottla as command_line

ENABLED = FEW_PARTITIONS | OFTEN | {"transaction.two.phase.commit.enable": "true"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with broker_thread(tmp_path_factory.mktemp("two-phase") / "data", ENABLED) as broker:
        yield broker


def address(served: BrokerThread) -> str:
    return f"localhost:{served.port}"


def producer_of(served: BrokerThread, name: str) -> ottla.Producer:
    # A timeout that would be over before the test is.
    return ottla.Producer(
        address(served), transactional_id=name, two_phase_commit=True, transaction_timeout_ms=1
    )


async def crash(producer: ottla.Producer, topic: str, value: str) -> None:
    """Prepare a transaction, and fail before it is committed."""
    async with producer.transaction():
        await producer.send(topic, value)
        await producer.send_offsets("two-phase-group", {ottla.TopicPartition(topic, 0): 5})
        await producer.prepare()
        with pytest.raises(RuntimeError, match="takes no more records"):
            producer.send_soon(topic, "too late")
        raise KeyError(value)


async def prepared(producer: ottla.Producer, topic: str, value: str) -> ottla.PreparedTransaction:
    with pytest.raises(KeyError):
        await crash(producer, topic, value)
    assert producer.prepared_transaction is not None
    return producer.prepared_transaction


async def committed(served: BrokerThread, topic: str, least: int) -> list[str]:
    """The committed values, once there are as many as wanted."""
    values: list[str] = []
    async with ottla.Consumer(
        address(served), isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0)])
        async with asyncio.timeout(60):
            while len(values) < least:
                values += [bytes(each.value or b"").decode() for each in await consumer.poll(timeout_ms=200)]
    return values


def test_the_next_producer_commits_what_was_stored_and_aborts_what_was_not(served: BrokerThread) -> None:
    async def body() -> None:
        topic = "two-phase-orders"
        async with producer_of(served, topic) as first:
            assert first.prepared_transaction is None
            assert await first.complete(None) is False
            stored = await prepared(first, topic, "a")
        async with producer_of(served, topic) as second:
            assert second.prepared_transaction == stored
            with pytest.raises(RuntimeError, match="complete it"):
                async with second.transaction():
                    pass
        async with producer_of(served, topic) as third:
            assert await third.complete(str(stored)) is True
            assert third.prepared_transaction is None
            await prepared(third, topic, "b")
            assert await third.complete(stored) is False, "another transaction than the stored one"
            async with third.transaction():
                await third.send(topic, "c")
                await third.prepare()
            last = await prepared(third, topic, "d")
        async with producer_of(served, topic) as fourth:
            assert fourth.prepared_transaction == last
            assert await fourth.complete(None) is False
            async with fourth.transaction():
                await fourth.send(topic, "e")
        assert await committed(served, topic, 3) == ["a", "c", "e"]

    asyncio.run(body())


def test_a_prepared_transaction_outlives_its_broker(tmp_path: Path) -> None:
    topic = "two-phase-restart"

    async def prepare(served: BrokerThread) -> ottla.PreparedTransaction:
        async with producer_of(served, topic) as producer:
            return await prepared(producer, topic, "a")

    async def complete(served: BrokerThread, stored: ottla.PreparedTransaction) -> None:
        async with producer_of(served, topic) as producer:
            assert await producer.complete(stored) is True
            async with producer.transaction():
                await producer.send(topic, "b")
        assert await committed(served, topic, 2) == ["a", "b"]
        async with ottla.Admin(address(served)) as admin:
            (offset,) = ottla.succeeded(await admin.list_group_offsets("two-phase-group")).values()
            assert offset.offset == 5

    with broker_thread(tmp_path / "data", ENABLED) as served:
        stored = asyncio.run(prepare(served))
    with broker_thread(tmp_path / "data", ENABLED) as served:
        asyncio.run(complete(served, stored))


def test_the_blocking_producer_prepares_as_well(served: BrokerThread) -> None:
    topic = "two-phase-blocking"
    with ottla.blocking.Producer(address(served), transactional_id=topic, two_phase_commit=True) as producer:
        with producer.transaction():
            producer.send(topic, "a")
            stored = producer.prepare()
        assert ottla.PreparedTransaction.parse(str(stored)) == stored
        assert producer.complete(stored) is False, "the block has committed"
    assert asyncio.run(committed(served, topic, 1)) == ["a"]


def run(served: BrokerThread, *arguments: str) -> Any:
    done = CliRunner().invoke(
        command_line, ["transactions", *arguments, "--bootstrap", address(served), "--json"]
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_administrator_finds_and_ends_a_prepared_transaction(served: BrokerThread) -> None:
    topic = "two-phase-forced"

    async def leave_open() -> None:
        async with producer_of(served, topic) as producer:
            await prepared(producer, topic, "a")

    async def find_it_gone(transaction: str) -> None:
        async with producer_of(served, topic) as producer:
            assert producer.prepared_transaction is None
            assert await producer.complete(transaction) is False
            async with producer.transaction():
                await producer.send(topic, "b")
        assert await committed(served, topic, 1) == ["b"]

    asyncio.run(leave_open())
    ids = [each["transactional_id"] for each in run(served, "list", "--two-phase")]
    assert topic in ids
    described = run(served, "describe", topic)
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 2**31 - 1)
    in_words = CliRunner().invoke(
        command_line, ["transactions", "describe", topic, "--bootstrap", address(served)]
    )
    assert "no timeout (two-phase commit)" in in_words.stdout
    assert run(served, "abort", topic) == {"aborted": [topic]}
    assert topic not in [each["transactional_id"] for each in run(served, "list", "--two-phase")]
    asyncio.run(find_it_gone(f"{described['producer_id']}:{described['producer_epoch']}"))


def test_where_it_is_not_enabled_it_is_refused_in_words(tmp_path: Path) -> None:
    async def body(served: BrokerThread) -> None:
        with pytest.raises(
            ottla.TransactionError, match=r"transaction\.two\.phase\.commit\.enable"
        ) as refused:
            async with producer_of(served, "two-phase-off"):
                pass
        assert refused.value.code == ottla.ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        async with ottla.Producer(address(served), transactional_id="one-phase") as producer:
            with pytest.raises(ValueError, match="two_phase_commit=True"):
                await producer.prepare()

    with broker_thread(tmp_path / "data", FEW_PARTITIONS) as served:
        asyncio.run(body(served))
