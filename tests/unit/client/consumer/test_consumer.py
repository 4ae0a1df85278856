"""The consumer against a fake broker: reading, positions, commits, errors (GRP-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.client.fake_cluster import TOPIC_ID, FakeCluster
from tests.unit.wire.fake_broker import HANG_UP, all_versions

from ottla.client.consumer.consumer import Consumer, OffsetSpec
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import api_versions, coordinator, fetch, groups, list_offsets, metadata, offsets
from ottla.wire.connection import CannotConnectError

T0 = TopicPartition("t", 0)
DEADLINE_SECONDS = 10.0


def consuming(cluster: FakeCluster, body: Callable[[Consumer], Awaitable[None]], **options: Any) -> None:
    """Open a consumer of the cluster, let `body` use it, and see that nothing is left behind."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), cluster.broker:
            async with Consumer(
                cluster.bootstrap, **{"auto_offset_reset": "earliest", **options}
            ) as consumer:
                await body(consumer)
            assert asyncio.all_tasks() - cluster.broker.tasks == {asyncio.current_task()}

    asyncio.run(run())


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    """The next `count` values."""
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll(max_records=count - len(found))]
    return found


# ---- reading


def test_a_loop_gets_record_by_record_in_order() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")
    cluster.append(b"c")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        seen = []
        async for record in consumer:
            seen.append((record.offset, record.value))
            assert consumer.position(T0) == record.offset + 1
            if record.value == b"c":
                break
        assert seen == [(0, b"a"), (1, b"b"), (2, b"c")]

    consuming(cluster, body)


def test_polls_and_batches_keep_to_their_limit_and_their_time() -> None:
    cluster = FakeCluster()
    cluster.append(*[b"%d" % i for i in range(5)])

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert [record.value for record in await consumer.poll(max_records=2)] == [b"0", b"1"]
        async for batch in consumer.batches(max_records=2):
            assert [record.value for record in batch] == [b"2", b"3"]
            break
        assert len(await consumer.poll()) == 1
        assert await consumer.poll(timeout_ms=0) == []
        assert await consumer.poll(timeout_ms=30) == []

    consuming(cluster, body)


def test_what_comes_later_is_read_later_and_partitions_take_turns() -> None:
    cluster = FakeCluster(partitions=2)
    cluster.append(*[b"a"] * 10, partition=0)
    cluster.append(*[b"b"] * 10, partition=1)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0, TopicPartition("t", 1)])
        await values(consumer, 1)
        first = {record.partition for _ in range(4) for record in await consumer.poll(max_records=2)}
        assert first == {0, 1}
        await values(consumer, 11)
        cluster.append(b"later", partition=1)
        assert await values(consumer, 1) == [b"later"]

    consuming(cluster, body)


def test_fetching_stops_when_enough_is_buffered() -> None:
    cluster = FakeCluster()
    for _ in range(200):
        cluster.append(bytes(1_000))

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        for _ in range(100):  # the first answer brought all of them
            await values(consumer, 1)
            await asyncio.sleep(0)
        (first,) = cluster.asked_for(fetch.FetchRequest)
        assert first.max_bytes == 5_000
        assert len(await values(consumer, 10)) == 10

    consuming(cluster, body, max_buffered_bytes=10_000, max_partition_fetch_bytes=5_000)


def test_topics_go_by_id_where_both_sides_know_them_and_by_name_elsewhere() -> None:
    for newest, expected in ((18, ("", TOPIC_ID)), (12, ("t", None))):
        cluster = FakeCluster()
        cluster.append(b"a")
        offered = all_versions()
        for each in offered.api_keys:
            each.max_version = newest if each.api_key == 1 else each.max_version
        cluster.broker.on(api_versions.ApiVersionsRequest, offered)

        async def body(consumer: Consumer) -> None:
            consumer.assign([T0])
            assert await values(consumer, 1) == [b"a"]

        consuming(cluster, body)
        topic = cluster.asked_for(fetch.FetchRequest)[0].topics[0]
        assert topic.topic == expected[0]
        assert expected[1] is None or topic.topic_id == expected[1]


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_what_metadata_cures_leads_to_new_metadata_and_goes_on(code: ErrorCode) -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    cluster.errors[fetch.FetchRequest] = [code]

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        cluster.leader_epoch = 4
        assert await values(consumer, 1) == [b"a"]

    consuming(cluster, body)
    assert len(cluster.asked_for(metadata.MetadataRequest)) >= 2
    assert cluster.asked_for(fetch.FetchRequest)[-1].topics[0].partitions[0].current_leader_epoch == 4


