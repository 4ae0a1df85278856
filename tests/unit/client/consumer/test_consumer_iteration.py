"""The ways to get records, against a fake broker: loops, batches, pauses, and what counts as done."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.unit.client.consumer.test_consumer import T0, consuming, values
from tests.unit.client.fake_cluster import FakeCluster

from ottla.client.consumer.consumer import Consumer
from ottla.model import TopicPartition
from ottla.protocol.messages import fetch

T1 = TopicPartition("t", 1)


def cluster_of(*values: bytes, partitions: int = 1) -> FakeCluster:
    cluster = FakeCluster(partitions)
    if values:
        cluster.append(*values)
    return cluster


def test_a_loop_that_was_left_goes_on_in_the_next_one() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        seen = []
        for _ in range(3):
            async for record in consumer:
                seen.append(record.value)
                break
        assert seen == [b"a", b"b", b"c"]

    consuming(cluster_of(b"a", b"b", b"c", b"d"), body)


def test_a_loop_and_polls_can_be_mixed() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        async for record in consumer:
            assert record.value == b"a"
            break
        assert [each.value for each in await consumer.poll(max_records=1)] == [b"b"]
        async for record in consumer:
            assert record.value == b"c"
            break
        consumer.seek(T0, 0)
        assert [each.value for each in await consumer.poll(max_records=1)] == [b"a"]
        async for record in consumer:
            assert record.value == b"b"
            break

    consuming(cluster_of(b"a", b"b", b"c", b"d"), body)


def test_a_seek_inside_a_loop_counts_at_once() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        seen = []
        async for record in consumer:
            seen.append(record.value)
            if record.value == b"b" and len(seen) < 4:
                consumer.seek(T0, 0)
            if record.value == b"c":
                break
        assert seen == [b"a", b"b", b"a", b"b", b"c"]

    consuming(cluster_of(b"a", b"b", b"c"), body)


def test_a_loop_ends_when_another_task_closes_the_consumer() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])

        has_read = asyncio.Event()

        async def read() -> None:
            async for record in consumer:
                assert record.value == b"a"
                has_read.set()

        reading = asyncio.ensure_future(read())
        await has_read.wait()
        await consumer.close()
        await reading
        with pytest.raises(RuntimeError, match="not open any more"):
            _ = [record async for record in consumer]

    consuming(cluster_of(b"a"), body)


def test_an_error_ends_a_loop_and_the_next_one_goes_on_behind_it() -> None:
    cluster = cluster_of(b"a")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]
        cluster.append(b"b")
        cluster.damage_last_batch()
        with pytest.raises(Exception, match="t-0 is damaged at offset 1"):
            async for _ in consumer:
                pass
        cluster.damage_last_batch()
        async for record in consumer:
            assert record.value == b"b"
            break

    consuming(cluster, body)


def test_batches_have_columns_and_count_as_done_when_the_next_is_asked_for() -> None:
    cluster = cluster_of(b"a", b"b")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        async for batch in consumer.batches():
            assert list(batch.values) == [b"a", b"b"]
            assert batch.next_offset == consumer.position(T0) == 2
            break
        cluster.append(b"c")
        async for batch in consumer.batches():
            assert list(batch.values) == [b"c"]
            raise LookupError("not done")

    with pytest.raises(LookupError):
        consuming(cluster, body, group_id="g")
    assert cluster.committed == {T0: 2}


def test_small_batches_of_the_log_come_together_and_large_ones_in_parts() -> None:
    cluster = FakeCluster()
    for value in (b"a", b"b", b"c"):
        cluster.append(value)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        sizes = []
        async for batch in consumer.batches():
            sizes.append(len(batch))
            if sum(sizes) == 3:
                break
        assert sizes == [3]
        consumer.seek(T0, 0)
        async for batch in consumer.batches(max_records=2):
            sizes.append(len(batch))
            if sum(sizes) == 6:
                break
        assert sizes == [3, 2, 1]

    consuming(cluster, body)


def test_what_poll_gave_last_is_not_done_when_an_exception_ends_it() -> None:
    cluster = cluster_of(b"a", b"b", b"c", b"d")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        await values(consumer, 1)
        assert len(await consumer.poll(max_records=2)) == 2
        raise LookupError("in the middle")

    with pytest.raises(LookupError):
        consuming(cluster, body, group_id="g")
    assert cluster.committed == {T0: 1}


def test_a_paused_partition_is_silent_and_not_fetched_until_it_is_resumed() -> None:
    cluster = FakeCluster(partitions=2)
    cluster.append(b"a", b"b")
    cluster.append(b"x", partition=1)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0, T1])
        assert sorted(each or b"" for each in await values(consumer, 3)) == [b"a", b"b", b"x"]
        consumer.pause([T0])
        assert consumer.paused == {T0}
        before = len(cluster.asked_for(fetch.FetchRequest))
        cluster.append(b"c")
        cluster.append(b"y", partition=1)
        assert await values(consumer, 1) == [b"y"]
        assert await consumer.poll(timeout_ms=30) == []
        later = cluster.asked_for(fetch.FetchRequest)[before + 1 :]
        assert {each.partition for ask in later for topic in ask.topics for each in topic.partitions} == {1}
        consumer.resume([T0])
        assert consumer.paused == frozenset()
        assert await values(consumer, 1) == [b"c"]
        with pytest.raises(ValueError, match="t-7 is not assigned"):
            consumer.pause([TopicPartition("t", 7)])

    consuming(cluster, body)


def test_records_that_are_buffered_wait_while_their_partition_is_paused() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        seen = []
        async for record in consumer:
            seen.append(record.value)
            if record.value == b"b":
                consumer.pause([T0])
                asyncio.get_running_loop().call_later(0.02, consumer.resume, [T0])
            if record.value == b"c":
                break
        assert seen == [b"a", b"b", b"c"]

    consuming(cluster_of(b"a", b"b", b"c"), body)


def test_times_may_be_moments() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        await consumer.seek_to(datetime.fromtimestamp(1.001, UTC))
        assert await values(consumer, 1) == [b"b"]
        with pytest.raises(ValueError, match="offset must be at least 0, not -1"):
            consumer.seek(T0, -1)

    consuming(cluster_of(b"a", b"b", b"c"), body)


def test_a_slow_application_commits_between_two_records_of_a_batch() -> None:
    cluster = cluster_of(b"a", b"b", b"c", b"d")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        async for record in consumer:
            if record.value == b"c":
                while cluster.committed.get(T0) != 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                break
            await asyncio.sleep(0.03)

    consuming(cluster, body, group_id="g", auto_commit_interval_ms=20)


def test_fetches_and_heartbeats_go_on_while_records_need_no_waiting() -> None:
    cluster = FakeCluster()
    for _ in range(60):
        cluster.append(*[b"v"] * 500)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count_turns())
        await consumer.poll(max_records=1)
        turns, read = 0, 0
        while read < 29_000:
            read += len(await consumer.poll())
            end = asyncio.get_running_loop().time() + 0.001
            while asyncio.get_running_loop().time() < end:  # an application that works and never waits
                pass
        counting.cancel()
        assert turns > 5

    consuming(cluster, body)
