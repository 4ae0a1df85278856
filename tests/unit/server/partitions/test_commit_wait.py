import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.server.answers.deferred import Outcome
from ottla.server.answers.watermark import Watermark
from ottla.server.partitions.commit_wait import CommitWait, Failures
from ottla.wire.deadlines import Deadlines


class Partition:
    """As much of one as a wait looks at."""

    def __init__(self, *, is_under_min_isr: bool = False) -> None:
        self.is_under_min_isr = is_under_min_isr
        self.high_watermark = Watermark(0)


class Scene:
    """A wait for some partitions, each up to offset 10, and what came of it."""

    def __init__(self, *partitions: Any, timeout_s: float = 10.0, fails: Exception | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.heard: list[tuple[Outcome, bool]] = []
        self.failures: list[dict[Any, ErrorCode]] = []
        self._fails = fails
        self.deadlines = Deadlines[CommitWait](loop, CommitWait.expire)
        waits = [(partition, 10, partition.high_watermark) for partition in partitions]
        self.wait = CommitWait(waits, self._answers, self.deadlines, loop.time() + timeout_s)
        self.wait.deferred.then(lambda outcome, now: self.heard.append((outcome, now)))

    def _answers(self, failures: Failures) -> Any:
        self.failures.append({partition: failure.code for partition, failure in failures.items()})
        if self._fails is not None:
            raise self._fails
        return [b"answer"]


def test_it_ends_when_all_partitions_have_got_there() -> None:
    async def scenario() -> None:
        first, second = Partition(), Partition()
        scene = Scene(first, second)
        first.high_watermark.advance(12)
        second.high_watermark.advance(9)
        assert scene.heard == []
        second.high_watermark.advance(10)
        # In the middle of whoever moved the watermark: the answer leaves soon.
        assert scene.heard == [([b"answer"], False)]
        assert scene.failures == [{}]
        assert len(scene.deadlines) == 0

    asyncio.run(scenario())


def test_a_lost_leadership_and_too_few_replicas_fail_their_partition_only() -> None:
    async def scenario() -> None:
        lost, few, early, good = Partition(), Partition(), Partition(is_under_min_isr=True), Partition()
        scene = Scene(lost, few, early, good)
        lost.high_watermark.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        few.is_under_min_isr = True
        few.high_watermark.advance(10)
        assert scene.heard == []
        good.high_watermark.advance(10)
        assert scene.failures == [
            {
                early: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                lost: ErrorCode.NOT_LEADER_OR_FOLLOWER,
                few: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            }
        ]

    asyncio.run(scenario())


def test_what_takes_too_long_times_out_and_what_comes_then_is_too_late() -> None:
    async def scenario() -> None:
        slow, quick = Partition(), Partition()
        scene = Scene(slow, quick, timeout_s=0.01)
        quick.high_watermark.advance(10)
        await asyncio.sleep(0.03)
        assert scene.failures == [{slow: ErrorCode.REQUEST_TIMED_OUT}]
        slow.high_watermark.advance(10)
        assert len(scene.heard) == 1

    asyncio.run(scenario())


def test_all_in_vain_from_the_start_is_answered_too() -> None:
    async def scenario() -> None:
        scene = Scene(Partition(is_under_min_isr=True))
        assert scene.heard == [([b"answer"], False)]

    asyncio.run(scenario())


def test_answers_that_cannot_be_made_are_told_to_the_connection() -> None:
    async def scenario() -> None:
        partition, problem = Partition(), ValueError("no")
        scene = Scene(partition, fails=problem)
        partition.high_watermark.advance(10)
        assert scene.heard == [(problem, False)]

    asyncio.run(scenario())


@pytest.mark.parametrize("reaches", [True, False])
def test_who_went_away_is_not_answered(reaches: bool) -> None:
    async def scenario() -> None:
        partition = Partition()
        scene = Scene(partition, timeout_s=0.01)
        scene.wait.deferred.abandon()
        if reaches:
            partition.high_watermark.advance(10)
        await asyncio.sleep(0.03)
        assert (scene.heard, scene.failures) == ([], [])

    asyncio.run(scenario())
