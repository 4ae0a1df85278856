"""Offsets that are committed with a transaction, over TCP: every version, every end, and over a restart (EOS-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.integration.group_members import SETTINGS, commit_request
from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer, create_topic
from tests.integration.replicas import Cluster
from tests.integration.test_transaction_coordinator import Producer as ClusterProducer
from tests.integration.test_transaction_coordinator import identity, in_cluster

from ottla.errors import ErrorCode
from ottla.localcluster.waiting import wait_until
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

FEW_PARTITIONS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
OFTEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
UNSTABLE = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    settings = SETTINGS | FEW_PARTITIONS | OFTEN
    with broker_thread(tmp_path_factory.mktemp("offsets") / "data", settings) as broker:
        yield broker


@pytest.fixture
def group() -> str:
    return f"group-{uuid4()}"


def settled(ask: Callable[[], Any], error_of: Callable[[Any], int]) -> Any:
    """The answer once it is not "ask again"."""
    answers: list[Any] = []

    def answered() -> bool:
        answers.append(ask())
        return error_of(answers[-1]) not in PASSING

    wait_until(answered, "an answer that is not 'ask again'")
    return answers[-1]


class Producer:
    """A transactional producer that says exactly what it is told to."""

    def __init__(self, peer: Peer, transactional_id: str | None = None) -> None:
        self.peer = peer
        self.name = transactional_id or f"producer-{uuid4()}"
        for kind in (0, 1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[self.name])
            settled(
                lambda: peer.ask(ApiKey.FIND_COORDINATOR, 4, request),  # noqa: B023
                lambda found: found.coordinators[0].error_code,
            )
        self.identity = (-1, -1)
        self.init()

    def init(self, timeout_ms: int = 60_000) -> None:
        request = InitProducerIdRequest(self.name, timeout_ms)
        answer = settled(
            lambda: self.peer.ask(ApiKey.INIT_PRODUCER_ID, 5, request), lambda found: found.error_code
        )
        assert answer.error_code == 0
        self.identity = (answer.producer_id, answer.producer_epoch)

    def add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(self.name, *self.identity, group)
        answer = settled(
            lambda: self.peer.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request), lambda found: found.error_code
        )
        assert answer.error_code == 0

    def commit_offset(
        self, group: str, topic: str, offset: int, *, version: int = 5, **more: Any
    ) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(more.pop("partition", 0), offset, -1, "")
        topics = [TxnOffsetCommitRequestTopic(topic, [partition])]
        request = TxnOffsetCommitRequest(self.name, group, *self.identity, topics=topics, **more)
        answer = settled(lambda: self.peer.ask(ApiKey.TXN_OFFSET_COMMIT, version, request), first_error)
        return ErrorCode(first_error(answer))

    def end(self, *, commit: bool = True, version: int = 5) -> None:
        request = EndTxnRequest(self.name, *self.identity, commit)
        answer = settled(
            lambda: self.peer.ask(ApiKey.END_TXN, version, request), lambda found: found.error_code
        )
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        if version >= 5:
            self.identity = (answer.producer_id, answer.producer_epoch)


def first_error(answer: Any) -> int:
    error: int = answer.topics[0].partitions[0].error_code
    return error


def offset_of(peer: Peer, group: str, topic: str, *, stable: bool = True) -> tuple[int, int]:
    """The error and the committed offset of partition 0."""
    topics = [OffsetFetchRequestTopics(topic, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable
    )
    return fetched(peer.ask(ApiKey.OFFSET_FETCH, 8, request))


def until_offset(peer: Peer, group: str, topic: str, offset: int) -> None:
    wait_until(lambda: offset_of(peer, group, topic) == (0, offset), f"the stable offset {offset}")


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_an_offset_is_pending_until_its_transaction_ends(
    peer: Peer, group: str, topic: str, version: int, commit: bool
) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    assert peer.ask(ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic, {0: 3})).topics
    if version < 5:
        producer.add_offsets(group)
    assert producer.commit_offset(group, topic, 9, version=version) == ErrorCode.NONE
    assert offset_of(peer, group, topic) == UNSTABLE
    assert offset_of(peer, group, topic, stable=False) == (0, 3)
    producer.end(commit=commit, version=5 if version == 5 else 3)
    until_offset(peer, group, topic, 9 if commit else 3)


def test_the_next_transaction_commits_the_next_offset(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    for offset in range(1, 4):
        assert producer.commit_offset(group, topic, offset) == ErrorCode.NONE
        producer.end()
    until_offset(peer, group, topic, 3)


@pytest.mark.parametrize(
    ("version", "expected"),
    [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_is_not_in_the_transaction_takes_no_offset(
    peer: Peer, group: str, topic: str, version: int, expected: ErrorCode
) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    assert producer.commit_offset(group, topic, 9, version=version) == expected
    assert offset_of(peer, group, topic) == (0, -1)


def test_a_fenced_producer_commits_nothing(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic)
    zombie = Producer(peer)
    assert zombie.commit_offset(group, topic, 9) == ErrorCode.NONE
    Producer(peer, zombie.name)
    until_offset(peer, group, topic, -1)
    for version in (3, 5):
        error = zombie.commit_offset(group, topic, 10, version=version)
        assert error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert offset_of(peer, group, topic) == (0, -1)


def test_an_offset_is_stable_again_when_its_transaction_took_too_long(
    peer: Peer, group: str, topic: str
) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    producer.init(timeout_ms=3_000)
    assert producer.commit_offset(group, topic, 9) == ErrorCode.NONE
    until_offset(peer, group, topic, -1)
    assert producer.commit_offset(group, topic, 10) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_bad_requests_get_kafkas_errors(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    assert producer.commit_offset("", topic, 9) == ErrorCode.INVALID_GROUP_ID
    assert producer.commit_offset(group, "none", 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit_offset(group, topic, 9, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = producer.commit_offset(group, topic, 9, generation_id=1, member_id="who")
    assert error == ErrorCode.ILLEGAL_GENERATION
    strange = Producer(peer)
    strange.identity = (strange.identity[0] + 1000, 0)
    assert strange.commit_offset(group, topic, 9) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert offset_of(peer, group, topic) == (0, -1)


def test_some_partitions_may_be_refused_and_others_not(peer: Peer, group: str, topic: str) -> None:
    create_topic(peer, topic)
    producer = Producer(peer)
    items = [TxnOffsetCommitRequestPartition(index, 9, -1, "") for index in (0, 5)]
    named = [TxnOffsetCommitRequestTopic(topic, items), TxnOffsetCommitRequestTopic("none", items[:1])]
    request = TxnOffsetCommitRequest(producer.name, group, *producer.identity, topics=named)
    answer = settled(lambda: peer.ask(ApiKey.TXN_OFFSET_COMMIT, 5, request), first_error)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {
        (found.name, item.partition_index): item.error_code
        for found in answer.topics
        for item in found.partitions
    } == {(topic, 0): 0, (topic, 5): unknown, ("none", 0): unknown}
    producer.end()
    until_offset(peer, group, topic, 9)


def test_pending_offsets_survive_a_restart(tmp_path: Path) -> None:
    settings = SETTINGS | FEW_PARTITIONS
    with broker_thread(tmp_path / "data", settings) as broker, Peer(broker.port) as peer:
        create_topic(peer, "t")
        producer = Producer(peer)
        assert producer.commit_offset("g", "t", 9) == ErrorCode.NONE
    with broker_thread(tmp_path / "data", settings) as broker, Peer(broker.port) as peer:
        wait_until(lambda: offset_of(peer, "g", "t") == UNSTABLE, "the pending offset after the restart")
        producer.peer = peer
        producer.end()
        until_offset(peer, "g", "t", 9)


def test_pending_offsets_move_with_their_coordinator(tmp_path: Path) -> None:
    """The group's coordinator asks another broker about the transaction; the next one knows what is pending."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("__transaction_state", (1,))
        await cluster.create_topic("__consumer_offsets", (2, 3), cleanup_policy="compact")
        await cluster.create_topic("t", (1,))
        producer = ClusterProducer(cluster)
        first = identity(await producer.init())
        topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 9, -1, "")])]
        commit = TxnOffsetCommitRequest("orders", "g", *first, topics=topics)
        assert first_error(await until_settled(lambda: cluster.ask(2, commit, 5), first_error)) == 0
        await cluster.kill(2)
        groups = [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])]
        fetch = OffsetFetchRequest(groups=groups, require_stable=True)
        answer = await until_settled(
            lambda: cluster.ask(3, fetch, 8), lambda found: found.groups[0].error_code
        )
        assert fetched(answer) == UNSTABLE
        await producer.end(first, commit=True)
        await until_settled(
            lambda: cluster.ask(3, fetch, 8), lambda found: PASSING[0] if fetched(found) == UNSTABLE else 0
        )
        assert fetched(await cluster.ask(3, fetch, 8)) == (0, 9)

    in_cluster(tmp_path, scenario, 1, 2, 3)


async def until_settled(ask: Callable[[], Awaitable[Any]], error_of: Callable[[Any], int]) -> Any:
    async with asyncio.timeout(30):
        while error_of(answer := await ask()) in PASSING:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return answer


def fetched(answer: Any) -> tuple[int, int]:
    found = answer.groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset
