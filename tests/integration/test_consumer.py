"""Our own consumer with a real broker: alone, in groups, through rebalances, crashes and restarts (GRP-2 to
GRP-7, CHK-3, CHK-5).

Runs against Ottla, and, where Apache Kafka can be fetched (`-m compat`), against that too.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.conftest import start
from tests.integration.awaiting import awaited, until
from tests.integration.consuming import SETTINGS, append, described, fill, member, reading
from tests.integration.peer import Peer, batch, create_topic

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer, ConsumerRecord, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.broker_process import BrokerProcess, running, start_broker
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition
from ottla.records.compression import Compression

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def node(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(start(target, tmp_path_factory.mktemp("consumer") / "data", SETTINGS)) as process:
        yield process


@pytest.fixture
def peer(node: BrokerProcess) -> Iterator[Peer]:
    with Peer(node.port) as connected:
        yield connected


@pytest.fixture
def topic() -> str:
    return f"read{next(NUMBERS)}"


# ---- alone


@pytest.mark.parametrize("compression", Compression)
def test_every_compression_is_read_in_order(
    node: BrokerProcess, peer: Peer, topic: str, compression: Compression
) -> None:
    create_topic(peer, topic)
    for base in range(3):
        append(peer, topic, batch(*[b"%d" % (base * 4 + i) for i in range(4)], compression=compression))

    async def body() -> None:
        async with Consumer(node.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = []
            async for record in consumer:
                seen.append((record.offset, record.value))
                if len(seen) == 12:
                    break
            assert seen == [(each, b"%d" % each) for each in range(12)]
            assert await consumer.lag() == {TopicPartition(topic, 0): 0}

    awaited(body)


def test_latest_begins_with_what_comes_and_seeking_goes_anywhere(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    for each in range(5):
        append(peer, topic, batch(b"%d" % each, timestamp=1_000_000 + each * 1_000))
    key = TopicPartition(topic, 0)

    async def body() -> None:
        async with Consumer(node.bootstrap, auto_offset_reset="latest") as consumer:
            consumer.assign([key])
            while consumer.position(key) is None:
                await consumer.poll(timeout_ms=10)
            append(peer, topic, batch(b"new", timestamp=2_000_000))
            assert [each.value for each in await consumer.poll()] == [b"new"]
            consumer.seek(key, 3)
            assert (await consumer.poll(max_records=1))[0].value == b"3"
            await consumer.seek_to(1_000_000 + 1_500)
            assert (await consumer.poll(max_records=1))[0].value == b"2"
            await consumer.seek_to(OffsetSpec.EARLIEST)
            assert (await consumer.poll(max_records=1))[0].value == b"0"
            await consumer.seek_to(9_000_000)
            assert consumer.position(key) == 6

    awaited(body)


def test_records_that_were_deleted_are_left_out_by_the_policy_or_told(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    append(peer, topic, batch(*[b"%d" % each for each in range(10)]))
    key = TopicPartition(topic, 0)

    async def body() -> None:
        async with Admin(node.bootstrap) as admin:
            assert await admin.delete_records({key: 7}) == {key: 7}
        async with Consumer(node.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([key])
            consumer.seek(key, 2)
            assert [each.offset for each in await consumer.poll()] == [7, 8, 9]
        async with Consumer(node.bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([key])
            consumer.seek(key, 2)
            with pytest.raises(KafkaError) as caught:
                await consumer.poll()
            assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    awaited(body)


# ---- in a group


def test_two_share_four_partitions_and_when_one_leaves_the_other_has_all(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, partitions=4)
    group = f"g-{topic}"

    async def body() -> None:
        async with reading(member(node, group), topic) as stays:
            async with reading(member(node, group), topic) as leaves:
                shares = (stays.consumer, leaves.consumer)
                await until(lambda: [len(each.assignment) for each in shares] == [2, 2])
                assert len(stays.consumer.assignment | leaves.consumer.assignment) == 4
                first = fill(peer, topic, 4, 50)
                await until(lambda: stays.values | leaves.values == first)
                assert len(stays.seen) + len(leaves.seen) == 200
            await until(lambda: len(stays.consumer.assignment) == 4)
            second = fill(peer, topic, 4, 50)
            await until(lambda: second <= stays.values)
            # Only the record that was cut short by the cancellation may come twice.
            assert len(stays.seen) + len(leaves.seen) <= 401
            assert not any(stays.revocations)
        group_now = await described(node, group)
        assert (group_now.state, group_now.members) == ("Empty", ())

    awaited(body)


def test_committed_offsets_are_where_the_group_goes_on(node: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=2)
    fill(peer, topic, 2, 10)
    group = f"g-{topic}"

    async def some(count: int, **options: Any) -> list[ConsumerRecord]:
        async with member(node, group, **options) as consumer:
            consumer.subscribe([topic])
            seen: list[ConsumerRecord] = []
            while len(seen) < count:
                seen += await consumer.poll(max_records=count - len(seen))
            return seen

    async def body() -> None:
        first, second, third = await some(7), await some(7), await some(6)
        seen = [(each.partition, each.offset) for each in first + second + third]
        assert len(seen) == len(set(seen)) == 20
        async with Admin(node.bootstrap) as admin:
            offsets = succeeded(await admin.list_group_offsets(group))
            assert {each.offset for each in offsets.values()} == {10}

    awaited(body)


MEMBER_THAT_IS_KILLED = """
import asyncio, sys
from ottla.client.consumer.consumer import Consumer

