"""Clients called wrongly: refused at the call, in one sentence, and no other record or topic is harmed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.awaiting import awaited
from tests.integration.in_process import BrokerThread

import ottla
import ottla.blocking
from ottla import NewTopic, TopicPartition, succeeded

DEADLINE_SECONDS = 20.0
# Every class that takes the addresses of brokers.
CLIENTS: tuple[Callable[..., Any], ...] = (
    ottla.Producer,
    ottla.Consumer,
    ottla.Admin,
    ottla.blocking.Producer,
    ottla.blocking.Consumer,
    ottla.blocking.Admin,
)


@pytest.fixture
def bootstrap(served: BrokerThread) -> str:
    return f"localhost:{served.port}"


async def values_of(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    async with ottla.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        while len(values) < count:
            values += [record.value for record in await consumer.poll(timeout_ms=10_000)]
        return values


def test_a_text_is_no_list_of_topics(bootstrap: str) -> None:
    async def body() -> None:
        async with ottla.Admin(bootstrap) as admin:
            succeeded(await admin.create_topics([NewTopic(name) for name in "abc"]))
            for call in (
                admin.delete_topics,
                admin.describe_topics,
                admin.describe_groups,
                admin.delete_groups,
            ):
                with pytest.raises(TypeError, match=r"names must be a list of names.*: write \['abc'\]"):
                    await call("abc")
            with pytest.raises(TypeError, match=r"states must be a list.*\['Stable'\]"):
                await admin.list_groups(states="Stable")
            assert {topic.name for topic in await admin.list_topics()} >= {"a", "b", "c"}
        async with ottla.Consumer(bootstrap, group_id="g") as consumer:
            with pytest.raises(TypeError, match=r"topics must be a list.*\['abc'\]"):
                consumer.subscribe("abc")
            for value in ("abc", ["ab"], TopicPartition("a", 0)):
                with pytest.raises(TypeError, match="partitions must be"):
                    consumer.assign(value)  # type: ignore[arg-type]

    awaited(body)
    with ottla.blocking.Admin(bootstrap) as admin:
        with pytest.raises(TypeError, match=r"names must be a list.*\['abc'\]"):
            admin.delete_topics("abc")
        assert {topic.name for topic in admin.list_topics()} >= {"a", "b", "c"}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"timestamp_ms": time.time()}, TypeError, "timestamp_ms must be a whole number of milliseconds"),
        ({"timestamp_ms": 2**70}, ValueError, "timestamp_ms must be milliseconds since 1970"),
        ({"timestamp_ms": "now"}, TypeError, "timestamp_ms"),
        ({"topic": None}, TypeError, "topic must be text, not None"),
        ({"topic": 1}, TypeError, "topic must be text, not 1"),
        ({"topic": ["t"]}, TypeError, "topic must be text"),
        ({"topic": ""}, ValueError, "topic must not be empty"),
        ({"topic": "\ud800"}, ValueError, "topic has characters that UTF-8 cannot carry"),
        ({"partition": 0.0}, TypeError, r"partition must be a whole number, not 0\.0"),
        ({"partition": "0"}, TypeError, "partition must be a whole number, not '0'"),
        ({"partition": -1}, ValueError, "partition must be at least 0"),
        ({"headers": ["ab"]}, TypeError, "headers must be pairs"),
        ({"headers": "ab"}, TypeError, "headers must be a dict"),
        ({"headers": {"a": 1}}, TypeError, r'headers\["a"\] must be bytes or text, not a int'),
        ({"headers": {"\ud800": b""}}, ValueError, "each name in headers has characters"),
        ({"headers": {"a": "\ud800"}}, ValueError, r'headers\["a"\] cannot be turned into bytes'),
        ({"value": 1}, ottla.SerializationError, "the value of a record .* neither bytes nor text"),
        ({"key": "\ud800"}, ottla.SerializationError, "the key of a record .* cannot be turned into bytes"),
        ({"value": b"v" * (2 << 20)}, ottla.DeliveryError, "max_request_size"),
    ],
)
def test_a_wrong_record_is_refused_and_its_neighbours_are_delivered(
    bootstrap: str, topic: str, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    async def body() -> None:
        given = {"topic": topic, "value": b"wrong", **wrong}
        async with ottla.Producer(bootstrap, linger_ms=50) as producer:
            before = producer.send_soon(topic, b"0")
            with pytest.raises(error, match=message):  # also while nothing is known of the topic
                await producer.send(**given)
            await before
            neighbour = producer.send_soon(topic, b"1")
            with pytest.raises(error, match=message):
                await producer.send(**given)
            with pytest.raises(error, match=message):
                producer.send_soon(**given)
            after = producer.send_soon(topic, b"2")
            assert [(await neighbour).offset, (await after).offset] == [1, 2]
        assert await values_of(bootstrap, topic, 3) == [b"0", b"1", b"2"]

    awaited(body)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (ValueError("odd key"), "the partitioner failed on a record for .*: ValueError: odd key"),
        ("0", "the partitioner failed on a record for .*TypeError"),
        (None, "the partitioner failed on a record for .*TypeError"),
        (7, "there is no partition 7"),
    ],
)
def test_a_partitioner_that_fails_concerns_its_record_alone(
    bootstrap: str, topic: str, result: object, message: str
) -> None:
    def partitioner(key: bytes | None, partitions: object) -> Any:
        if key != b"odd":
            return 0
        if isinstance(result, Exception):
            raise result
        return result

    async def body() -> None:
        async with ottla.Producer(bootstrap, partitioner=partitioner, linger_ms=50) as producer:
            for number in range(2):  # the first time, nothing is known of the topic
                good = producer.send_soon(topic, b"%d" % number)
                with pytest.raises(ottla.DeliveryError, match=message) as caught:
                    await producer.send(topic, b"v", key=b"odd")
                assert (caught.value.record.value, caught.value.record.key) == (b"v", b"odd")
                assert (await good).offset == number

    awaited(body)


def test_a_serializer_that_fails_is_named(bootstrap: str, topic: str) -> None:
    def broken(value: object) -> bytes:
        raise LookupError("no schema")

    async def body() -> None:
        async with ottla.Producer(bootstrap, value_serializer=broken) as producer:
            with pytest.raises(
                ottla.SerializationError, match=r"value_serializer failed: LookupError.*no schema"
            ):
                await producer.send(topic, {"a": 1})
        async with ottla.Producer(bootstrap, key_serializer=str) as producer:  # type: ignore[arg-type]
            with pytest.raises(ottla.SerializationError, match="key_serializer made a str, not bytes"):
                await producer.send(topic, "v", key=1)
            assert (await producer.send(topic, "v")).offset == 0

    awaited(body)


@pytest.mark.parametrize("client", CLIENTS)
def test_addresses_may_be_a_list_and_nothing_else_that_is_no_text(
    client: Callable[..., Any], bootstrap: str
) -> None:
    for wrong in ({"localhost": 9092}, [("localhost", 9092)], None, 9092):
        with pytest.raises(TypeError, match=r'bootstrap.* must be text such as "one:9092,two:9092"'):
            client(wrong)
    for text in (f"http://{bootstrap}", [f"kafka://{bootstrap}"]):
        with pytest.raises(ValueError, match=r'bootstrap.*is not an address: .* without "(http|kafka)://"'):
            client(text)

    async def body() -> None:
        made = client([bootstrap, "localhost:1"])
        await made.__aenter__()
        await made.close()

    if client.__module__ == "ottla.blocking":
        client([bootstrap]).close()
    else:
        awaited(body)


def test_a_client_is_opened_once(bootstrap: str) -> None:
    async def body() -> None:
        for client in (ottla.Producer(bootstrap), ottla.Consumer(bootstrap), ottla.Admin(bootstrap)):
            async with client:
                with pytest.raises(RuntimeError, match="is open already"):
                    await client.__aenter__()
            await client.close()
            with pytest.raises(
                RuntimeError, match="was closed, and cannot be opened again: make another one"
            ):
                await client.__aenter__()

    awaited(body)


def test_a_client_belongs_to_the_loop_that_opened_it(bootstrap: str, topic: str) -> None:
    """Another loop, and another thread, are told so at once; the loop of the client goes on."""

    async def elsewhere(producer: ottla.Producer, consumer: ottla.Consumer, admin: ottla.Admin) -> int:
        await asyncio.sleep(0.002)  # the loop is looked at once in a millisecond
        delivery = producer.send_soon
        calls: list[Callable[[], Any]] = [
            lambda: producer.send(topic, b"v"),
            lambda: delivery(topic, b"v"),
            producer.flush,
            lambda: producer.partitions_for(topic),
            producer.close,
            consumer.poll,
            lambda: consumer.assign([TopicPartition(topic, 0)]),
            consumer.lag,
            consumer.close,
            admin.list_topics,
            admin.close,
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="belongs to the event loop that opened it"):
                await call()
        return len(calls)

    async def body() -> None:
        async with (
            ottla.Producer(bootstrap) as producer,
            ottla.Consumer(bootstrap) as consumer,
            ottla.Admin(bootstrap) as admin,
        ):
            assert (await producer.send(topic, b"0")).offset == 0
            slow = producer.send_soon(topic, b"1")
            refused = await asyncio.to_thread(
                lambda: asyncio.run(asyncio.wait_for(elsewhere(producer, consumer, admin), DEADLINE_SECONDS))
            )
            assert refused == 11
            assert (await slow).offset == 1
            assert (await producer.send(topic, b"2")).offset == 2

    awaited(body)


def test_a_delivery_is_awaited_in_the_loop_of_its_producer(bootstrap: str, topic: str) -> None:
    async def body() -> None:
        async with ottla.Producer(bootstrap, linger_ms=200) as producer:
            await producer.send(topic, b"0")
            delivery = producer.send_soon(topic, b"1")
            failures: list[BaseException] = []

            async def wait() -> None:
                await delivery

            def elsewhere() -> None:
                try:
                    asyncio.run(wait())
                except RuntimeError as error:
                    failures.append(error)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.to_thread(thread.join, DEADLINE_SECONDS)
            assert "awaited in the event loop that its producer belongs to" in str(failures[0])
            assert (await delivery).offset == 1

    awaited(body)


FORKED = """
import asyncio, os, sys
import ottla, ottla.blocking

bootstrap, topic = sys.argv[1:]
loop = asyncio.new_event_loop()
producer = ottla.Producer(bootstrap)
loop.run_until_complete(producer.__aenter__())
loop.run_until_complete(producer.send(topic, "parent"))
blocking = ottla.blocking.Producer(bootstrap)


def refused(call):
    try:
        call()
    except RuntimeError as error:
        print(error, flush=True)


child = os.fork()
if not child:
    refused(lambda: asyncio.run(producer.send(topic, "child")))
    refused(lambda: blocking.send(topic, "child"))
    os._exit(0)
os.waitpid(child, 0)
print(loop.run_until_complete(producer.send(topic, "parent")).offset, blocking.send(topic, "parent").offset)
blocking.close()
loop.run_until_complete(producer.close())
"""


def test_a_forked_process_needs_clients_of_its_own(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-c", FORKED, bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    first, second, parent = done.stdout.splitlines()
    assert "a forked process needs one of its own" in first or "awaited in the event loop" in first
    assert second == "this client was made before the process forked: make one in the new process"
    assert parent == "1 2"
