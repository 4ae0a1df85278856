"""The transaction coordinator as producers and brokers ask it: one broker, and a cluster that loses brokers (EOS-1)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.replicas import Cluster, running, until

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from ottla.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)
from ottla.records.batch import iter_batches
from ottla.records.control import marker_of

ID = "orders"
STATE = "__transaction_state"
NODES = (1, 2, 3)
SMALL = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}
Identity = tuple[int, int]


class Producer:
    """A transactional producer that says exactly what is asked; it asks again as clients do."""

    def __init__(self, cluster: Cluster, transactional_id: str = ID) -> None:
        self._cluster = cluster
        self._id = transactional_id

    async def coordinator(self) -> int:
        node_id = -1
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self._id])
        for _ in range(500):
            live = next(node.node_id for node in self._cluster.nodes.values() if node.is_running)
            found = (await self._cluster.ask(live, request, 4)).coordinators[0]
            node_id = found.node_id
            if not found.error_code and self._cluster.nodes[node_id].is_running:
                return int(node_id)
            await asyncio.sleep(0.02)
        raise TimeoutError(f"no coordinator, last node {node_id}")

    async def ask(self, request: Any, version: int, error_of: Callable[[Any], int]) -> Any:
        """The answer once it is not "ask again"."""
        again = (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )
        answer = None
        for _ in range(500):
            answer = await self._cluster.ask(await self.coordinator(), request, version)
            if error_of(answer) not in again:
                return answer
            await asyncio.sleep(0.02)
        raise TimeoutError(f"last answered {answer}")

    async def init(
        self, producer_id: int = -1, epoch: int = -1, *, timeout_ms: int = 60_000
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(self._id, timeout_ms, producer_id, epoch)
        answer: InitProducerIdResponse = await self.ask(request, 5, lambda response: response.error_code)
        return answer

    async def add(self, identity: Identity, topic: str, *partitions: int) -> int:
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        request = AddPartitionsToTxnRequest([], self._id, *identity, topics)
        answer = await self.ask(request, 3, _first_error)
        return _first_error(answer)

    async def end(self, identity: Identity, *, commit: bool, version: int = 5) -> EndTxnResponse:
        request = EndTxnRequest(self._id, *identity, commit)
        answer: EndTxnResponse = await self.ask(request, version, lambda response: response.error_code)
        return answer

    async def described(self) -> DescribedTransactionState:
        request = DescribeTransactionsRequest([self._id])
        answer = await self.ask(request, 0, lambda response: response.transaction_states[0].error_code)
        state: DescribedTransactionState = answer.transaction_states[0]
        return state

    async def until_state(self, name: str) -> None:
        state = ""
        for _ in range(500):
            state = (await self.described()).transaction_state
            if state == name:
                return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"{state}, not {name}")


def _first_error(response: Any) -> int:
    error: int = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return error


def identity(answer: Any) -> Identity:
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def markers(cluster: Cluster, node: int, topic: str, index: int) -> list[tuple[int, int, bool]]:
    """Producer id, epoch and outcome of each marker in a node's log."""
    log = cluster.nodes[node].partition(topic, index).log
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, upper_offset=log.log_end_offset, at_least_one=True)
        assert read is not None
        for batch in iter_batches(read.file.read(read.position, read.size)):
            marker = marker_of(batch) if batch.is_control else None
            if marker is not None:
                found.append((batch.producer_id, batch.producer_epoch, marker.is_commit))
        offset = read.next_offset
    return found


def in_cluster(directory: Path, scenario: Callable[[Cluster], Awaitable[None]], *nodes: int) -> None:
    async def run() -> None:
        async with running(directory, *(nodes or (1,)), **SMALL) as cluster:
            await scenario(cluster)

    asyncio.run(run())


