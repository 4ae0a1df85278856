"""Nothing is told of groups before it is committed: neither to who wrote it, nor to who only asks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.coordinators.test_group_shard import run
from tests.unit.server.group_shards import Hosted, ask, commit_request, committed

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.group_admin import ListGroupsRequest
from ottla.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.server.coordinators.group_shard import GroupShard

FETCH = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.close()


def test_an_answer_waits_until_its_records_are_committed(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        hosted.hold_watermark()
        answer = asyncio.ensure_future(ask(shard, commit_request("g", {0: 7})))
        await asyncio.sleep(0)
        assert not answer.done()
        hosted.release_watermark()
        assert (await answer).topics[0].partitions[0].error_code == 0

    run(hosted, scenario)


def test_an_offset_is_told_when_it_is_committed_and_not_before(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        hosted.hold_watermark()
        commit = ask(shard, commit_request("g", {0: 7}))
        fetched, listed = ask(shard, FETCH), ask(shard, ListGroupsRequest(), 4)
        await asyncio.sleep(0.01)
        assert not fetched.done()
        assert not listed.done()
        hosted.release_watermark()
        await commit
        assert (await fetched).groups[0].topics[0].partitions[0].committed_offset == 7
        assert [group.group_id for group in (await listed).groups] == ["g"]
        assert committed(shard, "g") == {("t", 0): 7}

    run(hosted, scenario)


def test_an_offset_that_was_never_committed_is_not_told(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        hosted.hold_watermark()
        commit = ask(shard, commit_request("g", {0: 7}))
        fetched = ask(shard, FETCH)
        hosted.lose_leadership()
        for refused in (commit, fetched):
            with pytest.raises(KafkaError) as caught:
                await refused
            assert caught.value.code is ErrorCode.NOT_COORDINATOR

    run(hosted, scenario)


def test_a_shard_ends_with_its_leadership_even_if_the_broker_leads_again(hosted: Hosted) -> None:
    shard = hosted.shard()
    assert shard.is_current
    hosted.lose_leadership()
    hosted.regain_leadership()
    assert hosted.partition.replica.is_leader
    assert not shard.is_current
    assert hosted.shard().is_current


def test_a_loaded_shard_tells_nothing_that_is_not_committed_yet(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        hosted.hold_watermark()
        commit = ask(shard, commit_request("g", {0: 7}))
        successor = hosted.shard()
        await successor.load()
        fetched = ask(successor, FETCH)
        await asyncio.sleep(0)
        assert not fetched.done()
        hosted.release_watermark()
        await commit
        assert (await fetched).groups[0].topics[0].partitions[0].committed_offset == 7
        successor.unload()

    run(hosted, scenario)
