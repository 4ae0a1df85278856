from __future__ import annotations

from uuid import UUID

import pytest

from ottla.client.fetching.plan.fetch_plan import (
    Asked,
    FetchSettings,
    Verdict,
    is_fetchable,
    last_version,
    plan_fetch,
    take_in,
)
from ottla.client.fetching.plan.fetch_session import FetchSession
from ottla.client.fetching.plan.partition_reader import MOST_DOUBTS, PartitionReader
from ottla.client.requests.metadata import Leader
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

ID = UUID(int=7)
SETTINGS = FetchSettings(max_wait_ms=500, max_bytes=1_000, partition_max_bytes=100, max_buffered_bytes=5_000)


def reader(index: int, offset: int) -> PartitionReader:
    made = PartitionReader(TopicPartition("t", index))
    made.seek(offset)
    return made


def test_a_request_names_each_partition_with_its_offset_and_the_epoch_of_its_leader() -> None:
    readers = [(reader(0, 5), Leader(1, 3), ID), (reader(1, 6), Leader(1, 4), ID)]
    plan = plan_fetch(FetchSession(), readers, SETTINGS, max_bytes=400)
    (topic,) = plan.request.topics
    assert (topic.topic, topic.topic_id, last_version(plan)) == ("t", ID, None)
    sent = [(each.partition, each.fetch_offset, each.current_leader_epoch) for each in topic.partitions]
    assert sent == [(0, 5, 3), (1, 6, 4)]
    assert (plan.request.max_bytes, plan.request.max_wait_ms, plan.request.min_bytes) == (400, 500, 1)
    assert {each.partition_max_bytes for each in topic.partitions} == {100}


def test_a_broker_may_not_keep_a_request_while_others_wait_for_room() -> None:
    readers = [(reader(0, 5), Leader(1, 3), ID)]
    plan = plan_fetch(FetchSession(), readers, SETTINGS, max_bytes=900, may_wait=False)
    assert (plan.request.max_wait_ms, plan.request.min_bytes, plan.request.max_bytes) == (0, 0, 900)


def test_readers_of_committed_records_say_so() -> None:
    settings = FetchSettings(is_read_committed=True)
    plan = plan_fetch(FetchSession(), [(reader(0, 5), Leader(1, 3), ID)], settings, max_bytes=1)
    assert plan.request.isolation_level == 1


def test_without_topic_ids_names_are_used() -> None:
    plan = plan_fetch(FetchSession(), [(reader(0, 5), Leader(1, 3), ZERO_UUID)], SETTINGS, max_bytes=1)
    assert last_version(plan) == 12


def out_of_range(of: PartitionReader, leader_epoch: int) -> Verdict:
    """The answer of a leader of this epoch: the offset does not exist."""
    plan = plan_fetch(FetchSession(), [(of, Leader(1, leader_epoch), ID)], SETTINGS, max_bytes=1)
    data = PartitionData(of.partition.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    ((asked, found),) = plan.answers(FetchResponse(responses=[FetchableTopicResponse("", ID, [data])]))
    return take_in(asked, found)


def test_a_former_leader_that_old_metadata_names_does_not_make_a_reader_begin_anew() -> None:
    """A group would process records twice: the offset was committed under a later leader."""
    committed = reader(0, 5)
    committed.seek(9, leader_epoch=4)
    assert out_of_range(committed, 3) is Verdict.PASSING
    assert not committed.is_out_of_range
    assert out_of_range(committed, 4) is Verdict.OUT_OF_RANGE
    assert committed.is_out_of_range


def test_a_topic_that_was_created_again_is_believed_in_the_end() -> None:
    former = reader(0, 5)
    former.seek(9, leader_epoch=4)
    verdicts = [out_of_range(former, 0) for _ in range(MOST_DOUBTS + 1)]
    assert verdicts == [Verdict.PASSING] * MOST_DOUBTS + [Verdict.OUT_OF_RANGE]


def test_an_answer_ends_the_doubts_of_before() -> None:
    committed = reader(0, 5)
    committed.seek(9, leader_epoch=4)
    for _ in range(MOST_DOUBTS):
        out_of_range(committed, 3)
    committed.fetched(PartitionData(0, high_watermark=9))
    assert out_of_range(committed, 3) is Verdict.PASSING


@pytest.mark.parametrize("by_id", [True, False])
def test_answers_find_their_readers_unless_those_have_moved(by_id: bool) -> None:
    stays, moves = reader(0, 5), reader(1, 6)
    readers = [(stays, Leader(1, 3), ID), (moves, Leader(1, 3), ID)]
    plan = plan_fetch(FetchSession(), readers, SETTINGS, max_bytes=1)
    moves.seek(9)
    data = [PartitionData(partition_index=index) for index in (0, 1, 2)]
    name, topic_id = ("", ID) if by_id else ("t", ZERO_UUID)
    known = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=data)
    strange = FetchableTopicResponse(topic="u" if not by_id else "", topic_id=UUID(int=9), partitions=data)
    answers = plan.answers(FetchResponse(responses=[known, strange]))
    assert list(answers) == [(Asked(stays, 5, 3), data[0])]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, Verdict.FETCHED),
        (ErrorCode.OFFSET_OUT_OF_RANGE, Verdict.OUT_OF_RANGE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.PASSING),
        (ErrorCode.FENCED_LEADER_EPOCH, Verdict.PASSING),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Verdict.PASSING),
        (ErrorCode.UNKNOWN_TOPIC_ID, Verdict.PASSING),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FAILED),
        (9999, Verdict.FAILED),
    ],
)
def test_every_error_has_its_consequence(code: int, verdict: Verdict) -> None:
    waiting = reader(0, 5)
    assert take_in(Asked(waiting, 5, 3), PartitionData(error_code=code)) is verdict
    assert waiting.is_out_of_range == (verdict is Verdict.OUT_OF_RANGE)


def test_nothing_is_fetched_for_a_reader_that_waits_for_something_else() -> None:
    assert is_fetchable(reader(0, 5), SETTINGS)
    assert not is_fetchable(PartitionReader(TopicPartition("t", 0)), SETTINGS)
    for attribute, value in [
        ("is_blocked", True),
        ("is_paused", True),
        ("is_out_of_range", True),
        ("error", KafkaError(ErrorCode.CORRUPT_MESSAGE)),
        ("buffered_bytes", 100),
    ]:
        waiting = reader(0, 5)
        setattr(waiting, attribute, value)
        assert not is_fetchable(waiting, SETTINGS), attribute
