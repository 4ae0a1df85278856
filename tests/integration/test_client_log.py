"""The log of the clients: a line for whatever a client waits for without an error."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.awaiting import awaited, until
from tests.integration.in_process import BrokerThread

import ottla
import ottla.testing
from ottla import TopicPartition


@pytest.fixture
def bootstrap(served: BrokerThread) -> str:
    return f"localhost:{served.port}"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ottla.client"]


def test_a_right_program_has_nothing_to_say(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with ottla.Producer(bootstrap) as producer:
            await producer.send(topic, b"v")
        async with ottla.Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            assert len(await consumer.poll(timeout_ms=20_000)) == 1
            assert await consumer.poll(timeout_ms=100) == []
            await consumer.commit()

    awaited(body)
    assert lines(caplog) == []


def test_a_topic_that_does_not_exist_is_named_once(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with ottla.Consumer(bootstrap, group_id=topic, client_id="reader") as consumer:
            consumer.subscribe([topic])
            await consumer.poll(timeout_ms=500)
            await until(lambda: bool(lines(caplog)))

    awaited(body)
    assert lines(caplog) == [f'reader: the topic "{topic}" does not exist; it is waited for']


def test_a_poll_that_has_nothing_to_wait_for_says_so(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with ottla.Producer(bootstrap) as producer:
            await producer.send(topic, b"v")
        async with ottla.Consumer(bootstrap, client_id="idle") as consumer:
            await consumer.poll(timeout_ms=10)
            await consumer.poll(timeout_ms=10)
        async with ottla.Consumer(bootstrap, client_id="paused") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.pause([TopicPartition(topic, 0)])  # on purpose: nothing to say
            await consumer.poll(timeout_ms=10)

    awaited(body)
    assert lines(caplog) == [
        "idle: a poll waits for records, but nothing is subscribed to and nothing is assigned",
    ]


def test_brokers_that_do_not_answer_and_commits_that_fail_are_told(caplog: pytest.LogCaptureFixture) -> None:
    async def body(broker: ottla.testing.EmbeddedBroker) -> None:
        settings = {"request_timeout_ms": 1_000, "client_id": "c"}
        async with (
            ottla.Producer(broker.bootstrap, **settings) as producer,  # type: ignore[arg-type]
            ottla.Consumer(
                broker.bootstrap,
                group_id="g",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=50,
                default_api_timeout_ms=500,
                **settings,  # type: ignore[arg-type]
            ) as consumer,
        ):
            await producer.send("t", b"v")
            consumer.assign([TopicPartition("t", 0)])
            assert len(await consumer.poll(timeout_ms=20_000)) == 1
            await asyncio.to_thread(broker.stop)
            late = producer.send_soon("t", b"late")
            while not all(
                any(words in line for line in lines(caplog))
                for words in ("no broker answers", "records for t-0 could not be sent", "a commit failed")
            ):
                await consumer.poll(timeout_ms=50)
            await asyncio.to_thread(broker.start)
            assert (await late).offset == 1

    with ottla.testing.broker() as broker:
        awaited(lambda: body(broker))


def test_a_rebalance_that_takes_long_is_told(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another member does not poll, so that the group waits for it."""

    async def body() -> None:
        async with ottla.Producer(bootstrap) as producer:
            await producer.send(topic, b"v")
        settings = {"group_id": topic, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}
        async with (
            ottla.Consumer(bootstrap, client_id="first", **settings) as first,  # type: ignore[arg-type]
            ottla.Consumer(bootstrap, client_id="second", **settings) as second,  # type: ignore[arg-type]
        ):
            first.subscribe([topic])
            while not first.assignment:
                await first.poll(timeout_ms=50)
            second.subscribe([topic])
            while not any(line.startswith("second: the group has no assignment") for line in lines(caplog)):
                await second.poll(timeout_ms=50)

    awaited(body)
