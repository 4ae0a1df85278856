"""When an append is acknowledged, and what is heard when it is not: a real log, a disk that can be slow with
a flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.integration.troubled_disk import TroubledDisk

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replication.events import Assigned, FollowerFetched
from ottla.replication.isr import IsrAnswered, ProposeIsr
from ottla.replication.partition import PartitionReplica
from ottla.runtime.threads import OsThreads
from ottla.server.answers.deferred import Outcome
from ottla.server.partitions.acknowledgement import Acknowledgement, Acknowledgements, Failures
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.followed_log import FollowedLog
from ottla.server.partitions.hosted_partition import HostedPartition

NODE = 1
FOLLOWER = 2
EPOCH = 5
ACKS_ALL = -1
ACKS_LEADER = 1
DEADLINE_S = 10.0
PENDING = "pending"


class Scene:
    """A partition that node 1 leads, records appended to it, and what came of each."""

    def __init__(self, directory: Path, replicas: tuple[int, ...], **settings: Any) -> None:
        self.disk = TroubledDisk()
        config = TopicConfig(**settings)
        log = Log.open(
            self.disk,
            str(directory / "t-0"),
            config,
            recovery_point=0,
            log_start_offset=0,
            clean=True,
            now_ms=0,
            open_files=OpenFiles(),
        )
        self.replicas = replicas
        replica = PartitionReplica(NODE, 0, min_insync_replicas=config.min_insync_replicas)
        self.partition = HostedPartition("t", UUID(int=1), 0, log, replica)
        self.flusher = Flusher(OsThreads())
        self.acknowledgements = Acknowledgements(self.flusher)
        self._partition_epoch = 0
        self.assign()

    def assign(
        self, *, leader: int = NODE, leader_epoch: int = EPOCH, isr: tuple[int, ...] | None = None
    ) -> None:
        """The controller decided."""
        self._partition_epoch += 1
        decided = Assigned(leader, leader_epoch, isr or self.replicas, self.replicas, self._partition_epoch)
        self.partition.assign(decided, 0)

    def append(self) -> int:
        """Append one record; the end offset of it."""
        batch = build_batch([Record(0, 0, None, b"value")])
        (appended,) = self.partition.append([memoryview(batch)], 0)
        assert not isinstance(appended, KafkaError)
        return appended.last_offset + 1

    def wait(self, acks: int, *, timeout_s: float = DEADLINE_S) -> Wait:
        """Append one record and wait for its acknowledgement."""
        wait = Wait()
        end_offset = self.append()
        wait.acknowledgement = self.acknowledgements.wait(
            (self.partition, end_offset), acks, timeout_s, lambda _, failure: wait.heard.append(failure)
        )
        return wait

    def replicate(self) -> None:
        """The follower has everything."""
        end = self.partition.log.log_end_offset
        self.partition.step(FollowerFetched(FOLLOWER, 1, end), 0)

    async def flush_is_under_way(self) -> None:
        await until(lambda: self.disk.syncs_of("t") > 0)


class Wait:
    """One acknowledgement, and what was heard of it."""

    def __init__(self) -> None:
        self.heard: list[KafkaError | None] = []
        self.acknowledgement: Acknowledgement

    def outcome(self) -> ErrorCode | str:
        """NONE, or the error; `done` is called once."""
        if not self.heard:
            return PENDING
        (failure,) = self.heard
        return ErrorCode.NONE if failure is None else failure.code

    async def ended(self) -> ErrorCode | str:
        await until(lambda: bool(self.heard))
        return self.outcome()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@asynccontextmanager
async def leading(
    directory: Path, *, replicas: tuple[int, ...] = (NODE, FOLLOWER), **settings: Any
) -> AsyncIterator[Scene]:
    scene = Scene(directory, replicas, **settings)
    try:
        yield scene
    finally:
        scene.disk.may_sync.set()
        await scene.flusher.stop()
        scene.disk.fails_sync = lambda path: False
        scene.partition.log.close()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


def test_what_is_already_replicated_is_acknowledged_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, replicas=(NODE,)) as scene:
            end_offset = scene.append()
            assert scene.partition.is_acknowledged(end_offset, acks_all=True)
            assert scene.acknowledgements.missing([scene.partition], ACKS_ALL) == []
            assert scene.wait(ACKS_ALL).outcome() is ErrorCode.NONE
            assert scene.wait(ACKS_LEADER).outcome() is ErrorCode.NONE

    run(scenario)


def test_acks_of_the_leader_alone_do_not_wait_for_followers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            scene.append()
            assert scene.acknowledgements.missing([scene.partition], ACKS_LEADER) == []
            assert len(scene.acknowledgements.missing([scene.partition], ACKS_ALL)) == 1

    run(scenario)


def test_flushed_first_and_replicated_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, ottla_flush_on_acks_all=True) as scene:
            wait = scene.wait(ACKS_ALL)
            await until(lambda: scene.partition.flushed.value == 1)
            assert wait.outcome() == PENDING
            scene.replicate()
            assert wait.outcome() is ErrorCode.NONE

    run(scenario)


def test_replicated_first_and_flushed_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, ottla_flush_on_acks_all=True) as scene:
            scene.disk.may_sync.clear()
            wait = scene.wait(ACKS_ALL)
            scene.replicate()
            await scene.flush_is_under_way()
            assert wait.outcome() == PENDING
            scene.disk.may_sync.set()
            assert await wait.ended() is ErrorCode.NONE

    run(scenario)


def test_committed_at_once_and_flushed_then_where_there_is_one_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, replicas=(NODE,), ottla_flush_on_acks_all=True) as scene:
            scene.disk.may_sync.clear()
            wait = scene.wait(ACKS_ALL)
            await scene.flush_is_under_way()
            assert (scene.partition.high_watermark.value, wait.outcome()) == (1, PENDING)
            scene.disk.may_sync.set()
            assert await wait.ended() is ErrorCode.NONE

    run(scenario)


def test_one_flush_serves_all_that_wait_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.may_sync.clear()
            first = scene.wait(ACKS_LEADER)
            await scene.flush_is_under_way()
            second, third = scene.wait(ACKS_LEADER), scene.wait(ACKS_LEADER)
            scene.disk.may_sync.set()
            assert [await wait.ended() for wait in (first, second, third)] == [ErrorCode.NONE] * 3
            # One was under way; the next one served both others.
            assert scene.disk.syncs_of("t") == 2

    run(scenario)


def test_a_flush_that_ends_under_another_leader_acknowledges_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.may_sync.clear()
            wait = scene.wait(ACKS_LEADER)
            await scene.flush_is_under_way()
            scene.assign(leader=FOLLOWER, leader_epoch=EPOCH + 1)
            assert wait.outcome() == PENDING
            scene.disk.may_sync.set()
            assert await wait.ended() is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


def test_a_log_that_is_truncated_before_the_flush_ends_acknowledges_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.may_sync.clear()
            wait = scene.wait(ACKS_LEADER)
            await scene.flush_is_under_way()
            scene.assign(leader=FOLLOWER, leader_epoch=EPOCH + 1)
            scene.disk.may_sync.set()
            FollowedLog(scene.partition).truncate(0, 0)
            assert wait.outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER
            scene.assign(leader_epoch=EPOCH + 2)
            assert await scene.wait(ACKS_LEADER).ended() is ErrorCode.NONE  # of the leadership after that

    run(scenario)


@pytest.mark.parametrize("settings", [{}, {"ottla_flush_on_acks_all": True}])
def test_a_leadership_that_is_lost_ends_the_wait(tmp_path: Path, settings: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, **settings) as scene:
            wait = scene.wait(ACKS_ALL)
            scene.assign(leader=FOLLOWER, leader_epoch=EPOCH + 1)
            assert wait.outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


def test_a_leader_that_is_elected_again_in_the_next_epoch_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            wait = scene.wait(ACKS_ALL)
            scene.assign(leader_epoch=EPOCH + 1)
            assert wait.outcome() == PENDING
            scene.replicate()
            assert wait.outcome() is ErrorCode.NONE

    run(scenario)


def test_a_leader_that_is_elected_again_after_others_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            wait = scene.wait(ACKS_ALL)
            scene.assign(leader_epoch=EPOCH + 2)
            assert wait.outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(scenario)


def test_too_few_in_sync_replicas_end_the_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, min_insync_replicas=2) as scene:
            wait = scene.wait(ACKS_ALL)
            scene.assign(isr=(NODE,))
            assert wait.outcome() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            assert scene.wait(ACKS_ALL).outcome() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    run(scenario)


def test_a_controller_that_accepts_a_smaller_isr_ends_the_wait_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, min_insync_replicas=2) as scene:
            wait = scene.wait(ACKS_ALL)
            proposal = ProposeIsr((NODE,), (-1,), EPOCH, 1)
            scene.partition.step(IsrAnswered(proposal, ErrorCode.NONE, EPOCH, 2, (NODE,)), 0)
            assert wait.outcome() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    run(scenario)


def test_what_takes_too_long_times_out_and_what_comes_then_is_too_late(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            wait = scene.wait(ACKS_ALL, timeout_s=0.01)
            assert await wait.ended() is ErrorCode.REQUEST_TIMED_OUT
            scene.replicate()
            assert wait.outcome() is ErrorCode.REQUEST_TIMED_OUT

    run(scenario)


def test_a_flush_that_takes_too_long_times_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.may_sync.clear()
            assert await scene.wait(ACKS_LEADER, timeout_s=0.01).ended() is ErrorCode.REQUEST_TIMED_OUT

    run(scenario)


def test_a_disk_that_is_full_before_a_flush_begins_is_an_error_now_and_not_later(tmp_path: Path) -> None:
    """Only the file of leader epochs found no room: nothing was synced, so nothing is unknown."""

    async def scenario() -> None:
        async with leading(tmp_path, replicas=(NODE,), flush_messages=1) as scene:
            scene.disk.is_full = lambda path: path.endswith("leader-epoch-checkpoint")
            assert await scene.wait(ACKS_LEADER).ended() is ErrorCode.KAFKA_STORAGE_ERROR
            assert (scene.partition.log.status.refusal, scene.flusher.failures) == (None, 1)
            scene.disk.is_full = lambda path: False
            assert await scene.wait(ACKS_LEADER).ended() is ErrorCode.NONE
            assert scene.partition.flushed.value == 2

    run(scenario)


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
def test_a_flush_that_fails_is_a_storage_error_now_and_later(tmp_path: Path, acks: int) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.fails_sync = lambda path: path.endswith(".log")
            assert await scene.wait(acks).ended() is ErrorCode.KAFKA_STORAGE_ERROR
            late = Wait()
            scene.acknowledgements.wait(
                (scene.partition, 1), acks, DEADLINE_S, lambda _, failure: late.heard.append(failure)
            )
            assert late.outcome() is ErrorCode.KAFKA_STORAGE_ERROR

    run(scenario)


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
def test_a_deleted_partition_ends_the_wait(tmp_path: Path, acks: int) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.may_sync.clear()
            wait = scene.wait(acks)
            await scene.flush_is_under_way()
            scene.partition.close()
            assert wait.outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER
            scene.disk.may_sync.set()

    run(scenario)


def test_a_broker_that_stops_finishes_the_flush_and_acknowledges_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, flush_messages=1) as scene:
            scene.disk.may_sync.clear()
            wait = scene.wait(ACKS_LEADER)
            await scene.flush_is_under_way()
            stopping = asyncio.ensure_future(scene.flusher.stop())
            await asyncio.sleep(0)
            scene.disk.may_sync.set()
            await stopping
            assert wait.outcome() is ErrorCode.NONE

    run(scenario)


def test_a_cancelled_wait_hears_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            late, early = scene.wait(ACKS_ALL, timeout_s=0.005), scene.wait(ACKS_ALL)
            late.acknowledgement.cancel()
            early.acknowledgement.cancel()
            scene.replicate()
            await asyncio.sleep(0.01)
            assert (late.outcome(), early.outcome()) == (PENDING, PENDING)

    run(scenario)


# Several appends, one answer


class Answered:
    """One answer for appends to several partitions."""

    def __init__(self, *scenes: Scene, timeout_s: float = DEADLINE_S, fails: Exception | None = None) -> None:
        self.heard: list[tuple[Outcome, bool]] = []
        self.failures: list[dict[HostedPartition, ErrorCode]] = []
        self._fails = fails
        appends = [(scene.partition, scene.append()) for scene in scenes]
        self.deferred = scenes[0].acknowledgements.answer(appends, ACKS_ALL, timeout_s, self._answers)
        self.deferred.then(lambda outcome, at_once: self.heard.append((outcome, at_once)))

    def _answers(self, failures: Failures) -> Any:
        self.failures.append({partition: failure.code for partition, failure in failures.items()})
        if self._fails is not None:
            raise self._fails
        return [b"answer"]


def test_an_answer_waits_for_all_of_its_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path / "1") as first, leading(tmp_path / "2") as second:
            answered = Answered(first, second)
            first.replicate()
            assert answered.heard == []
            second.replicate()
            # In the middle of whatever moved the watermark: the answer leaves soon, not now.
            assert (answered.heard, answered.failures) == ([([b"answer"], False)], [{}])

    run(scenario)


def test_a_failure_is_that_of_its_partition_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            leading(tmp_path / "1") as lost,
            leading(tmp_path / "2") as slow,
            leading(tmp_path / "3") as good,
        ):
            answered = Answered(lost, slow, good, timeout_s=0.01)
            lost.assign(leader=FOLLOWER, leader_epoch=EPOCH + 1)
            good.replicate()
            await until(lambda: bool(answered.heard))
            assert answered.failures == [
                {
                    lost.partition: ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    slow.partition: ErrorCode.REQUEST_TIMED_OUT,
                }
            ]

    run(scenario)


def test_an_answer_whose_outcome_is_known_from_the_start_is_given_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path, min_insync_replicas=2) as scene:
            scene.assign(isr=(NODE,))
            assert Answered(scene).heard == [([b"answer"], False)]

    run(scenario)


def test_answers_that_cannot_be_made_are_told_to_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            problem = ValueError("no")
            answered = Answered(scene, fails=problem)
            scene.replicate()
            assert answered.heard == [(problem, False)]

    run(scenario)


@pytest.mark.parametrize("is_replicated", [True, False])
def test_a_client_that_went_away_is_not_answered(tmp_path: Path, is_replicated: bool) -> None:
    async def scenario() -> None:
        async with leading(tmp_path) as scene:
            answered = Answered(scene, timeout_s=0.005)
            answered.deferred.abandon()
            if is_replicated:
                scene.replicate()
            await asyncio.sleep(0.01)
            assert (answered.heard, answered.failures) == ([], [])

    run(scenario)