def test_a_lost_connection_is_opened_again_and_nothing_is_skipped() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")
    answers = [HANG_UP]
    serve = cluster.broker.answer_to(fetch.FetchRequest)
    cluster.broker.on(fetch.FetchRequest, lambda *asked: answers.pop() if answers else serve(*asked))

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 2) == [b"a", b"b"]

    consuming(cluster, body)


def test_an_error_that_stays_is_raised_with_the_partition_it_is_about() -> None:
    cluster = FakeCluster()
    cluster.errors[fetch.FetchRequest] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="t-0 cannot be read: You are not allowed"):
            await consumer.poll()
        cluster.append(b"a")
        assert await values(consumer, 1) == [b"a"]

    consuming(cluster, body)


def test_a_topic_that_is_not_there_is_told_to_who_asked_for_its_partitions() -> None:
    async def body(consumer: Consumer) -> None:
        consumer.assign([TopicPartition("nix", 0)])
        with pytest.raises(KafkaError, match='there is no topic "nix"'):
            await consumer.poll()

    consuming(FakeCluster(), body)


# ---- positions


def test_the_reset_policy_says_where_to_begin() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def earliest(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]
        assert await consumer.lag() == {T0: 1}

    async def latest(consumer: Consumer) -> None:
        consumer.assign([T0])
        while consumer.position(T0) is None:
            await consumer.poll(timeout_ms=10)
        assert await consumer.lag() == {T0: 0}
        cluster.append(b"c")
        assert await values(consumer, 1) == [b"c"]

    async def none(consumer: Consumer) -> None:
        consumer.assign([T0])
        with pytest.raises(KafkaError, match="t-0 has no position"):
            await consumer.poll()
        consumer.seek(T0, 1)
        assert await values(consumer, 1) == [b"b"]

    consuming(cluster, earliest)
    consuming(cluster, latest, auto_offset_reset="latest")
    consuming(cluster, none, auto_offset_reset="none")


def test_seeking_by_offset_time_and_to_the_ends() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]
        consumer.seek(T0, 2)
        assert await values(consumer, 1) == [b"c"]
        await consumer.seek_to(1_001)
        assert await values(consumer, 1) == [b"b"]
        await consumer.seek_to(5_000)
        assert consumer.position(T0) == 3
        await consumer.seek_to(OffsetSpec.EARLIEST, [T0])
        assert await values(consumer, 3) == [b"a", b"b", b"c"]
        with pytest.raises(ValueError, match="t-9 is not assigned"):
            consumer.seek(TopicPartition("t", 9), 0)

    consuming(cluster, body)


def test_a_position_out_of_range_is_reset_by_the_policy_and_not_to_what_was_committed() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")
    cluster.log_start_offset = 2
    cluster.committed[T0] = 0

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"c"]

    consuming(cluster, body, group_id="g")


def test_a_lookup_that_fails_for_a_while_is_repeated() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")
    cluster.errors[list_offsets.ListOffsetsRequest] = [ErrorCode.LEADER_NOT_AVAILABLE]

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]

    consuming(cluster, body)


def test_partitions_that_stay_assigned_keep_their_position() -> None:
    cluster = FakeCluster(partitions=2)
    cluster.append(b"a", b"b")
    cluster.append(b"c", partition=1)

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await values(consumer, 1) == [b"a"]
        consumer.assign([T0, TopicPartition("t", 1)])
        assert sorted(each or b"" for each in await values(consumer, 2)) == [b"b", b"c"]
        consumer.assign([])
        assert consumer.assignment == frozenset()
        assert await consumer.poll(timeout_ms=10) == []

    consuming(cluster, body)


# ---- commits without a group's members


def test_what_was_handed_out_is_committed_when_it_is_asked_for_and_on_closing() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        assert await consumer.committed([T0]) == {}
        await values(consumer, 1)
        await consumer.commit()
        assert cluster.committed == {T0: 1}
        assert (await consumer.committed([T0]))[T0].offset == 1
        await consumer.commit({T0: 0})
        assert cluster.committed == {T0: 0}
        await values(consumer, 1)

    consuming(cluster, body, group_id="g")
    assert cluster.committed == {T0: 2}
    assert cluster.asked_for(offsets.OffsetCommitRequest)[0].generation_id_or_member_epoch == -1


