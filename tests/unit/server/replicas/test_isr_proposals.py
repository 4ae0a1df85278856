"""Proposals of ISR changes on their way to the controller, and its answers on their way back (REP-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.integration.replicas import Cluster, running, until

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.partitions import AlterPartitionRequest

NODES = (1, 2, 3)
SHORT_LAG: dict[str, str | int] = {"replica_lag_time_max_ms": 300, "replica_fetch_wait_max_ms": 100}


def proposed(cluster: Cluster) -> list[int]:
    """How many partitions each request was about."""
    return [sum(len(topic.partitions) for topic in request.topics) for request in cluster.proposals]


def test_what_many_partitions_propose_at_once_goes_out_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", *([NODES] * 20))
            for index in range(20):
                await cluster.produce(b"a", index=index)
            for index in range(20):
                await cluster.until_isr(1, 2, 3, index=index)
            cluster.proposals.clear()
            await cluster.nodes[3].fetchers.stop()
            for index in range(20):
                await cluster.produce(b"a", index=index, acks=1)
            for index in range(20):
                await cluster.until_isr(1, 2, index=index)
            assert len(proposed(cluster)) <= 5
            cluster.nodes[3].fetchers.start()
            for index in range(20):
                await cluster.until_isr(1, 2, 3, index=index)

    asyncio.run(scenario())


def test_a_proposal_carries_the_epochs_of_its_members(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            await cluster.nodes[3].fetchers.stop()
            await cluster.produce(b"b")
            await cluster.until_isr(1, 2)
            (request,) = cluster.proposals
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
            submit = cluster.submit
            lost: list[AlterPartitionRequest] = []

            async def losing(request: Any) -> Any:
                response = await submit(request)
                if isinstance(request, AlterPartitionRequest) and not lost:
                    lost.append(request)
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
                return response

            cluster.submit = losing  # type: ignore[method-assign]
            await cluster.nodes[3].fetchers.stop()
            assert (await cluster.produce(b"b")).error_code == 0
            await cluster.until_isr(1, 2)
            cluster.nodes[3].fetchers.start()
            await cluster.until_isr(1, 2, 3)

    asyncio.run(scenario())


def test_a_refused_proposal_is_tried_again(tmp_path: Path) -> None:
    """A broker that fetches before it may serve is let into the ISR when it may."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            await cluster.fence(3)
            assert 3 not in cluster.placed().isr
            await until(lambda: len(cluster.proposals) >= 2, "node 3 fetches, and is proposed in vain")
            assert 3 not in cluster.placed().isr
            node = cluster.nodes[3]
            await cluster.register(node, previous_epoch=node.quorum.broker_epoch)
            await cluster.until_isr(1, 2, 3)

    asyncio.run(scenario())
