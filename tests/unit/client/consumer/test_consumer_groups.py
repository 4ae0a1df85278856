"""The consumer as a member of a group, against a fake broker: rebalances, commits, losses, leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.client.consumer.test_consumer import T0, consuming, values
from tests.unit.client.fake_cluster import FakeCluster

from ottla.client.consumer.consumer import Consumer
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import groups, offsets

T1 = TopicPartition("t", 1)
FAST = {"group_id": "g", "heartbeat_interval_ms": 10, "metadata_max_age_ms": 20}


def in_group(cluster: FakeCluster, body: Callable[[Consumer], Awaitable[None]], **options: object) -> None:
    consuming(cluster, body, **{**FAST, **options})


class Listener:
    """Remembers what a rebalance told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []

    async def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.heard.append(("assigned", sorted(each.partition for each in partitions)))

    def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.heard.append(("revoked", sorted(each.partition for each in partitions)))

    async def lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.heard.append(("lost", sorted(each.partition for each in partitions)))


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what is no event of asyncio's."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def polling_until(consumer: Consumer, condition: Callable[[], bool]) -> None:
    while not condition():
        await consumer.poll(timeout_ms=5)


def test_a_member_reads_what_it_was_given_from_where_the_group_was() -> None:
    cluster = FakeCluster(partitions=2)
    cluster.append(b"a", b"b")
    cluster.append(b"c", partition=1)
    cluster.committed[T0] = 1
    cluster.errors[groups.JoinGroupRequest] = [ErrorCode.MEMBER_ID_REQUIRED]
    listener = Listener()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"], on_assigned=listener.assigned, on_revoked=listener.revoked)
        assert sorted(each or b"" for each in await values(consumer, 2)) == [b"b", b"c"]
        assert consumer.assignment == {T0, T1}

    in_group(cluster, body)
    assert listener.heard == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert cluster.committed == {T0: 2, T1: 1}
    (commit,) = cluster.asked_for(offsets.OffsetCommitRequest)
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (1, "m-1")
    (leave,) = cluster.asked_for(groups.LeaveGroupRequest)
    assert leave.members[0].member_id == "m-1"
    assert [join.member_id for join in cluster.asked_for(groups.JoinGroupRequest)] == ["", "m-1"]


