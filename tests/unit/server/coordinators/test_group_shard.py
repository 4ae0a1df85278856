import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.group_shards import (
    Hosted,
    ask,
    commit_request,
    committed,
    described,
    heartbeat,
    join_request,
    pair,
    stable_pair,
    sync_request,
)

from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import TopicsDeleted
from ottla.group.records import GroupMetadataValue, OffsetCommitKey
from ottla.runtime.threads import OsThreads
from ottla.server.coordinators.group_shard import GroupShard
from ottla.server.partitions.flushing import Flusher

DEADLINE_S = 10.0


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.close()


def run(hosted: Hosted, scenario: Callable[[GroupShard], Awaitable[Any]]) -> Any:
    """Carry a scenario out with a shard that has begun; everything that it started has ended then."""

    async def carry_out() -> Any:
        flusher = Flusher(OsThreads())
        shard = hosted.shard(flusher)
        shard.begin()
        try:
            return await asyncio.wait_for(_awaited(scenario(shard)), DEADLINE_S)
        finally:
            shard.unload()
            await flusher.stop()

    return asyncio.run(carry_out())


async def _awaited(scenario: Awaitable[Any]) -> Any:
    return await scenario


def error_of(action: Callable[[], Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        action()
    return caught.value.code


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


# Writing and answering


def test_what_is_answered_is_in_the_log_and_in_force(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        answer = ask(shard, commit_request("g", {0: 7, 1: 8}))
        assert [item.error_code for item in answer.topics[0].partitions] == [0, 0]
        assert committed(shard, "g") == {("t", 0): 7, ("t", 1): 8}

    run(hosted, scenario)
    assert [(key, value.offset) for key, value in hosted.records()] == [
        (OffsetCommitKey("g", "t", 0), 7),
        (OffsetCommitKey("g", "t", 1), 8),
    ]
    assert len(hosted.batches()) == 1


def test_those_who_wait_for_a_leader_are_answered_when_its_word_is_committed(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        generation, leader, follower = await pair(shard, "g")
        hosted.hold_watermark()
        waits = ask(shard, sync_request("g", generation, follower), 5)
        leads = asyncio.ensure_future(ask(shard, sync_request("g", generation, leader, leader, follower), 5))
        await asyncio.sleep(0.01)
        assert not waits.done()
        assert not leads.done()
        hosted.release_watermark()
        assert (await waits).assignment == follower.encode()
        assert (await leads).assignment == leader.encode()

    run(hosted, scenario)


def test_an_answer_waits_for_the_disk_where_the_topic_asks_for_it(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, flush_messages=1)

    async def scenario(shard: GroupShard) -> None:
        hosted.disk.may_sync.clear()
        answer = asyncio.ensure_future(ask(shard, commit_request("g", {0: 7})))
        await until(lambda: hosted.disk.syncs_of("__consumer_offsets") > 0)
        assert not answer.done()
        hosted.disk.may_sync.set()
        assert (await answer).topics[0].partitions[0].error_code == 0

    run(hosted, scenario)
    hosted.close()


def test_what_cannot_be_made_durable_is_refused(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, flush_messages=1)

    async def scenario(shard: GroupShard) -> ErrorCode:
        hosted.disk.fails_sync = lambda path: path.endswith(".log")
        with pytest.raises(KafkaError) as caught:
            await ask(shard, commit_request("g", {0: 7}))
        return caught.value.code

    assert run(hosted, scenario) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    hosted.disk.fails_sync = lambda path: False
    hosted.close()


def test_what_cannot_be_written_changes_nothing(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {0: 7}))
        hosted.disk.is_full = lambda path: path.endswith(".log")
        refused = error_of(lambda: ask(shard, commit_request("g", {0: 8, 1: 9})))
        assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert committed(shard, "g") == {("t", 0): 7}
        hosted.disk.is_full = lambda path: False
        assert hosted.partition.log.log_end_offset == 1
        ask(shard, commit_request("g", {0: 10}))
        assert committed(shard, "g") == {("t", 0): 10}

    run(hosted, scenario)


def test_nobody_gets_an_assignment_that_cannot_be_written(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        generation, leader, follower = await pair(shard, "g")
        waits = ask(shard, sync_request("g", generation, follower), 5)
        hosted.disk.is_full = lambda path: path.endswith(".log")
        refused = error_of(lambda: ask(shard, sync_request("g", generation, leader, leader, follower), 5))
        assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(KafkaError) as caught:
            await waits
        assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        hosted.disk.is_full = lambda path: False
        waits = ask(shard, sync_request("g", generation, follower), 5)
        assert (
            ask(shard, sync_request("g", generation, leader, leader, follower), 5).assignment
            == leader.encode()
        )
        assert (await waits).assignment == follower.encode()

    run(hosted, scenario)


# Batches


def test_many_records_become_several_batches_that_each_fit(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, max_message_bytes=1000)

    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {index: index for index in range(200)}))

    run(hosted, scenario)
    sizes = [batch.size_bytes for batch in hosted.batches()]
    assert len(sizes) > 10
    assert max(sizes) <= 1000
    assert [(key.partition, value.offset) for key, value in hosted.records()] == [(n, n) for n in range(200)]
    hosted.close()


def test_no_batch_is_larger_than_a_segment(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, segment_bytes=2000)

    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {index: index for index in range(200)}))
        assert len(committed(shard, "g")) == 200

    run(hosted, scenario)
    assert max(batch.size_bytes for batch in hosted.batches()) <= 2000
    assert len(hosted.partition.log.extent.segments) > 5
    hosted.close()