def test_without_automatic_commits_nobody_commits_but_the_application() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        await values(consumer, 1)

    consuming(cluster, body, group_id="g", enable_auto_commit=False)
    assert cluster.committed == {}


def test_automatic_commits_happen_when_the_application_comes_back() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        await values(consumer, 1)
        while cluster.committed != {T0: 1}:
            await consumer.poll(max_records=0, timeout_ms=10)

    consuming(cluster, body, group_id="g", auto_commit_interval_ms=20)


def test_an_automatic_commit_knows_nothing_of_what_is_just_being_handed_out() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        await values(consumer, 1)
        await asyncio.sleep(0.03)  # until an automatic commit is due
        assert len(await consumer.poll(max_records=1)) == 1
        # The position before the first record may have been committed, too.
        while not cluster.committed.get(T0):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert cluster.committed == {T0: 1}

    consuming(cluster, body, group_id="g", auto_commit_interval_ms=20)


def test_a_record_whose_processing_failed_is_not_committed() -> None:
    cluster = FakeCluster()
    cluster.append(b"a", b"b", b"c")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        async for record in consumer:
            if record.value == b"b":
                raise LookupError("b")

    with pytest.raises(LookupError):
        consuming(cluster, body, group_id="g")
    assert cluster.committed == {T0: 1}


def test_a_commit_that_the_coordinator_refuses_is_raised_and_one_that_moved_is_repeated() -> None:
    cluster = FakeCluster()
    cluster.append(b"a")

    async def body(consumer: Consumer) -> None:
        consumer.assign([T0])
        await values(consumer, 1)
        cluster.errors[offsets.OffsetCommitRequest] = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
            await consumer.commit()
        cluster.errors[offsets.OffsetCommitRequest] = [ErrorCode.NOT_COORDINATOR]
        await consumer.commit()
        assert cluster.committed == {T0: 1}

    consuming(cluster, body, group_id="g")
    assert len(cluster.asked_for(coordinator.FindCoordinatorRequest)) == 2


# ---- mistakes


def test_what_does_not_go_together_is_refused() -> None:
    async def grouped(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="has subscribed"):
            consumer.assign([T0])

    async def alone(consumer: Consumer) -> None:
        with pytest.raises(ValueError, match="subscribe needs a group_id"):
            consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="t-0 is not assigned"):
            consumer.position(T0)
        with pytest.raises(ValueError, match="commits need a group_id"):
            await consumer.commit()
        consumer.assign([T0])
        waiting = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await consumer.poll()
        waiting.cancel()

    consuming(FakeCluster(), grouped, group_id="g")
    consuming(FakeCluster(), alone)
    with pytest.raises(
        ValueError, match="partition_assignment_strategy cannot be 'fair': choose from range, "
    ):
        Consumer(partition_assignment_strategy=["fair"])


def test_a_consumer_that_is_not_open_says_so() -> None:
    async def body() -> None:
        consumer = Consumer("localhost:1", group_id="g")
        with pytest.raises(RuntimeError, match="not open"):
            await consumer.poll()
        with pytest.raises(RuntimeError, match="not open"):
            consumer.subscribe(["t"])
        with pytest.raises(CannotConnectError, match="could not reach localhost:1"):
            await consumer.__aenter__()
        with pytest.raises(RuntimeError, match="not open"):
            _ = [record async for record in consumer]
        await consumer.close()

    asyncio.run(body())


def test_a_broker_without_groups_is_an_error_and_not_a_long_wait() -> None:
    cluster = FakeCluster()
    offered = all_versions()
    offered.api_keys = [each for each in offered.api_keys if each.api_key != 11]
    cluster.broker.on(api_versions.ApiVersionsRequest, offered)

    async def body(consumer: Consumer) -> None:
        consumer.subscribe(["t"])
        with pytest.raises(KafkaError, match="does not serve JOIN_GROUP"):
            await consumer.poll()

    consuming(cluster, body, group_id="g")
    assert cluster.asked_for(groups.JoinGroupRequest) == []