def test_a_rebalance_commits_tells_and_joins_again_inside_a_poll() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")
    listener = Listener()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"], on_assigned=listener.assigned, on_revoked=listener.revoked)
        assert await values(consumer, 1) == [b"a"]
        cluster.errors[groups.HeartbeatRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
        await eventually(lambda: not cluster.errors[groups.HeartbeatRequest])
        # Answers of one connection come in order: after this one the client has heard of the rebalance.
        await consumer.committed([T0])
        assert consumer.assignment == {T0}  # nothing goes while the application works
        assert await values(consumer, 1) == [b"b"]
        assert cluster.generation_id == 2

    in_group(cluster, body)
    assert [what for what, _ in listener.heard] == ["assigned", "revoked", "assigned", "revoked"]
    assert cluster.committed == {T0: 2}


def test_a_commit_in_the_callback_is_accepted_and_after_it_refused() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def body(consumer: Consumer) -> None:
        async def revoked(partitions: frozenset[TopicPartition]) -> None:
            await consumer.commit()

        consumer.subscribe(["t"], on_revoked=revoked)
        await values(consumer, 1)
        cluster.errors[groups.HeartbeatRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
        await polling_until(consumer, lambda: cluster.generation_id == 2)
        assert cluster.committed[T0] >= 1
        with pytest.raises(KafkaError, match="t-1 is not assigned to this consumer any more"):
            await consumer.commit({T1: 5})

    in_group(cluster, body, enable_auto_commit=False)


def test_who_is_thrown_out_has_lost_its_partitions_commits_nothing_and_comes_back() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    lost: list[bool] = []

    async def body(consumer: Consumer) -> None:
        async def on_lost(partitions: frozenset[TopicPartition]) -> None:
            lost.append(True)
            with pytest.raises(KafkaError, match="not a member of its group"):
                await consumer.commit()

        consumer.subscribe(["t"], on_lost=on_lost)
        await values(consumer, 1)
        cluster.errors[groups.HeartbeatRequest] = [ErrorCode.UNKNOWN_MEMBER_ID]
        await polling_until(consumer, lambda: cluster.generation_id == 2)
        assert lost == [True]
        assert cluster.committed == {}

    in_group(cluster, body)
    assert cluster.asked_for(groups.JoinGroupRequest)[1].member_id == ""


def test_a_commit_of_an_old_generation_is_raised_and_the_member_joins_again() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await values(consumer, 1)
        cluster.errors[offsets.OffsetCommitRequest] = [ErrorCode.ILLEGAL_GENERATION]
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            await consumer.commit()
        await polling_until(consumer, lambda: cluster.generation_id == 2)

    in_group(cluster, body, heartbeat_interval_ms=40_000)


def test_a_fenced_member_is_told_and_stays_out() -> None:
    cluster = FakeCluster()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        cluster.errors[groups.HeartbeatRequest] = [ErrorCode.FENCED_INSTANCE_ID]
        for _ in range(2):
            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                await consumer.poll()

    in_group(cluster, body, group_instance_id="i")
    assert cluster.asked_for(groups.LeaveGroupRequest) == []


def test_an_application_that_does_not_poll_loses_its_partitions_and_gets_them_back() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    listener = Listener()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"], on_assigned=listener.assigned, on_lost=listener.lost)
        await values(consumer, 1)
        await eventually(lambda: bool(cluster.asked_for(groups.LeaveGroupRequest)))
        await polling_until(consumer, lambda: len(listener.heard) == 3)
        assert listener.heard[1] == ("lost", [0])

    in_group(cluster, body, max_poll_interval_ms=50)


def test_waiting_for_records_is_polling_however_long_it_takes() -> None:
    cluster = FakeCluster()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
        await asyncio.sleep(0.1)  # longer than the interval
        await eventually(lambda: len(cluster.asked_for(groups.HeartbeatRequest)) > 3)
        assert cluster.asked_for(groups.LeaveGroupRequest) == []
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling

    in_group(cluster, body, max_poll_interval_ms=40)


def test_the_leader_notices_new_partitions() -> None:
    cluster = FakeCluster()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await polling_until(consumer, lambda: consumer.assignment == {T0})
        cluster.partitions = 2
        await polling_until(consumer, lambda: consumer.assignment == {T0, T1})

    in_group(cluster, body)


def test_a_topic_that_does_not_exist_yet_is_waited_for() -> None:
    cluster = FakeCluster(partitions=0)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        await polling_until(consumer, lambda: cluster.generation_id == 1)
        assert consumer.assignment == frozenset()
        cluster.partitions = 1
        cluster.append(b"a")
        assert await values(consumer, 1) == [b"a"]

    in_group(cluster, body)


def test_other_topics_are_subscribed_to_by_joining_again() -> None:
    cluster = FakeCluster()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["nix"])
        await polling_until(consumer, lambda: cluster.generation_id == 1)
        consumer.subscribe(["t"])
        await polling_until(consumer, lambda: consumer.assignment == {T0})

    in_group(cluster, body)


def test_an_exception_in_a_callback_reaches_the_application_and_the_group_goes_on() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")

    async def body(consumer: Consumer) -> None:
        async def revoked(partitions: frozenset[TopicPartition]) -> None:
            if cluster.generation_id == 1:
                raise LookupError("no")

        consumer.subscribe(["t"], on_revoked=revoked)
        await values(consumer, 1)
        cluster.errors[groups.HeartbeatRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
        with pytest.raises(LookupError):
            await polling_until(consumer, lambda: False)
        await polling_until(consumer, lambda: cluster.generation_id == 2)

    in_group(cluster, body)


def test_a_poll_that_is_cancelled_leaves_the_consumer_whole() -> None:
    cluster = FakeCluster()

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.005):
                    await consumer.poll()
        cluster.append(b"a")
        assert await values(consumer, 1) == [b"a"]

    in_group(cluster, body)


def test_cancellation_leaves_the_group_and_no_task() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def main() -> None:
        async with cluster.broker:
            working = asyncio.Event()
            task = asyncio.ensure_future(_work(cluster, working))
            await working.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() - cluster.broker.tasks == {asyncio.current_task()}

    asyncio.run(main())
    assert len(cluster.asked_for(groups.LeaveGroupRequest)) == 1
    assert cluster.committed == {T0: 1}  # the second was being worked on


async def _work(cluster: FakeCluster, working: asyncio.Event) -> None:
    options = {"group_id": "g", "heartbeat_interval_ms": 10}
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **options) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(["t"])
        async for record in consumer:
            if record.value == b"b":
                working.set()
                await asyncio.Event().wait()
