"""One transaction coordinator over a real log: what is written, acknowledged, sent, and lost with a leadership."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.integration.replicas import until
from tests.unit.server.group_shards import Hosted, wall_ms

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.control import TransactionMarker
from ottla.runtime.threads import OsThreads
from ottla.server.coordinators import coordinator_log
from ottla.server.coordinators.marker_sender import MarkerSender
from ottla.server.coordinators.transaction_shard import TransactionShard, World
from ottla.server.partitions.flushing import Flusher
from ottla.transaction.commands import (
    AddPartitions,
    CommitTogether,
    EndTransaction,
    InitProducer,
    ProducerAnswer,
)
from ottla.transaction.coordinator import TransactionCoordinator

ID = "orders"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.close()


class Broker:
    """The broker around a shard: its partitions answer markers as `errors` says, NONE otherwise."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.errors: list[ErrorCode] = []
        self.written: list[tuple[str, int, TransactionMarker]] = []
        self.leader = 1
        self._producer_ids = iter(range(100, 200))
        led = SimpleNamespace(partitions=[_Led(self), _Led(self)])
        quorum: Any = SimpleNamespace(node_id=1, image=SimpleNamespace(topics_by_name={"t": led}))
        self.sender = MarkerSender(quorum, self._write)

    async def _write(self, topic: str, index: int, marker: TransactionMarker) -> ErrorCode:
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if not error:
            self.written.append((topic, index, marker))
        return error

    async def _new_producer_id(self) -> int:
        return next(self._producer_ids)

    def shard(self) -> TransactionShard:
        world = World(wall_ms, lambda: 2, self._new_producer_id)
        machine = TransactionCoordinator(TransactionConfig())
        return TransactionShard(self.hosted.partition, machine, Flusher(OsThreads()), world, self.sender)


