"""Proposals of ISR changes on their way to the controller, and its answers on their way back (REP-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.replicas import Cluster, Overheard, running, until

from ottla.protocol.messages.partitions import AlterPartitionRequest, AlterPartitionResponse

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
