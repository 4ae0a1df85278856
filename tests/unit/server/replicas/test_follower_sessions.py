"""A leader's sessions of its followers, asked with fetches as followers send them (REP-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.integration.peer import batch
from tests.integration.replicas import Cluster, Node, running

from ottla.errors import ErrorCode
from ottla.log.writing.append import Appended
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.replication.events import Assigned
from ottla.runtime.clock import monotonic_ms

VERSION = 18


class Follower:
    """Fetches from a leader as a broker does, over a connection for each request."""

    def __init__(
        self, cluster: Cluster, replica_id: int, broker_epoch: int, topic_id: UUID, leader: int = 1
    ) -> None:
        self._cluster = cluster
        self._leader = leader
        self._topic_id = topic_id
        self.state = ReplicaState(replica_id, broker_epoch)
        self.session_id = 0
        self.epoch = 0

    async def fetch(
        self,
        wants: dict[int, int],
        *,
        leader_epoch: int = 0,
        last_fetched_epoch: int = -1,
        log_start: int = 0,
        forgotten: tuple[int, ...] = (),
        wait_ms: int = 0,
        **options: Any,
    ) -> FetchResponse:
        """Name partitions with their offsets in a fetch of the session."""
        named = [
            FetchPartition(
                partition=index,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_fetched_epoch,
                log_start_offset=log_start,
                partition_max_bytes=1 << 20,
            )
            for index, offset in wants.items()
        ]
        request = FetchRequest(
            replica_state=self.state,
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=named)] if named else [],
            forgotten_topics_data=(
                [ForgottenTopic(topic_id=self._topic_id, partitions=list(forgotten))] if forgotten else []
            ),
            **options,
        )
        response: FetchResponse = await self._cluster.ask(self._leader, request, VERSION)
        if not response.error_code:
            self.session_id, self.epoch = response.session_id, self.epoch + 1
        return response


def told(response: FetchResponse) -> dict[int, Any]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


async def a_leader(cluster: Cluster, partitions: int = 2) -> tuple[Node, Follower]:
    """Node 1 leads all partitions, and node 2, which follows, is played by the test."""
    topic_id = await cluster.create_topic("t", *([(1, 2)] * partitions))
    await cluster.nodes[2].fetchers.stop()
    leader = cluster.nodes[1]
    epoch = cluster.nodes[2].quorum.broker_epoch
    return leader, Follower(cluster, 2, epoch, topic_id)


async def append(leader: Node, *values: bytes, index: int = 0) -> None:
    (outcome,) = leader.partition("t", index).append([memoryview(batch(*values))], leader.services.now_ms())
    assert isinstance(outcome, Appended)


def test_the_first_fetch_tells_all_and_the_next_ones_what_is_new(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            await append(leader, b"a")
            first = told(await follower.fetch({0: 0, 1: 0}))
            assert {index: bool(data.records) for index, data in first.items()} == {0: True, 1: False}
            # Held now by all: the watermark moves, and that is news.
            second = told(await follower.fetch({0: 1}, last_fetched_epoch=0))
            assert {index: data.high_watermark for index, data in second.items()} == {0: 1}
            assert told(await follower.fetch({})) == {}
            await append(leader, b"b", index=1)
            assert list(told(await follower.fetch({}))) == [1]

    asyncio.run(scenario())


def test_a_fetch_that_waits_is_answered_by_an_append(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            await follower.fetch({0: 0, 1: 0})
            waiting = asyncio.ensure_future(follower.fetch({}, wait_ms=10_000))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await append(leader, b"a", index=1)
            async with asyncio.timeout(1):
                assert list(told(await waiting)) == [1]

    asyncio.run(scenario())


def test_a_fetch_that_waits_is_told_of_another_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            await follower.fetch({0: 0, 1: 0})
            waiting = asyncio.ensure_future(follower.fetch({}, wait_ms=10_000))
            await asyncio.sleep(0.01)
            leader.partition("t", 1).assign(Assigned(2, 1, (1, 2), (1, 2), 9), monotonic_ms())
            answers = told(await waiting)
            errors = {index: data.error_code for index, data in answers.items()}
            assert errors == {1: ErrorCode.FENCED_LEADER_EPOCH}

    asyncio.run(scenario())


def test_records_that_do_not_fit_come_with_the_next_fetch_others_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            for index in (0, 1):
                await append(leader, b"x" * 1000, index=index)
                await append(leader, b"y" * 1000, index=index)
            first = told(await follower.fetch({0: 0, 1: 0}, max_bytes=1100))
            assert bool(first[0].records)
            assert not first[1].records
            second = told(await follower.fetch({}, max_bytes=1100))
            assert list(second) == [1]

    asyncio.run(scenario())


def test_only_an_offset_that_is_proven_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster, 1)
            await append(leader, b"a", b"b", b"c")
            replica = leader.partition().replica
            diverging = told(await follower.fetch({0: 7}, last_fetched_epoch=0))[0]
            assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (0, 3)
            beyond = told(await follower.fetch({0: 7}))[0]
            assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            for epoch, error in ((1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NONE)):
                answer = told(await follower.fetch({0: 0}, leader_epoch=epoch))[0]
                assert answer.error_code == error
            assert replica.high_watermark == 0
            await follower.fetch({0: 2}, last_fetched_epoch=0)
            assert replica.high_watermark == 2

    asyncio.run(scenario())


def test_a_follower_behind_the_log_start_is_told_where_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster, 1)
            await append(leader, b"a", b"b", b"c")
            await follower.fetch({0: 3}, last_fetched_epoch=0)
            leader.partition().advance_log_start_offset(2)
            answer = told(await follower.fetch({0: 0}))[0]
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (answer.log_start_offset, answer.high_watermark) == (2, 3)

    asyncio.run(scenario())


def test_what_was_held_under_another_leader_epoch_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silence of a session says that nothing changed, but not across a change of leaders."""

    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster, 1)
            await append(leader, b"a", b"b")
            await follower.fetch({0: 2}, last_fetched_epoch=0)
            partition = leader.partition()
            again = Assigned(leader=1, leader_epoch=2, isr=(1, 2), replicas=(1, 2), partition_epoch=2)
            partition.assign(again, monotonic_ms())
            monkeypatch.setattr("ottla.replication.follower_progress.REFRESH_MS", -1)
            partition.tick(monotonic_ms())
            state = partition.replica.followers[2]
            assert state.log_end_offset == -1

    asyncio.run(scenario())


