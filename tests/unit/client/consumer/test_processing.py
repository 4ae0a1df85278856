"""Ready-made processing, against a fake broker: what is committed when, in which order, and what a failure
leaves behind (GRP-5, GRP-9).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.client.consumer.test_consumer import T0, consuming
from tests.unit.client.consumer.test_consumer_cooperative import Dealer
from tests.unit.client.consumer.test_consumer_groups import FAST, eventually
from tests.unit.client.fake_cluster import FakeCluster

from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.consumer.processing import ProcessingError, at_least_once, at_most_once
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.messages import offsets

T1 = TopicPartition("t", 1)


def processing(cluster: FakeCluster, body: Callable[[Consumer], Awaitable[None]], **options: Any) -> None:
    consuming(cluster, body, **{**FAST, "enable_auto_commit": False, **options})


async def until(condition: Callable[[], bool], work: Awaitable[None]) -> None:
    """Let the work go on until the condition holds, then cancel it."""
    task = asyncio.ensure_future(work)
    try:
        while not condition() and not task.done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    finally:
        task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(outcome, asyncio.CancelledError), outcome


def cluster_of(*values: bytes) -> FakeCluster:
    cluster = FakeCluster(partitions=2)
    cluster.append(*values)
    return cluster


def test_records_are_processed_in_order_and_committed_when_they_are_finished() -> None:
    cluster, seen = cluster_of(b"a", b"b", b"c"), list[bytes | None]()

    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(0.001)
        seen.append(record.value)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await until(lambda: len(seen) == 3, at_least_once(consumer, handle))
        assert seen == [b"a", b"b", b"c"]
        assert cluster.committed[T0] == 3

    processing(cluster, body)


def test_a_plain_handler_runs_in_a_thread() -> None:
    cluster, threads = cluster_of(b"a"), list[int]()

    def handle(record: ConsumerRecord) -> None:
        threads.append(threading.get_ident())

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await until(lambda: bool(threads), at_least_once(consumer, handle))
        assert threads[0] != threading.get_ident()

    processing(cluster, body)


def test_a_slow_record_holds_up_its_key_and_its_commit_but_nobody_else() -> None:
    cluster = FakeCluster()
    cluster.append(b"slow", b"1", b"2", b"3")
    gate, seen = asyncio.Event(), list[bytes | None]()

    async def handle(record: ConsumerRecord) -> None:
        if record.value == b"slow":
            await gate.wait()
        seen.append(record.value)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        work = at_least_once(consumer, handle, order="key", workers=4)
        await until(lambda: len(seen) == 3, work)
        assert sorted(each or b"" for each in seen) == [b"1", b"2", b"3"]
        assert cluster.committed.get(T0, 0) == 0  # not past the slow one
        seen.clear()
        gate.set()
        await until(lambda: len(seen) == 4, at_least_once(consumer, handle, order="key", workers=4))
        assert sorted(each or b"" for each in seen) == [b"1", b"2", b"3", b"slow"]
        assert cluster.committed[T0] == 4

    processing(cluster, body)


def test_nothing_is_begun_behind_a_record_that_was_cut_short() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")
    begun = list[bytes | None]()

    async def handle(record: ConsumerRecord) -> None:
        begun.append(record.value)
        await asyncio.Event().wait()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await until(lambda: bool(begun), at_least_once(consumer, handle))
        assert begun == [b"a"]
        assert cluster.committed.get(T0, 0) == 0

    processing(cluster, body)


def test_never_more_at_once_than_workers() -> None:
    cluster = FakeCluster()
    cluster.append(*[b"%d" % n for n in range(30)])
    running, most, done = 0, 0, 0

    async def handle(record: ConsumerRecord) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        done += 1

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await until(lambda: done == 30, at_least_once(consumer, handle, order="none", workers=3))
        assert most == 3

    processing(cluster, body)


def test_a_failure_ends_it_with_the_record_and_is_not_committed() -> None:
    cluster = cluster_of(b"a", b"bad", b"c")

    async def handle(record: ConsumerRecord) -> None:
        if record.value == b"bad":
            raise LookupError("no such thing")

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        with pytest.raises(
            ProcessingError, match="failed on t-0 at offset 1: LookupError: no such thing"
        ) as caught:
            await at_least_once(consumer, handle)
        assert caught.value.record.value == b"bad"
        assert isinstance(caught.value.__cause__, LookupError)
        assert cluster.committed[T0] == 1
        assert consumer.position(T0) == 1  # a second attempt begins with it

    processing(cluster, body)
    assert cluster.committed[T0] == 1


def test_what_an_error_handler_takes_care_of_is_done() -> None:
    cluster, aside = cluster_of(b"a", b"bad", b"c"), list[bytes | None]()
    done = []

    async def handle(record: ConsumerRecord) -> None:
        if record.value == b"bad":
            raise LookupError
        done.append(record.value)

    async def put_aside(record: ConsumerRecord, error: Exception) -> None:
        assert isinstance(error, LookupError)
        aside.append(record.value)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await until(lambda: len(done) == 2, at_least_once(consumer, handle, on_error=put_aside))
        assert (aside, cluster.committed[T0]) == ([b"bad"], 3)

    processing(cluster, body)


def test_at_most_once_commits_before_it_begins_and_a_failure_is_not_repeated() -> None:
    cluster = cluster_of(b"a", b"bad", b"c")
    committed_before = []

    async def handle(record: ConsumerRecord) -> None:
        committed_before.append(cluster.committed[T0])
        if record.value == b"bad":
            raise LookupError

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        with pytest.raises(ProcessingError):
            await at_most_once(consumer, handle)
        assert committed_before == [1, 2]
        assert consumer.position(T0) == 2

    processing(cluster, body)
    assert cluster.committed[T0] == 2


def test_at_most_once_does_not_begin_what_it_could_not_commit() -> None:
    cluster, seen = cluster_of(b"a"), list[bytes | None]()

    async def handle(record: ConsumerRecord) -> None:
        seen.append(record.value)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        cluster.errors[offsets.OffsetCommitRequest] = [ErrorCode.ILLEGAL_GENERATION]
        # The member joins again, from what is committed, and gets the record a second time.
        await until(lambda: bool(seen), at_most_once(consumer, handle))
        assert cluster.generation_id >= 2
        assert seen == [b"a"]

    processing(cluster, body)


def test_a_rebalance_waits_for_what_was_begun_and_leaves_the_rest_to_others() -> None:
    cluster = Dealer({T0, T1}, {T1})
    cluster.append(b"a", b"b", b"c")
    gate, begun = asyncio.Event(), list[bytes | None]()

    async def handle(record: ConsumerRecord) -> None:
        begun.append(record.value)
        await gate.wait()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        work = asyncio.ensure_future(at_least_once(consumer, handle, workers=2))
        await eventually(lambda: begun == [b"a"])
        cluster.rebalance()
        await eventually(lambda: cluster.generation_id == 2)
        await asyncio.sleep(0.05)
        assert T0 in consumer.assignment  # it is not taken away from under the handler
        gate.set()
        await eventually(lambda: consumer.assignment == {T1})
        assert begun == [b"a"]
        assert cluster.committed[T0] == 1
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    processing(cluster, body, partition_assignment_strategy=["cooperative-sticky"])


def test_the_consumer_can_be_closed_from_elsewhere() -> None:
    cluster, seen = cluster_of(b"a", b"b"), list[bytes | None]()

    async def handle(record: ConsumerRecord) -> None:
        seen.append(record.value)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        work = asyncio.ensure_future(at_least_once(consumer, handle))
        await eventually(lambda: len(seen) == 2)
        await consumer.close()
        await work

    processing(cluster, body)


def test_arguments_that_cannot_be_carried_out_are_refused() -> None:
    async def handle(record: ConsumerRecord) -> None:
        raise AssertionError

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        for way in (at_least_once, at_most_once):
            with pytest.raises(ValueError, match=f"{way.__name__} commits offsets.*needs a group_id"):
                await way(consumer, handle)
            with pytest.raises(ValueError, match="workers must be at least 1"):
                await way(consumer, handle, workers=0)
            with pytest.raises(ValueError, match="order cannot be 'any'"):
                await way(consumer, handle, order="any")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="handle must be a function"):
                await way(consumer, None)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="on_error must be a function"):
                await way(consumer, handle, on_error=1)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"consumer must be an ottla\.Consumer"):
                await way("localhost:9092", handle)  # type: ignore[arg-type]

    cluster = cluster_of(b"a")
    consuming(cluster, body)
    assert cluster.committed == {}