class _Led:
    """A partition in the metadata."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def leader(self) -> int:
        return self._broker.leader


def run(hosted: Hosted, scenario: Callable[[Broker, TransactionShard], Awaitable[None]]) -> None:
    async def begun() -> None:
        broker = Broker(hosted)
        shard = broker.shard()
        shard.begin()
        try:
            await asyncio.wait_for(scenario(broker, shard), 20)
        finally:
            shard.unload()
            await broker.sender.stop()

    asyncio.run(begun())


async def opened(shard: TransactionShard) -> ProducerAnswer:
    """A producer with an open transaction in two partitions."""
    producer: ProducerAnswer = await shard.ask(InitProducer(ID, 60_000))
    joined = await shard.ask(AddPartitions(ID, *producer[1:], frozenset({T0, T1}), 2))
    assert joined == ErrorCode.NONE
    return producer


async def state(shard: TransactionShard) -> str:
    return (await shard.describe(ID)).transaction_state


def test_a_partition_that_refuses_its_marker_is_asked_again(hosted: Hosted) -> None:
    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        broker.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
        producer = await opened(shard)
        await shard.ask(EndTransaction(ID, *producer[1:], True, 2))
        assert await state(shard) == "PrepareCommit"
        await until(lambda: len(broker.written) == 2, "both have it")
        assert {(topic, index) for topic, index, _ in broker.written} == {T0, T1}
        marker = broker.written[0][2]
        assert (marker.producer_epoch, marker.is_commit, marker.transaction_version) == (1, True, 2)
        assert marker.coordinator_epoch == hosted.partition.replica.leader_epoch
        assert await state(shard) == "CompleteCommit"

    run(hosted, scenario)


def test_a_partition_without_a_leader_is_waited_for(hosted: Hosted) -> None:
    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        broker.leader = -1
        producer = await opened(shard)
        await shard.ask(EndTransaction(ID, *producer[1:], False, 2))
        await asyncio.sleep(0.05)
        assert await state(shard) == "PrepareAbort"
        broker.leader = 1
        await until(lambda: len(broker.written) == 2, "both have it")

    run(hosted, scenario)


def test_a_coordinator_that_partitions_know_a_later_one_of_sends_no_more(hosted: Hosted) -> None:
    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        broker.errors = [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        producer = await opened(shard)
        await shard.ask(EndTransaction(ID, *producer[1:], True, 2))
        await until(lambda: not broker.errors, "both are asked")
        await asyncio.sleep(0.1)
        assert not broker.written
        assert await state(shard) == "PrepareCommit"

    run(hosted, scenario)


def test_markers_leave_when_the_decision_is_replicated_and_not_before(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_log, "_COMMIT_TIMEOUT_S", 0.05)

    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        producer = await opened(shard)
        hosted.hold_watermark()
        with pytest.raises(KafkaError) as caught:
            await shard.ask(EndTransaction(ID, *producer[1:], True, 2))
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not broker.written
        with pytest.raises(KafkaError):
            await shard.describe(ID)
        hosted.release_watermark()
        await until(lambda: len(broker.written) == 2, "the markers leave by themselves")

    run(hosted, scenario)


def test_a_former_coordinator_answers_and_sends_nothing(hosted: Hosted) -> None:
    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        broker.leader = -1
        producer = await opened(shard)
        await shard.ask(EndTransaction(ID, *producer[1:], True, 2))
        hosted.lose_leadership()
        assert not shard.is_current
        broker.leader = 1
        with pytest.raises(KafkaError) as caught:
            await shard.ask(InitProducer(ID, 60_000))
        assert caught.value.code is ErrorCode.NOT_COORDINATOR
        await asyncio.sleep(0.1)
        assert not broker.written
        hosted.regain_leadership()
        successor = broker.shard()
        with pytest.raises(KafkaError) as caught:
            await successor.ask(InitProducer(ID, 60_000))
        assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await successor.load()
        await until(lambda: len(broker.written) == 2, "the next coordinator sends them")
        assert broker.written[0][2].coordinator_epoch == 2
        successor.unload()

    run(hosted, scenario)


def test_what_took_too_long_is_aborted_and_what_is_not_used_is_forgotten(hosted: Hosted) -> None:
    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        producer: ProducerAnswer = await shard.ask(InitProducer(ID, 1))
        await shard.ask(AddPartitions(ID, *producer[1:], frozenset({T0}), 2))
        await asyncio.sleep(0.01)
        await shard.abort_timed_out()
        await until(lambda: len(broker.written) == 1, "it is aborted")
        await shard.expire_ids()
        assert await state(shard) == "CompleteAbort"

    run(hosted, scenario)


GROUP = tuple(f"sink/{number}" for number in range(40))


async def opened_together(shard: TransactionShard) -> CommitTogether:
    """A transaction of each id, and the command that commits all."""
    ends = []
    for name in GROUP:
        producer: ProducerAnswer = await shard.ask(InitProducer(name, 60_000))
        await shard.ask(AddPartitions(name, *producer[1:], frozenset({T0, T1}), 2))
        ends.append(EndTransaction(name, *producer[1:], True, 2))
    return CommitTogether(tuple(ends))


def test_transactions_that_are_committed_together_are_one_batch_of_the_log(hosted: Hosted) -> None:
    """EOS-1, PIPE-3: a log is written and replicated batch by batch."""

    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        command = await opened_together(shard)
        before = hosted.partition.log.log_end_offset
        broker.leader = -1  # no marker is written, so nothing follows the decision
        assert (await shard.ask(command)).error == ErrorCode.NONE
        written = [batch for batch in hosted.batches() if batch.base_offset >= before]
        assert [len(list(batch.records())) for batch in written] == [len(GROUP)]

    run(hosted, scenario)


def test_transactions_that_do_not_fit_into_one_batch_are_not_committed(tmp_path: Path) -> None:
    small = Hosted(tmp_path, max_message_bytes=2000)

    async def scenario(broker: Broker, shard: TransactionShard) -> None:
        command = await opened_together(shard)
        before = small.partition.log.log_end_offset
        with pytest.raises(KafkaError) as refused:
            await shard.ask(command)
        assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert small.partition.log.log_end_offset == before
        assert (await shard.describe(GROUP[0])).transaction_state == "Ongoing"

    try:
        run(small, scenario)
    finally:
        small.close()