def test_a_hundred_thousand_partitions_are_committed_at_once(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {index: index for index in range(100_000)}))
        found = committed(shard, "g")
        assert all(found["t", index] == index for index in range(100_000))

    run(hosted, scenario)
    assert max(batch.size_bytes for batch in hosted.batches()) <= hosted.partition.config.max_message_bytes
    assert hosted.partition.log.log_end_offset == 100_000


def test_one_record_that_is_too_large_for_the_others_has_a_batch_for_itself(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, max_message_bytes=300)

    async def scenario(shard: GroupShard) -> None:
        large = commit_request("g", {0: 1, 1: 2, 2: 3})
        large.topics[0].partitions[1].committed_metadata = "m" * 2000
        ask(shard, large)
        assert committed(shard, "g") == {("t", 0): 1, ("t", 1): 2, ("t", 2): 3}

    run(hosted, scenario)
    assert [batch.records_count for batch in hosted.batches()] == [1, 1, 1]
    hosted.close()


def test_if_only_a_part_can_be_written_that_part_is_in_force_and_the_answer_is_an_error(
    tmp_path: Path,
) -> None:
    hosted = Hosted(tmp_path, max_message_bytes=300)

    async def scenario(shard: GroupShard) -> dict[tuple[str, int], int]:
        hosted.disk.is_full = lambda path: path.endswith(".log") and os.path.getsize(path) > 500
        refused = error_of(lambda: ask(shard, commit_request("g", {index: index for index in range(50)})))
        assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        hosted.disk.is_full = lambda path: False
        return committed(shard, "g")

    found = run(hosted, scenario)
    assert 0 < len(found) < 50
    assert found == {(key.topic, key.partition): value.offset for key, value in hosted.records()}
    hosted.close()


# Loading


async def state_of(shard: GroupShard) -> tuple[Any, Any]:
    return described(shard, "g"), committed(shard, "h")


def test_a_loaded_shard_says_what_the_former_one_said(hosted: Hosted) -> None:
    async def live(shard: GroupShard) -> tuple[Any, Any]:
        await stable_pair(shard, "g")
        ask(shard, commit_request("h", {index: index for index in range(2000)}))
        ask(shard, commit_request("h", {5: 55}))
        return await state_of(shard)

    async def loaded() -> tuple[Any, Any]:
        shard = hosted.shard()
        await shard.load()
        try:
            return await state_of(shard)
        finally:
            shard.unload()

    before = run(hosted, live)
    assert asyncio.run(loaded()) == before
    assert before[0].group_state == "Stable"
    assert len(before[0].members) == 2
    assert before[1]["t", 5] == 55


def test_nothing_is_answered_before_the_last_record_is_replayed(hosted: Hosted) -> None:
    async def live(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {index: index for index in range(2000)}))

    async def load() -> int:
        shard = hosted.shard()
        loading = asyncio.ensure_future(shard.load())
        turns = 0
        while not shard.is_loaded:
            for request in (commit_request("g", {0: 1}), join_request("g")):
                assert error_of(lambda r=request: ask(shard, r)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # type: ignore[misc]
            await asyncio.sleep(0)
            turns += 1
        await loading
        assert committed(shard, "g") == {("t", index): index for index in range(2000)}
        shard.unload()
        return turns

    run(hosted, live)
    assert asyncio.run(load()) > 5, "requests of others had no turn while it loaded"


def test_members_have_a_whole_session_to_be_heard_of_after_a_load(hosted: Hosted) -> None:
    async def live(shard: GroupShard) -> tuple[int, str, str]:
        return await stable_pair(shard, "g")

    generation, leader, follower = run(hosted, live)

    async def scenario() -> list[int]:
        shard = hosted.shard()
        await shard.load()
        answers = [heartbeat(shard, "g", generation, member) for member in (leader, follower)]
        shard.unload()
        return answers

    assert asyncio.run(scenario()) == [0, 0]


def test_a_shard_that_is_unloaded_while_it_loads_never_answers(hosted: Hosted) -> None:
    async def live(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {index: index for index in range(2000)}))

    async def scenario() -> ErrorCode:
        shard = hosted.shard()
        loading = asyncio.ensure_future(shard.load())
        await asyncio.sleep(0)
        shard.unload()
        await loading
        assert not shard.is_loaded
        return error_of(lambda: ask(shard, commit_request("g", {0: 1})))

    run(hosted, live)
    assert asyncio.run(scenario()) == ErrorCode.NOT_COORDINATOR


