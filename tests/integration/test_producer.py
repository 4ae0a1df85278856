"""The producer against a broker, ours and (make compat) Apache Kafka (PRO-1 to PRO-6)."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.awaiting import DEADLINE_SECONDS, awaited
from tests.integration.peer import Peer, create_topic, delete_topic, fetch, read_all, records_of

import ottla
from ottla.client.producer.machine.partitioners import TopicPartitions, murmur2
from ottla.client.producer.machine.settings import Acks, CompressionName
from ottla.client.producer.producer import Producer
from ottla.localcluster.broker_process import BrokerProcess
from ottla.records.batch import iter_batches

NUMBERS = itertools.count()
VALUES = [b"%d" % number for number in range(3_000)]


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[Peer]:
    with Peer(broker.port) as connected:
        yield connected


@pytest.fixture
def topic() -> str:
    return f"produced{next(NUMBERS)}"


def test_a_record_is_reported_where_it_is(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, 3)

    async def body() -> None:
        async with Producer(broker.bootstrap) as producer:
            first = await producer.send(topic, b"coffee", key=b"table 4")
            second = await producer.send(
                topic, "tea", key="table 4", headers={"waiter": "Ada"}, timestamp_ms=77
            )
            assert await producer.partitions_for(topic) == 3
        assert first.partition == second.partition == (murmur2(b"table 4") & 0x7FFFFFFF) % 3
        assert (first.topic, first.offset, second.offset, second.timestamp_ms) == (topic, 0, 1, 77)
        stored = records_of(fetch(peer, topic, partition=first.partition))
        assert [(each.key, each.value, each.headers) for each in stored] == [
            (b"table 4", b"coffee", ()),
            (b"table 4", b"tea", (("waiter", b"Ada"),)),
        ]
        assert [each.timestamp for each in stored] == [first.timestamp_ms, 77]

    awaited(body)


def test_a_record_without_a_value_is_a_tombstone(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        async with Producer(broker.bootstrap) as producer:
            await producer.send(topic, None, key=b"gone")

    awaited(body)
    assert [(each.key, each.value) for each in records_of(fetch(peer, topic))] == [(b"gone", None)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_arrives(
    broker: BrokerProcess, peer: Peer, topic: str, compression: CompressionName
) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        async with Producer(
            broker.bootstrap, compression=compression, batch_size=10_000, linger_ms=5_000
        ) as producer:
            for value in VALUES:
                producer.send_soon(topic, value)
                await producer.drain()

    awaited(body)
    found = fetch(peer, topic)
    assert {batch.compression.name.lower() for batch in iter_batches(found.records or b"")} == {compression}
    assert read_all(peer, topic) == VALUES


@pytest.mark.parametrize(("acks", "offset"), [("all", 0), (1, 0), (0, -1)])
def test_acks_say_what_is_known(
    broker: BrokerProcess, peer: Peer, topic: str, acks: Acks, offset: int
) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        async with Producer(broker.bootstrap, acks=acks) as producer:
            assert (await producer.send(topic, b"v")).offset == offset
            await producer.send(topic, b"w")
            await producer.partitions_for(topic)

    awaited(body)
    assert read_all_eventually(peer, topic, 2) == [b"v", b"w"]


def read_all_eventually(peer: Peer, topic: str, count: int) -> list[bytes | None]:
    """Without acknowledgements records arrive a moment later."""
    for _ in range(500):
        if len(values := read_all(peer, topic)) >= count:
            return values
    raise AssertionError("the records did not arrive")


def test_many_records_keep_their_order_over_many_partitions(
    broker: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, 5)
    reported: dict[tuple[int, int], bytes] = {}

    async def body() -> None:
        async with Producer(broker.bootstrap, batch_size=2_000) as producer:
            deliveries = []
            for value in VALUES:
                deliveries.append((value, producer.send_soon(topic, value, key=value[-1:])))
                await producer.drain()
            for value, delivery in deliveries:
                report = await delivery
                reported[report.partition, report.offset] = value

    awaited(body)
    logs = [read_all(peer, topic, partition) for partition in range(5)]
    assert sorted(itertools.chain(*logs)) == sorted(VALUES)  # type: ignore[type-var]
    for partition, log in enumerate(logs):
        assert [reported[partition, offset] for offset in range(len(log))] == log
        assert log == sorted(log, key=lambda value: int(value or b"0"))


def test_callbacks_hear_of_success_and_of_failure(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, cleanup_policy="compact")
    heard: list[ottla.DeliveryReport | ottla.DeliveryError] = []

    async def body() -> None:
        async with Producer(broker.bootstrap) as producer:
            for value, key in ((b"a", b"k"), (b"b", None), (b"c", b"l")):  # a compacted topic needs keys
                producer.send_soon(topic, value, key, on_delivery=heard.append)

    awaited(body)
    reports = [each for each in heard if isinstance(each, ottla.DeliveryReport)]
    (error,) = [each for each in heard if isinstance(each, ottla.DeliveryError)]
    assert error.code == ottla.ErrorCode.INVALID_RECORD
    assert error.record.value == b"b"
    assert sorted(report.offset for report in reports) == [0, 1]
    assert read_all(peer, topic) == [b"a", b"c"]


def test_failures_that_nobody_heard_of_are_raised_by_flush_and_at_the_end(
    broker: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, cleanup_policy="compact")

    async def body() -> None:
        async with Producer(broker.bootstrap) as producer:
            producer.send_soon(topic, b"a")
            producer.send_soon(topic, b"b")
            with pytest.raises(
                ottla.DeliveryError, match="2 records were not delivered; the first: "
            ) as caught:
                await producer.flush()
            assert [record.value for record in caught.value.records] == [b"a", b"b"]
            await producer.flush()  # told once
            delivery = producer.send_soon(topic, b"c")
            with pytest.raises(ottla.DeliveryError):
                await delivery
            await producer.flush()  # awaited

    async def left() -> None:
        async with Producer(broker.bootstrap) as producer:
            producer.send_soon(topic, b"d")

    awaited(body)
    with pytest.raises(ottla.DeliveryError, match="did not take the record"):
        awaited(left)


def test_batches_larger_than_the_topic_allows_are_split(
    broker: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, max_message_bytes=1_000)

    async def body() -> None:
        async with Producer(broker.bootstrap) as producer:
            for value in VALUES[:500]:
                producer.send_soon(topic, value)
            await producer.flush()
            with pytest.raises(ottla.DeliveryError) as caught:
                await producer.send(topic, b"x" * 2_000)
            assert caught.value.code == ottla.ErrorCode.MESSAGE_TOO_LARGE
            assert (await producer.send(topic, b"last")).offset == 500

    awaited(body)
    assert read_all(peer, topic) == [*VALUES[:500], b"last"]


def test_records_wait_for_a_topic_that_is_created_later(
    broker: BrokerProcess, peer: Peer, topic: str
) -> None:
    async def body() -> None:
        async with Producer(broker.bootstrap, allow_auto_create_topics=False) as producer:
            deliveries = [
                producer.send_soon(topic, b"%d" % number, partition=number % 2) for number in range(4)
            ]
            await asyncio.sleep(0.2)
            create_topic(peer, topic, 2)
            assert [(await delivery)[1:3] for delivery in deliveries] == [(0, 0), (1, 0), (0, 1), (1, 1)]

    awaited(body)


def test_a_topic_that_never_comes_is_an_error_that_names_it(broker: BrokerProcess, topic: str) -> None:
    async def body() -> None:
        producer = Producer(broker.bootstrap, allow_auto_create_topics=False, max_block_ms=300)
        async with producer:
            with pytest.raises(ottla.DeliveryError, match=f'no topic "{topic}".*max_block_ms') as caught:
                await producer.send(topic, b"v")
            assert caught.value.code == ottla.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert caught.value.record == ottla.ProducerRecord(
                topic, b"v", timestamp_ms=caught.value.record.timestamp_ms
            )
            with pytest.raises(ottla.KafkaError):
                await producer.partitions_for(topic)

    awaited(body)


def test_a_name_that_no_topic_can_have_fails_at_once(broker: BrokerProcess) -> None:
    async def body() -> None:
        async with Producer(broker.bootstrap) as producer:
            with pytest.raises(ottla.DeliveryError) as caught:
                await producer.send("not a topic!", b"v")
            assert caught.value.code == ottla.ErrorCode.INVALID_TOPIC_EXCEPTION

    awaited(body)


def test_a_topic_that_is_made_anew_is_written_to(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        async with Producer(broker.bootstrap, allow_auto_create_topics=False) as producer:
            await producer.send(topic, b"old")
            delete_topic(peer, topic)
            await asyncio.sleep(0.2)
            create_topic(peer, topic)
            assert (await producer.send(topic, b"new")).offset == 0

    awaited(body)
    assert read_all(peer, topic) == [b"new"]


def test_a_partition_that_was_added_is_written_to_at_once(
    broker: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, partitions=2)

    async def body() -> None:
        async with Producer(broker.bootstrap) as producer, ottla.Admin(broker.bootstrap) as admin:
            await producer.send(topic, b"0", partition=1)
            with pytest.raises(ottla.DeliveryError, match=r"there is no partition 2 of .*: it has 2"):
                await producer.send(topic, b"1", partition=2)
            with pytest.raises(ottla.DeliveryError, match=r"there is no partition 2 of .*: it has 2"):
                await producer.send_soon(topic, b"2", partition=2)
            await admin.create_partitions({topic: 3})
            report = await producer.send(topic, b"3", partition=2)
            assert (report.partition, report.offset) == (2, 0)

    awaited(body)
    assert read_all(peer, topic, 2) == [b"3"]


def test_a_users_own_partitioner_and_serializers(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, 4)

    def last(key: bytes | None, partitions: TopicPartitions) -> int:
        return partitions.count - 1

    async def body() -> None:
        producer = Producer(
            broker.bootstrap,
            partitioner=last,
            key_serializer=ottla.serialize_text,
            value_serializer=ottla.serialize_json,
        )
        async with producer:
            report = await producer.send(topic, {"drink": "tea"}, key="t4")
            assert report.partition == 3
            with pytest.raises(ottla.SerializationError, match="not JSON serializable") as caught:
                await producer.send(topic, {1, 2}, key="t4")
            assert caught.value.record == ottla.ProducerRecord(topic, {1, 2}, "t4")

    awaited(body)
    (record,) = records_of(fetch(peer, topic, partition=3))
    assert (record.key, record.value) == (b"t4", b'{"drink":"tea"}')


def test_a_send_that_is_cancelled_leaves_the_producer_whole(
    broker: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        async with Producer(broker.bootstrap, linger_ms=50) as producer:
            await producer.send(topic, b"first")
            tasks = [asyncio.create_task(producer.send(topic, b"%d" % number)) for number in range(10)]
            await asyncio.sleep(0)  # each has given its record to the producer, and waits
            for task in tasks[::2]:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in outcomes] == [True, False] * 5
            await producer.send(topic, b"last")

    awaited(body)
    # What was given to the producer is delivered, whether somebody waits for it or not.
    assert read_all(peer, topic) == [b"first", *(b"%d" % number for number in range(10)), b"last"]


def test_many_tasks_may_send_at_once_and_wait_for_room(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, 3)

    async def body() -> None:
        producer = Producer(broker.bootstrap, buffer_memory=20_000, batch_size=4_000, max_request_size=10_000)
        async with producer:
            reports = await asyncio.gather(*(producer.send(topic, value * 20) for value in VALUES))
            assert len({report[:3] for report in reports}) == len(VALUES)

    awaited(body)


def test_a_full_buffer_is_told_at_once_to_those_who_do_not_wait(broker: BrokerProcess, topic: str) -> None:
    async def body() -> None:
        producer = Producer(
            broker.bootstrap,
            buffer_memory=20_000,
            max_request_size=10_000,
            max_block_ms=200,
            allow_auto_create_topics=False,
        )
        async with producer:
            deliveries = [producer.send_soon(topic, b"x" * 9_000) for _ in range(2)]
            with pytest.raises(ottla.BufferFullError, match=r"await producer\.drain"):
                producer.send_soon(topic, b"x" * 9_000)
            for delivery in deliveries:
                with pytest.raises(ottla.DeliveryError):
                    await delivery

    awaited(body)


def test_a_producer_that_is_closed_says_so(broker: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        producer = Producer(broker.bootstrap)
        with pytest.raises(RuntimeError, match="use it in `async with`"):
            producer.send_soon(topic, b"v")
        async with producer:
            delivery = producer.send_soon(topic, b"v")
            await producer.close()
            await producer.close()
            assert (await delivery).offset == 0
            with pytest.raises(RuntimeError, match="the producer is not open any more"):
                await producer.send(topic, b"v")

    awaited(body)


PROGRAM = """
import asyncio, sys
import ottla

async def main(bootstrap, topic):
    async with ottla.Producer(bootstrap) as producer:
        for number in range(10**9):
            producer.send_soon(topic, b"%d" % number)
            await producer.drain()
            if number == 1000:
                print("going", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def test_ctrl_c_delivers_what_was_taken_and_leaves_nothing_behind(
    broker: BrokerProcess, peer: Peer, topic: str, tmp_path: Path
) -> None:
    create_topic(peer, topic, retention_bytes=-1)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program), broker.bootstrap, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONASYNCIODEBUG": "0", "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode != 0
    assert errors.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert "never" not in errors
    assert "destroyed" not in errors
    values = read_all(peer, topic)
    assert len(values) > 1_000
    assert values == [b"%d" % number for number in range(len(values))]
