from __future__ import annotations

import pytest

from ottla.client.fetching.plan.epoch_check import History, compare, ends_of_epochs, epochs_request, parted
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.requests.metadata import Leader
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.leader_epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record

LEADER = Leader(1, 5)


def reader(*, read: int, fetched: int, epoch: int = 3) -> PartitionReader:
    """A reader whose application has the first records, and which has fetched some more."""
    made = PartitionReader(TopicPartition("t", 0))
    made.seek(0)
    batches = [
        bytes(build_batch([Record(n, 0, None, b"v")], base_offset=n, partition_leader_epoch=epoch))
        for n in range(fetched)
    ]
    made.fetched(PartitionData(records=memoryview(b"".join(batches))))
    made.take(read)
    return made


def test_the_question_names_the_epoch_of_what_was_fetched_last_and_the_leaders() -> None:
    request = epochs_request([(reader(read=1, fetched=2), LEADER)])
    (asked,) = request.topics[0].partitions
    assert (request.replica_id, asked.partition, asked.leader_epoch, asked.current_leader_epoch) == (
        -1,
        0,
        3,
        5,
    )


def test_a_new_leader_must_prove_itself_and_the_old_one_need_not() -> None:
    waiting = reader(read=1, fetched=2)
    assert waiting.is_proven_for(3)
    assert not waiting.is_proven_for(5)
    assert compare(waiting, LEADER, EpochEndOffset(end_offset=2, leader_epoch=3)) is History.SAME
    assert waiting.is_proven_for(5)
    assert not waiting.is_proven_for(6)
    waiting.seek(9)
    assert waiting.is_proven_for(6)  # a seek has no history


def test_what_only_was_fetched_is_fetched_anew() -> None:
    waiting = reader(read=1, fetched=4)
    assert compare(waiting, LEADER, EpochEndOffset(end_offset=2, leader_epoch=2)) is History.REFETCH
    assert (waiting.position, waiting.fetch_offset, waiting.is_drained) == (1, 1, True)
    assert waiting.is_proven_for(5)


def test_what_the_application_has_read_cannot_be_taken_back() -> None:
    waiting = reader(read=3, fetched=4)
    answer = EpochEndOffset(end_offset=2, leader_epoch=2)
    assert compare(waiting, LEADER, answer) is History.PARTED
    assert (waiting.position, waiting.is_proven_for(5)) == (3, False)
    assert "was read up to offset 3, but its new leader's log parts from that at offset 2" in str(
        parted(waiting, answer)
    )


def test_a_leader_that_knows_nothing_of_the_epoch_is_believed() -> None:
    waiting = reader(read=1, fetched=2)
    assert compare(waiting, LEADER, EpochEndOffset(end_offset=-1, leader_epoch=-1)) is History.SAME


@pytest.mark.parametrize(
    ("code", "history"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, History.UNKNOWN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, History.UNKNOWN),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, History.SAME),  # the fetch will tell
    ],
)
def test_errors_that_pass_are_asked_again(code: ErrorCode, history: History) -> None:
    waiting = reader(read=1, fetched=2)
    assert compare(waiting, LEADER, EpochEndOffset(error_code=code)) is history
    assert compare(reader(read=1, fetched=2), LEADER, None) is History.UNKNOWN


def test_answers_are_found_by_partition() -> None:
    end = EpochEndOffset(partition=4, end_offset=7)
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", [end])])
    assert ends_of_epochs(response) == {TopicPartition("t", 4): end}