# Time


def test_a_member_that_is_silent_for_too_long_is_gone(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        alone = ask(shard, join_request("g", instance="one", session_ms=30))
        answer = alone if not asyncio.isfuture(alone) else await alone
        ask(shard, sync_request("g", answer.generation_id, answer.member_id, answer.member_id), 5)
        assert described(shard, "g").group_state == "Stable"
        await until(lambda: described(shard, "g").group_state == "Empty")

    run(hosted, scenario)
    *_, (_, last) = hosted.records()
    assert isinstance(last, GroupMetadataValue)
    assert not last.members


def test_the_first_members_of_a_group_wait_for_others(hosted: Hosted) -> None:
    hosted.settings = replace(hosted.settings, initial_rebalance_delay_ms=50)

    async def scenario(shard: GroupShard) -> None:
        joins = [ask(shard, join_request("g", instance=name)) for name in ("one", "two")]
        assert not any(join.done() for join in joins)
        answers = await asyncio.gather(*joins)
        assert [answer.generation_id for answer in answers] == [1, 1]

    run(hosted, scenario)


def test_a_deadline_that_cannot_be_written_is_survived(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        alone = ask(shard, join_request("g", instance="one", session_ms=30))
        answer = alone if not asyncio.isfuture(alone) else await alone
        ask(shard, sync_request("g", answer.generation_id, answer.member_id, answer.member_id), 5)
        hosted.disk.is_full = lambda path: path.endswith(".log")
        await until(lambda: described(shard, "g").group_state != "Stable")
        hosted.disk.is_full = lambda path: False
        ask(shard, commit_request("other", {0: 1}))
        assert committed(shard, "other") == {("t", 0): 1}

    run(hosted, scenario)


def test_offsets_that_are_too_old_are_forgotten_piece_by_piece(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, max_message_bytes=10_000)
    hosted.settings = replace(
        hosted.settings, offsets_retention_minutes=0, offsets_retention_check_interval_ms=20
    )

    async def scenario(shard: GroupShard) -> None:
        for group in range(10):
            ask(shard, commit_request(f"g{group}", {index: index for index in range(500)}))
        await until(lambda: not any(committed(shard, f"g{group}") for group in range(10)))

    run(hosted, scenario)
    assert max(batch.size_bytes for batch in hosted.batches()) <= 10_000
    assert sum(value is None for _, value in hosted.records()) == 5000
    hosted.close()


# Ends


def test_offsets_of_a_deleted_topic_are_forgotten(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {0: 7}, topic="gone"))
        ask(shard, commit_request("g", {0: 8}, topic="kept"))
        assert shard.committed_topics == {"gone", "kept"}
        shard.tell(TopicsDeleted(frozenset({"gone"})))
        assert committed(shard, "g") == {("kept", 0): 8}

    run(hosted, scenario)
    *_, (key, value) = hosted.records()
    assert (key.topic, value) == ("gone", None)


def test_a_command_that_cannot_be_written_is_survived(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {0: 7}, topic="gone"))
        hosted.disk.is_full = lambda path: path.endswith(".log")
        shard.tell(TopicsDeleted(frozenset({"gone"})))
        assert committed(shard, "g") == {("gone", 0): 7}

    run(hosted, scenario)


def test_everybody_who_waits_is_sent_away_when_the_shard_is_unloaded(hosted: Hosted) -> None:
    hosted.settings = replace(hosted.settings, initial_rebalance_delay_ms=60_000)

    async def scenario(shard: GroupShard) -> None:
        joins = [ask(shard, join_request(group, instance="one")) for group in ("g", "h")]
        shard.unload()
        assert [(await join).error_code for join in joins] == [ErrorCode.NOT_COORDINATOR] * 2
        assert error_of(lambda: ask(shard, join_request("g"))) == ErrorCode.NOT_COORDINATOR

    run(hosted, scenario)


def test_also_those_are_sent_away_who_wait_for_a_watermark(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        generation, leader, follower = await pair(shard, "g")
        hosted.hold_watermark()
        waits = ask(shard, sync_request("g", generation, follower), 5)
        leads = asyncio.ensure_future(ask(shard, sync_request("g", generation, leader, leader, follower), 5))
        await asyncio.sleep(0)
        shard.unload()
        hosted.partition.close()
        for answer in (waits, leads):
            with pytest.raises(KafkaError) as caught:
                await answer
            assert caught.value.code == ErrorCode.NOT_COORDINATOR

    run(hosted, scenario)


def test_who_does_not_listen_any_more_harms_nobody(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        generation, leader, follower = await pair(shard, "g")
        waits = ask(shard, sync_request("g", generation, follower), 5)
        waits.cancel()
        assert (
            ask(shard, sync_request("g", generation, leader, leader, follower), 5).assignment
            == leader.encode()
        )

    run(hosted, scenario)