async def main():
    bootstrap, group, topic = sys.argv[1:]
    options = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100, "auto_commit_interval_ms": 100}
    async with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", **options) as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            print(record.value.decode(), flush=True)
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_what_a_killed_member_had_goes_to_the_others(node: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=4)
    group = f"g-{topic}"
    made = fill(peer, topic, 4, 25)
    command = [sys.executable, "-c", MEMBER_THAT_IS_KILLED, node.bootstrap, group, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        seen = {victim.stdout.readline().strip() for _ in range(10)}
        victim.kill()
        seen |= {line.strip() for line in victim.stdout}

    async def body() -> None:
        async with reading(member(node, group), topic) as survivor:
            await until(lambda: seen | survivor.values == made)
            assert len(seen | survivor.values) == 100

    awaited(body)


def test_members_that_come_and_go_lose_nothing(node: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=6)
    group = f"g-{topic}"
    made, seen = set[bytes](), set[bytes]()

    async def body() -> None:
        async with reading(member(node, group), topic) as constant:
            for _ in range(4):
                async with AsyncExitStack() as stack:
                    guests = [
                        await stack.enter_async_context(reading(member(node, group), topic)) for _ in range(2)
                    ]
                    made.update(fill(peer, topic, 6, 20))
                    await until(lambda guests=guests: any(guest.consumer.assignment for guest in guests))  # type: ignore[misc]
                for guest in guests:
                    seen.update(guest.values)
            await until(lambda: made <= seen | constant.values)
            for partition in range(6):
                offsets = [each.offset for each in constant.seen if each.partition == partition]
                again = sum(later <= earlier for earlier, later in itertools.pairwise(offsets))
                assert again <= len(constant.revocations), "offsets go back only when partitions change hands"

    awaited(body)


def test_a_static_member_that_comes_back_causes_no_rebalance(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic, partitions=2)
    group = f"g-{topic}"

    async def body() -> None:
        async with reading(member(node, group), topic) as other:
            for each in range(3):
                bounced = member(node, group, group_instance_id="i", session_timeout_ms=20_000)
                async with reading(bounced, topic) as static:
                    await until(lambda static=static: len(static.consumer.assignment) == 1)  # type: ignore[misc]
                    made = fill(peer, topic, 2, 1)
                    await until(lambda static=static, made=made: made <= static.values | other.values)  # type: ignore[misc]
                if each == 0:
                    before = len(other.revocations)
            assert len(other.revocations) == before

    awaited(body)


def test_a_second_member_of_the_same_instance_fences_the_first(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    group = f"g-{topic}"

    async def body() -> None:
        async with (
            member(node, group, group_instance_id="i") as first,
            member(node, group, group_instance_id="i") as second,
        ):
            first.subscribe([topic])
            while not first.assignment:
                await first.poll(timeout_ms=10)
            second.subscribe([topic])
            while not second.assignment:
                await second.poll(timeout_ms=10)
            with pytest.raises(KafkaError) as caught:
                await first.poll()
            assert caught.value.code == ErrorCode.FENCED_INSTANCE_ID

    awaited(body)


def test_new_partitions_are_noticed_and_read_from_their_beginning(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    group = f"g-{topic}"

    async def body() -> None:
        async with reading(member(node, group), topic) as reader:
            await until(lambda: len(reader.consumer.assignment) == 1)
            async with Admin(node.bootstrap) as admin:
                succeeded(await admin.create_partitions({topic: 3}))
            await until(lambda: len(reader.consumer.assignment) == 3)
            made = fill(peer, topic, 3, 2)
            await until(lambda: reader.values == made)

    awaited(body)


def test_a_static_leader_that_comes_back_notices_partitions_that_were_added_meanwhile(
    node: BrokerProcess, peer: Peer, topic: str
) -> None:
    create_topic(peer, topic)
    group = f"g-{topic}"

    def static() -> Consumer:
        return member(node, group, group_instance_id="i", session_timeout_ms=20_000)

    async def body() -> None:
        async with reading(static(), topic) as before:
            await until(lambda: len(before.consumer.assignment) == 1)
        async with Admin(node.bootstrap) as admin:
            succeeded(await admin.create_partitions({topic: 3}))
        async with reading(static(), topic) as after:
            await until(lambda: len(after.consumer.assignment) == 3)

    awaited(body)


def test_our_members_and_librdkafkas_share_a_group(node: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic, partitions=4)
    group = f"g-{topic}"
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 100,
        }
    )
    seen = set[bytes]()

    def poll_theirs() -> bool:
        message = theirs.poll(0.02)
        if message is not None and not message.error():
            seen.add(message.value())
        return True

    async def body() -> None:
        async with reading(member(node, group), topic) as ours:
            theirs.subscribe([topic])
            await until(lambda: poll_theirs() and len(theirs.assignment()) == 2)
            await until(lambda: poll_theirs() and len(ours.consumer.assignment) == 2)
            made = fill(peer, topic, 4, 20)
            await until(lambda: poll_theirs() and seen | ours.values == made)
            assert seen
            assert ours.values
            theirs.close()
            await until(lambda: len(ours.consumer.assignment) == 4)

    awaited(body)


def test_a_consumer_goes_on_when_its_broker_was_killed_and_is_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = start_broker(data, SETTINGS)
    with Peer(first.port) as peer:
        create_topic(peer, "t", partitions=2)
        before = fill(peer, "t", 2, 20)

    async def body() -> None:
        async with reading(member(first, "g", auto_commit_interval_ms=50), "t") as reader:
            await until(lambda: reader.values == before)
            first.kill()
            with running(await asyncio.to_thread(start_broker, data, SETTINGS, port=first.port)) as again:
                with Peer(again.port) as peer:
                    after = fill(peer, "t", 2, 20)
                await until(lambda: after <= reader.values)
                assert (await described(again, "g")).state == "Stable"
                await reader.consumer.close()  # while there is somebody to say goodbye to

    with running(first):
        awaited(body)


def test_waiting_is_interrupted_at_once_by_close(node: BrokerProcess, peer: Peer, topic: str) -> None:
    create_topic(peer, topic)

    async def body() -> None:
        async with member(node, f"g-{topic}") as consumer:
            consumer.subscribe([topic])
            waiting = asyncio.ensure_future(consumer.poll())
            await until(lambda: bool(consumer.assignment))
            await consumer.close()
            assert await waiting == []

    awaited(body)
    wait_until(lambda: asyncio.run(described(node, f"g-{topic}")).state == "Empty", "the group is empty")