def test_sessions_are_refused_that_are_not_the_followers_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            _, follower = await a_leader(cluster)
            await follower.fetch({0: 0})
            other = Follower(cluster, 3, 99, UUID(int=99))
            other.session_id, other.epoch = follower.session_id, follower.epoch
            assert (await other.fetch({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            follower.epoch += 1
            assert (await follower.fetch({})).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            former = Follower(cluster, 2, follower.state.replica_epoch - 1, UUID(int=99))
            assert (await former.fetch({0: 0})).error_code == ErrorCode.STALE_BROKER_EPOCH

    asyncio.run(scenario())


def test_a_new_session_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            await follower.fetch({0: 0, 1: 0})
            follower.epoch = 0
            await follower.fetch({0: 0, 1: 0})
            assert len(leader.services.follower_sessions) == 1
            # One that lost its memory does not name the old one: then its partitions are taken over.
            forgetful = Follower(cluster, 2, follower.state.replica_epoch, leader.partition().topic_id)
            await forgetful.fetch({0: 0, 1: 0})
            assert len(leader.partition("t", 0).waiters.cursors) == 1
            # Or its first fetch came late, and it goes on with the second session: it has to name all again.
            assert (await follower.fetch({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            follower.session_id = follower.epoch = 0
            assert set(told(await follower.fetch({0: 0, 1: 0}))) == {0, 1}
            await append(leader, b"a", index=1)
            assert list(told(await follower.fetch({}))) == [1]

    asyncio.run(scenario())


def test_a_forgotten_partition_is_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            await follower.fetch({0: 0, 1: 0})
            await append(leader, b"a")
            assert told(await follower.fetch({}, forgotten=(0,))) == {}
            assert not leader.partition().waiters.cursors

    asyncio.run(scenario())


def test_a_partition_that_is_not_here_is_an_error_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            _, follower = await a_leader(cluster)
            assert told(await follower.fetch({0: 0, 9: 0}))[9].error_code
            assert told(await follower.fetch({})) == {}

    asyncio.run(scenario())


def test_replicas_that_are_being_moved_get_no_more_than_the_rate_allows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster, 1)
            leader.services.follower_sessions.throttle.limit(100)
            await append(leader, b"x" * 1000)
            partition = leader.partition()
            assert told(await follower.fetch({0: 0}))[0].records
            partition.moves_to({2})
            # One batch comes, however large it is; then the debt has to be waited for.
            assert told(await follower.fetch({}))[0].records
            assert told(await follower.fetch({})) == {}

    asyncio.run(scenario())


def test_sessions_that_nobody_uses_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            leader, follower = await a_leader(cluster)
            await follower.fetch({0: 0})
            leader.services.follower_sessions.expire()
            assert len(leader.services.follower_sessions) == 1
            monkeypatch.setattr("ottla.server.replicas.follower_sessions.IDLE_MS", -1)
            leader.services.follower_sessions.expire()
            assert len(leader.services.follower_sessions) == 0
            assert not leader.partition().waiters.cursors

    asyncio.run(scenario())
