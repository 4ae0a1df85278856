"""Proposals of ISR changes on their way to the controller, and its answers on their way back (REP-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tests.integration.replicas import Cluster, Overheard, running, until

from ottla.config import BrokerConfig, TopicConfig
from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.model import ACKS_ALL
from ottla.protocol.messages.partitions import AlterPartitionRequest, AlterPartitionResponse
from ottla.replication.events import Assigned
from ottla.replication.partition import PartitionReplica
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.disk import OsDisk
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.replicas.isr_proposals import Isr

NODES = (1, 2, 3)
SHORT_LAG: dict[str, str | int] = {"replica_lag_time_max_ms": 300, "replica_fetch_wait_max_ms": 100}


def overhear(cluster: Cluster) -> Overheard:
    """The proposals of node 1, as they go out."""
    return Overheard(cluster.nodes[1], AlterPartitionRequest)


def test_what_many_partitions_propose_at_once_goes_out_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", *([NODES] * 20))
            for index in range(20):
                await cluster.produce(b"a", index=index)
            for index in range(20):
                await cluster.until_isr(1, 2, 3, index=index)
            proposals = overhear(cluster)
            await cluster.nodes[3].fetchers.stop()
            for index in range(20):
                await cluster.produce(b"a", index=index, acks=1)
            for index in range(20):
                await cluster.until_isr(1, 2, index=index)
            assert len(proposals.requests) <= 5
            cluster.nodes[3].fetchers.start()
            for index in range(20):
                await cluster.until_isr(1, 2, 3, index=index)

    asyncio.run(scenario())


def test_a_proposal_carries_the_epochs_of_its_members(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            proposals = overhear(cluster)
            await cluster.nodes[3].fetchers.stop()
            await cluster.produce(b"b")
            await cluster.until_isr(1, 2)
            ((_, request),) = proposals.requests
            (data,) = request.topics[0].partitions
            epochs = {state.broker_id: state.broker_epoch for state in data.new_isr_with_epochs}
            assert epochs == {n: cluster.nodes[n].quorum.broker_epoch for n in (1, 2)}
            assert request.broker_epoch == epochs[1]

    asyncio.run(scenario())


def test_a_proposal_whose_answer_is_lost_is_made_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            lost: list[AlterPartitionResponse] = []

            def lose(response: AlterPartitionResponse) -> AlterPartitionResponse | None:
                if lost:
                    return response
                lost.append(response)
                return None

            overhear(cluster).change = lose
            await cluster.nodes[3].fetchers.stop()
            assert (await cluster.produce(b"b")).error_code == 0
            await cluster.until_isr(1, 2)
            cluster.nodes[3].fetchers.start()
            await cluster.until_isr(1, 2, 3)
            assert lost

    asyncio.run(scenario())


def test_a_refused_proposal_is_tried_again(tmp_path: Path) -> None:
    """A broker that fetches before it may serve is let into the ISR when it may."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            proposals = overhear(cluster)
            cluster.cut_off(3)
            await cluster.fence(3)
            assert 3 not in cluster.placed().isr
            await until(lambda: len(proposals.requests) >= 2, "node 3 fetches, and is proposed in vain")
            assert 3 not in cluster.placed().isr
            await cluster.let_in(3)
            await cluster.until_isr(1, 2, 3)

    asyncio.run(scenario())


async def _nobody_answers(request: Any) -> Any:
    raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody answers")


def test_a_controller_that_is_known_and_does_not_answer_is_silent(tmp_path: Path) -> None:
    """A broker that hears its controller, and does not reach it, may have been replaced."""

    async def scenario() -> None:
        log = Log.open(
            OsDisk(), str(tmp_path), TopicConfig(),
            recovery_point=0, log_start_offset=0, clean=True, now_ms=0, open_files=OpenFiles(),
        )  # fmt: skip
        partition = HostedPartition("t", UUID(int=1), 0, log, PartitionReplica(1, 0, isolation_patience_ms=5))
        partition.assign(Assigned(1, 0, (1, 2), (1, 2)), monotonic_ms())
        partitions = Partitions(lambda: ClusterImage("cluster"))
        partitions.add(partition)
        config = BrokerConfig.from_properties({"node.id": "1", "replica.lag.time.max.ms": "600"})
        quorum: Any = SimpleNamespace(
            controller_id=2, answered_ms=0, broker_epoch=1, image=ClusterImage(""), submit=_nobody_answers
        )
        isr = Isr(config, quorum, partitions)
        isr.start()
        await until(lambda: partition.append_error(ACKS_ALL) == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it knows")
        await isr.stop()
        log.close()

    asyncio.run(scenario())
