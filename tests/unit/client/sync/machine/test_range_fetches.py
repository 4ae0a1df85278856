"""The fetches of one range, with a cluster that exists only as a script and a clock that only pauses move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from ottla.client.cluster.machine.conversation import Ask, Conversation, Pause
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.sync.machine.range_fetches import OffsetsLostError, RangeFetches, RangeSettings
from ottla.client.sync.range_batches import RangeBatches
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address, TopicPartition
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.failures import ConnectionLostError

PARTITION = TopicPartition("t", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)
BACKOFF_MS = 100
SETTINGS = RangeSettings(give_up_ms=60_000, patience_ms=5_000)


@dataclass
class Cluster:
    """Two brokers; `leader` leads the only partition, whose log has the offsets [start, end).

    `failures` are raised or answered in place of the next fetches.
    """

    leader: int = 1
    topic_id: UUID = ID
    start: int = 0
    end: int = 30
    failures: list[Exception] = field(default_factory=list)
    asked: list[Ask] = field(default_factory=list)
    paused_ms: int = 0

    def answer(self, ask: Ask) -> Any:
        self.asked.append(ask)
        match ask.request:
            case MetadataRequest():
                return self.metadata()
            case ListOffsetsRequest() as request:
                is_latest = request.topics[0].partitions[0].timestamp == -1
                listed = ListOffsetsPartitionResponse(0, offset=self.end if is_latest else self.start)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [listed])])
            case FetchRequest() as request:
                return self.fetched(request)

    def metadata(self) -> MetadataResponse:
        brokers = [MetadataResponseBroker(1, "one", 1), MetadataResponseBroker(2, "two", 2)]
        partition = MetadataResponsePartition(partition_index=0, leader_id=self.leader)
        topic = MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=[partition])
        return MetadataResponse(brokers=brokers, topics=[topic])

    def fetched(self, request: FetchRequest) -> FetchResponse:
        if self.failures:
            failure = self.failures.pop(0)
            if not isinstance(failure, KafkaError):
                raise failure
            return response(PartitionData(error_code=failure.code))
        offset = request.topics[0].partitions[0].fetch_offset
        if not self.start <= offset <= self.end:
            return response(PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        count = min(10, self.end - offset)
        records = [Record(offset + each, 1, None, b"v") for each in range(count)]
        batch = memoryview(build_batch(records, base_offset=offset)) if records else None
        return response(PartitionData(high_watermark=self.end, last_stable_offset=self.end, records=batch))

    @property
    def fetches(self) -> list[tuple[int | None, int]]:
        """The broker and the offset of every fetch."""
        requests = [ask for ask in self.asked if isinstance(ask.request, FetchRequest)]
        return [(ask.node_id, ask.request.topics[0].partitions[0].fetch_offset) for ask in requests]


def response(data: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])


class Reader:
    """Drives the steps of one range."""

    def __init__(self, cluster: Cluster, end: int = 30, settings: RangeSettings = SETTINGS) -> None:
        self.cluster = cluster
        self.known = KnownCluster([Address("one", 1)], remembers_leaders=True)
        self.fetches = RangeFetches(self.known, PARTITION, (0, end), settings, lambda _: BACKOFF_MS)

    def read(self, on_pause: Callable[[], None] = lambda: None) -> RangeBatches | None:
        cluster = self.cluster
        conversation = Conversation(self.known, self.fetches.next_batches(), cluster.paused_ms)
        while (want := conversation.wants) is not None:
            try:
                if isinstance(want, Pause):
                    cluster.paused_ms += want.wait_ms
                    on_pause()
                    answer = None
                else:
                    cluster.paused_ms += 1
                    answer = cluster.answer(want.ask)
            except (ConnectionError, TimeoutError) as failure:
                conversation.failed(failure, cluster.paused_ms)
            else:
                conversation.heard(answer, cluster.paused_ms)
        return conversation.result


def test_the_range_is_read_from_its_leader_batch_by_batch() -> None:
    reader = Reader(Cluster(leader=2), end=25)
    found = [reader.read() for _ in range(4)]
    assert [each and each.next_offset for each in found] == [10, 20, 25, None]
    assert reader.cluster.fetches == [(2, 0), (2, 10), (2, 20)]
    assert reader.cluster.paused_ms == len(reader.cluster.asked) == 4


def test_the_next_fetch_is_known_ahead_until_the_range_ends() -> None:
    reader = Reader(Cluster(), end=20)
    reader.read()
    ahead = reader.fetches.ahead
    reader.read()
    assert reader.cluster.asked[-1] is ahead
    assert reader.fetches.ahead is None


def test_a_topic_without_an_id_is_asked_for_by_name() -> None:
    reader = Reader(Cluster(topic_id=ZERO_UUID))
    reader.read()
    assert reader.cluster.asked[-1].at_most == 12


@pytest.mark.parametrize(
    "failure", [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), ConnectionLostError("lost"), TimeoutError()]
)
def test_a_leader_that_moved_is_looked_up_again(failure: Exception) -> None:
    reader = Reader(Cluster())
    reader.read()
    reader.cluster.failures.append(failure)
    reader.cluster.leader = 2
    found = reader.read()
    assert found is not None
    assert found.next_offset == 20
    assert reader.cluster.fetches == [(1, 0), (1, 10), (2, 10)]


def test_a_failure_that_lasts_is_raised_after_the_time_to_give_up() -> None:
    reader = Reader(Cluster(failures=[KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)] * 1_000))
    with pytest.raises(KafkaError, match="t-0 at offset 0") as raised:
        reader.read()
    assert raised.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert 60_000 - 2 * BACKOFF_MS < reader.cluster.paused_ms <= 60_000


def test_a_failure_that_does_not_pass_is_raised_at_once() -> None:
    reader = Reader(Cluster(failures=[KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]))
    with pytest.raises(KafkaError, match="t-0 at offset 0"):
        reader.read()
    assert len(reader.cluster.asked) == 2


def test_offsets_below_the_log_are_lost_up_to_its_start() -> None:
    reader = Reader(Cluster(start=12))
    with pytest.raises(OffsetsLostError, match="begins at offset 12") as raised:
        reader.read()
    assert (raised.value.first, raised.value.end, raised.value.is_gone) == (0, 12, False)
    reader.fetches.skip_to(12)
    found = reader.read()
    assert found is not None
    assert found.start == 12


def test_the_end_of_a_log_is_waited_for_and_then_lost() -> None:
    reader = Reader(Cluster(end=10), end=20)
    reader.read()
    with pytest.raises(OffsetsLostError, match="ends at offset 10") as raised:
        reader.read()
    assert (raised.value.first, raised.value.end) == (10, 20)
    assert reader.cluster.paused_ms >= SETTINGS.patience_ms


def test_the_end_of_a_log_that_comes_in_time_is_read() -> None:
    cluster = Cluster(end=5)  # a new leader that does not know yet what the old one had committed
    reader = Reader(cluster)
    reader.fetches.skip_to(10)

    def catch_up() -> None:
        cluster.end = 30 if cluster.paused_ms > 1_000 else 5

    found = reader.read(catch_up)
    assert found is not None
    assert found.next_offset == 20


def test_a_topic_that_is_created_again_is_gone() -> None:
    reader = Reader(Cluster())
    reader.read()
    reader.cluster.topic_id = OTHER_ID
    reader.cluster.failures.append(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
    with pytest.raises(OffsetsLostError, match="deleted and created again") as raised:
        reader.read()
    assert (raised.value.first, raised.value.end, raised.value.is_gone) == (10, 30, True)


def test_a_topic_that_nobody_knows_is_waited_for_and_then_gone() -> None:
    reader = Reader(Cluster(failures=[KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 1_000))
    with pytest.raises(OffsetsLostError) as raised:
        reader.read()
    assert raised.value.is_gone
    assert SETTINGS.patience_ms <= reader.cluster.paused_ms < 2 * SETTINGS.patience_ms
