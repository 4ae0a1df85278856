"""A group shard and transactions: what it writes, what counts after the marker, who is refused (EOS-3)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.coordinators.test_group_shard import error_of, run
from tests.unit.server.group_shards import Hosted, ask, commit_request, committed

from ottla.errors import ErrorCode
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.records.control import TransactionMarker
from ottla.server.coordinators.group_shard import GroupShard

PRODUCER = 77


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.close()


def commit_within(offsets: dict[int, int], epoch: int = 3) -> TxnOffsetCommitRequest:
    items = [TxnOffsetCommitRequestPartition(index, offset, -1, "") for index, offset in offsets.items()]
    topics = [TxnOffsetCommitRequestTopic("t", items)]
    return TxnOffsetCommitRequest("txn", "g", PRODUCER, epoch, topics=topics)


def marker(*, is_commit: bool = True, epoch: int = 3) -> TransactionMarker:
    return TransactionMarker(PRODUCER, epoch, 5, is_commit)


def stable(shard: GroupShard) -> Any:
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True)
    return ask(shard, request)


def error_and_offset(answer: Any) -> tuple[int, int]:
    found = answer.groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset


def test_offsets_of_a_transaction_are_transactional_batches_of_its_producer(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        for offset in (7, 8):
            answer = ask(shard, commit_within({0: offset, 1: offset}), 5)
            assert [item.error_code for item in answer.topics[0].partitions] == [0, 0]
        assert shard.end_transaction(marker()) == 5
        assert committed(shard, "g") == {("t", 0): 8, ("t", 1): 8}

    run(hosted, scenario)
    *data, control = hosted.batches()
    assert [(batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in data] == [
        (PRODUCER, 3, 0),
        (PRODUCER, 3, 0),
    ]
    assert all(batch.is_transactional and not batch.is_control for batch in data)
    assert control.is_control
    assert hosted.partition.log.first_unstable_offset is None


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 9), (False, 1)])
def test_the_marker_decides_here_and_in_the_next_coordinator(
    hosted: Hosted, is_commit: bool, expected: int
) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_request("g", {0: 1}))
        ask(shard, commit_within({0: 9}), 5)
        assert error_and_offset(stable(shard)) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert committed(shard, "g") == {("t", 0): 1}
        next_one = hosted.shard()
        await next_one.load()
        assert error_and_offset(stable(next_one)) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        next_one.unload()

        shard.end_transaction(marker(is_commit=is_commit))
        assert error_and_offset(stable(shard)) == (ErrorCode.NONE, expected)
        next_one = hosted.shard()
        await next_one.load()
        assert error_and_offset(stable(next_one)) == (ErrorCode.NONE, expected)
        next_one.unload()

    run(hosted, scenario)


def test_an_offset_is_told_when_its_marker_is_committed_and_not_before(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_within({0: 9}), 5)
        hosted.hold_watermark()
        end = shard.end_transaction(marker())
        assert not hosted.partition.is_acknowledged(end, acks_all=True)
        told = stable(shard)
        await asyncio.sleep(0.01)
        assert not told.done()
        hosted.release_watermark()
        assert error_and_offset(await told) == (ErrorCode.NONE, 9)

    run(hosted, scenario)


def test_a_producer_that_a_newer_one_fenced_is_told_so_and_writes_nothing(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_within({0: 9}, epoch=3), 5)
        shard.end_transaction(marker(is_commit=False, epoch=4))
        end = hosted.partition.log.log_end_offset
        late = commit_within({0: 10}, epoch=3)
        assert error_of(lambda: ask(shard, late, 5)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert hosted.partition.log.log_end_offset == end
        assert error_and_offset(stable(shard)) == (ErrorCode.NONE, -1)
        ask(shard, commit_within({0: 11}, epoch=4), 5)
        shard.end_transaction(marker(epoch=4))
        assert committed(shard, "g") == {("t", 0): 11}

    run(hosted, scenario)


def test_a_marker_for_a_shard_that_is_not_there_is_for_another_leader(hosted: Hosted) -> None:
    loading = hosted.shard()
    assert error_of(lambda: loading.end_transaction(marker())) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def scenario(shard: GroupShard) -> None:
        hosted.lose_leadership()
        assert error_of(lambda: shard.end_transaction(marker())) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        hosted.regain_leadership()
        assert error_of(lambda: shard.end_transaction(marker())) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        shard.unload()
        assert error_of(lambda: shard.end_transaction(marker())) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(hosted, scenario)
    assert not hosted.batches()


def test_topics_with_pending_offsets_are_known(hosted: Hosted) -> None:
    async def scenario(shard: GroupShard) -> None:
        ask(shard, commit_within({0: 9}), 5)
        assert shard.committed_topics == {"t"}
        shard.forget_topics(["t"])
        shard.end_transaction(marker())
        assert committed(shard, "g") == {}

    run(hosted, scenario)