def test_a_transaction_begins_and_ends_on_one_broker(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("t", (1,), (1,))
        producer = Producer(cluster)
        first = identity(await producer.init())
        assert await producer.add(first, "t", 0, 1) == ErrorCode.NONE
        state = await producer.described()
        assert (state.transaction_state, state.topics[0].partitions) == ("Ongoing", [0, 1])
        second = identity(await producer.end(first, commit=True))
        assert second == (first[0], first[1] + 1)
        await producer.until_state("CompleteCommit")
        assert identity(await producer.end(first, commit=True)) == second
        assert await producer.add(second, "t", 0) == ErrorCode.NONE
        assert await producer.add(second, "t", 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await producer.add(first, "t", 0) == ErrorCode.PRODUCER_FENCED
        await producer.end(second, commit=False)
        await producer.until_state("CompleteAbort")

    in_cluster(tmp_path, scenario)


def test_errors_are_those_that_a_version_knows(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("t", (1,))
        producer = Producer(cluster)
        first = identity(await producer.init())
        second = identity(await producer.init())
        assert second == (first[0], first[1] + 1)
        assert (
            await producer.end(first, commit=True, version=1)
        ).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await producer.end(first, commit=True, version=2)).error_code == ErrorCode.PRODUCER_FENCED
        fenced = InitProducerIdRequest(ID, 1000, *first)
        assert (await cluster.ask(1, fenced, 3)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await cluster.ask(1, fenced, 4)).error_code == ErrorCode.PRODUCER_FENCED
        half = InitProducerIdRequest(ID, 1000, 5, -1)
        assert (await cluster.ask(1, half, 4)).error_code == ErrorCode.INVALID_REQUEST
        nameless = InitProducerIdRequest("", 1000)
        assert (await cluster.ask(1, nameless, 4)).error_code == ErrorCode.INVALID_REQUEST
        endless = InitProducerIdRequest(ID, 2**31 - 1)
        assert (await cluster.ask(1, endless, 4)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    in_cluster(tmp_path, scenario)


def test_partitions_join_all_together_or_not_at_all(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("t", (1,))
        producer = Producer(cluster)
        first = identity(await producer.init())
        topics = [AddPartitionsToTxnTopic("t", [0, 7]), AddPartitionsToTxnTopic("nowhere", [0])]
        request = AddPartitionsToTxnRequest([], ID, *first, topics)
        answer = await producer.ask(request, 3, _first_error)
        errors = {
            (topic.name, one.partition_index): one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        assert errors == {
            ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await producer.described()).transaction_state == "Empty"

    in_cluster(tmp_path, scenario)


def test_an_identity_that_nobody_was_given_changes_nothing(tmp_path: Path) -> None:
    """An epoch from the future, another producer's id, an id that nobody has begun with, one of great length."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("t", (1,))
        producer = Producer(cluster)
        producer_id, epoch = identity(await producer.init())
        assert await producer.add((producer_id, epoch), "t", 0) == ErrorCode.NONE
        for strange, error in (
            ((producer_id, epoch + 1), ErrorCode.PRODUCER_FENCED),
            ((producer_id, 2**15 - 1), ErrorCode.PRODUCER_FENCED),
            ((producer_id + 9, epoch), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ):
            assert await producer.add(strange, "t", 0) == error
            assert (await producer.end(strange, commit=True)).error_code == error
            assert (await producer.init(*strange)).error_code == ErrorCode.PRODUCER_FENCED
        unknown = Producer(cluster, "unknown")
        assert await unknown.add((producer_id, epoch), "t", 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        ended = await unknown.end((producer_id, epoch), commit=True)
        assert ended.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert (await producer.described()).transaction_state == "Ongoing"
        assert (await producer.end((producer_id, epoch), commit=True)).error_code == ErrorCode.NONE
        lengthy = Producer(cluster, "x" * 30_000)
        first = identity(await lengthy.init())
        assert await lengthy.add(first, "t", 0) == ErrorCode.NONE
        assert (await lengthy.end(first, commit=False)).error_code == ErrorCode.NONE

    in_cluster(tmp_path, scenario)


def test_offsets_join_by_the_partition_of_their_group(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = Producer(cluster)
        first = identity(await producer.init())
        request = AddOffsetsToTxnRequest(ID, *first, "g")
        answer = await producer.ask(request, 4, lambda response: response.error_code)
        assert answer.error_code == ErrorCode.NONE
        (topic,) = (await producer.described()).topics
        assert (topic.topic, topic.partitions) == ("__consumer_offsets", [0])

    in_cluster(tmp_path, scenario)


def test_transactions_are_listed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("t", (1,))
        for name in ("a", "b"):
            await Producer(cluster, name).init()
        busy = Producer(cluster, "busy")
        assert await busy.add(identity(await busy.init()), "t", 0) == ErrorCode.NONE

        async def ids(version: int = 2, **filters: Any) -> list[str]:
            answer = await cluster.ask(1, ListTransactionsRequest(**filters), version)
            assert answer.error_code == ErrorCode.NONE
            return [one.transactional_id for one in answer.transaction_states]

        assert await ids(0) == ["a", "b", "busy"]
        assert await ids(0, state_filters=["Ongoing"]) == ["busy"]
        assert await ids(transactional_id_pattern="[ab]") == ["a", "b"]
        answer = await cluster.ask(1, ListTransactionsRequest(state_filters=["Odd"]), 2)
        assert answer.unknown_state_filters == ["Odd"]
        answer = await cluster.ask(1, ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    in_cluster(tmp_path, scenario)


def test_a_broker_asks_the_coordinator_of_another(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic(STATE, (1,))
        await cluster.create_topic("t", (1,), (1,))
        producer = Producer(cluster)
        first = identity(await producer.init())
        partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
        await producer.add(first, "t", 0)
        for node in (1, 2):
            verify = cluster.nodes[node].services.transactions.verify
            assert await verify(ID, *first, partitions, adds=False) == {
                partitions[0]: ErrorCode.NONE,
                partitions[1]: ErrorCode.TRANSACTION_ABORTABLE,
            }
            unknown = await verify("other", *first, partitions[:1], adds=False)
            assert unknown == {partitions[0]: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        verify = cluster.nodes[2].services.transactions.verify
        assert await verify(ID, *first, partitions, adds=True) == dict.fromkeys(partitions, ErrorCode.NONE)
        await cluster.kill(1, notice=False)
        gone = await verify(ID, *first, partitions[:1], adds=True)
        assert gone == {partitions[0]: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    in_cluster(tmp_path, scenario, 1, 2)


def test_the_next_coordinator_ends_what_was_decided(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic(STATE, (1, 2), cleanup_policy="compact")
        await cluster.create_topic("t", (3,))
        producer = Producer(cluster)
        first = identity(await producer.init())
        assert await producer.add(first, "t", 0) == ErrorCode.NONE
        # Nobody leads the topic, so the decision is taken and the marker is not written.
        await cluster.kill(3)
        await producer.end(first, commit=True)
        assert (await producer.described()).transaction_state == "PrepareCommit"
        await cluster.kill(1)
        assert (await producer.described()).transaction_state == "PrepareCommit"
        await cluster.start_node(3)
        await producer.until_state("CompleteCommit")
        assert markers(cluster, 3, "t", 0) == [(first[0], first[1] + 1, True)]
        again = identity(await producer.init())
        assert again[0] == first[0]

    in_cluster(tmp_path, scenario, *NODES)


def test_a_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {**SMALL, "transaction_abort_timed_out_transaction_cleanup_interval_ms": 50}
        async with running(tmp_path, 1, **settings) as cluster:
            await cluster.create_topic("t", (1,))
            producer = Producer(cluster)
            first = identity(await producer.init(timeout_ms=1))
            await producer.add(first, "t", 0)
            await producer.until_state("CompleteAbort")
            assert (await producer.end(first, commit=True)).error_code == ErrorCode.INVALID_TXN_STATE

    asyncio.run(scenario())


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_transaction_in_a_topic_that_is_deleted_ends(tmp_path: Path, comes_back: bool) -> None:
    """A topic of the same name gets the marker, as in Kafka; nothing waits for it, and transactions go on there."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create_topic("t", (1,))
        producer = Producer(cluster)
        first = identity(await producer.init())
        await producer.add(first, "t", 0)
        await cluster.submit(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
        await until(lambda: "t" not in cluster.image.topics_by_name, "the topic is gone")
        if comes_back:
            await cluster.create_topic("t", (1,))
        second = identity(await producer.end(first, commit=True))
        await producer.until_state("CompleteCommit")
        if comes_back:
            assert await producer.add(second, "t", 0) == ErrorCode.NONE
            await producer.end(second, commit=False)
            await producer.until_state("CompleteAbort")
            hosted = cluster.nodes[1].partition("t", 0)
            assert hosted.last_stable_offset == hosted.log.log_end_offset
            assert [is_commit for _, _, is_commit in markers(cluster, 1, "t", 0)] == [True, False]

    in_cluster(tmp_path, scenario)
