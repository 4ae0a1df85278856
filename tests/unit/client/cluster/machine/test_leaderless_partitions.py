"""The logs of the replicas of a partition without a leader are compared by their leader epochs."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.leaderless_partitions import describe_leaderless
from ottla.client.requests.leaderless import NOT_RUNNING, LeaderlessPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.leader_epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

T0 = TopicPartition("t", 0)


@dataclass(frozen=True, slots=True)
class Log:
    """The epochs of a log with their start offsets, and its end."""

    epochs: dict[int, int]
    end: int
    start: int = 0

    @property
    def last_epoch(self) -> int:
        return max(self.epochs, default=-1)

    def end_of(self, epoch: int) -> tuple[int, int]:
        known = sorted(self.epochs)
        place = bisect_right(known, epoch)
        if place == 0 or epoch > self.last_epoch:
            return -1, -1
        return known[place - 1], self.end if place == len(known) else self.epochs[known[place]]


class Answers:
    """The brokers of a cluster with one partition, by what they answer. A broker without a log is down."""

    def __init__(self, logs: dict[int, Log | Exception], offline: tuple[int, ...] = ()) -> None:
        self.logs = logs
        self.offline = offline

    def found(self) -> LeaderlessPartition:
        steps: Steps[Any] = describe_leaderless([]).attempt({"": None}, 1_000)
        try:
            ask = next(steps)
            while True:
                assert isinstance(ask, Ask)
                try:
                    answer = self._answer(ask)
                except ConnectionError as failure:
                    ask = steps.throw(failure)
                else:
                    ask = steps.send(answer)
        except StopIteration as over:
            found: LeaderlessPartition = over.value[""][T0]
            return found

    def _answer(self, ask: Ask) -> Any:
        if isinstance(ask.request, DescribeTopicPartitionsRequest):
            return self._description(ask.request)
        assert ask.node_id is not None
        log = self.logs[ask.node_id]
        if isinstance(log, Exception):
            raise log
        if isinstance(ask.request, ListOffsetsRequest):
            return self._offset(log, ask.request.topics[0].partitions[0].timestamp)
        assert isinstance(ask.request, OffsetForLeaderEpochRequest)
        epoch, end = log.end_of(ask.request.topics[0].partitions[0].leader_epoch)
        answer = EpochEndOffset(leader_epoch=epoch, end_offset=end)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", [answer])])

    def _description(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        if request.cursor is None:
            led = DescribeTopicPartitionsResponsePartition(partition_index=9, leader_id=1)
            topic = DescribeTopicPartitionsResponseTopic(name="a", partitions=[led])
            return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=Cursor("t", 0))
        partition = DescribeTopicPartitionsResponsePartition(
            leader_id=-1,
            replica_nodes=list(self.logs),
            last_known_elr=[1],
            offline_replicas=list(self.offline),
        )
        topic = DescribeTopicPartitionsResponseTopic(name="t", partitions=[partition])
        return DescribeTopicPartitionsResponse(topics=[topic])

    @staticmethod
    def _offset(log: Log, timestamp: int) -> ListOffsetsResponse:
        answer = ListOffsetsPartitionResponse(timestamp=7, offset=log.end - 1)
        if timestamp == EARLIEST_TIMESTAMP:
            answer = ListOffsetsPartitionResponse(offset=log.start)
        elif timestamp == LATEST_TIMESTAMP:
            answer = ListOffsetsPartitionResponse(offset=log.end, leader_epoch=log.last_epoch)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [answer])])


def gives_up(found: LeaderlessPartition) -> dict[int, dict[int, int | None]]:
    return {each.node_id: dict(each.gives_up) for each in found.candidates}


def test_of_one_epoch_the_longest_log_is_best() -> None:
    found = Answers({1: Log({4: 0}, 80), 2: Log({4: 0}, 100), 3: Log({4: 0}, 100)}).found()
    assert gives_up(found) == {2: {1: 0, 3: 0}, 3: {1: 0, 2: 0}, 1: {2: 20, 3: 20}}
    assert (found.last_leader, found.awaited, found.silent) == (1, (), {})


def test_a_newer_epoch_is_better_than_a_longer_log() -> None:
    # Broker 1 led epoch 3 alone, up to 150, and committed none of it: epoch 4 began at 90.
    found = Answers({1: Log({2: 0, 3: 60}, 150), 2: Log({2: 0, 3: 60, 4: 90}, 110)}).found()
    assert gives_up(found) == {2: {1: 60}, 1: {2: 20}}


def test_logs_are_compared_down_to_an_epoch_that_both_have() -> None:
    # Equal up to 10: epoch 1 ends there on broker 1, at 15 on broker 2; epochs 2 and 3 are of one log only.
    found = Answers({1: Log({1: 0, 2: 10}, 20), 2: Log({1: 0, 3: 15}, 30)}).found()
    assert gives_up(found) == {2: {1: 10}, 1: {2: 20}}


def test_an_empty_log_gives_up_everything() -> None:
    found = Answers({1: Log({}, 0), 2: Log({4: 0}, 100, start=40)}).found()
    assert gives_up(found) == {2: {1: 0}, 1: {2: 60}}


def test_what_cannot_be_compared_is_unknown() -> None:
    found = Answers({1: Log({2: 50}, 80, start=50), 2: Log({3: 60}, 100, start=60)}).found()
    assert gives_up(found) == {2: {1: None}, 1: {2: None}}


def test_replicas_that_do_not_answer_are_named_with_the_reason() -> None:
    answers = Answers({1: Log({4: 0}, 80), 2: ConnectionError("refused"), 3: Log({}, 0)}, offline=(3,))
    found = answers.found()
    assert gives_up(found) == {1: {}}
    assert found.silent == {2: "refused", 3: NOT_RUNNING}


def test_a_topic_that_does_not_exist_is_an_error() -> None:
    steps = describe_leaderless(["x"]).attempt({"": None}, 1_000)
    next(steps)
    missing = DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="x")
    with pytest.raises(KafkaError, match='topic "x"'):
        steps.send(DescribeTopicPartitionsResponse(topics=[missing]))
