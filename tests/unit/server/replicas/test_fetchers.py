"""A follower's fetches: what they ask, in which lane, and what becomes of answers that nobody would wish for
(REP-1).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.peer import batch
from tests.integration.replicas import Cluster, Node, Overheard, reassignment, running, until

from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

NODES = (1, 2, 3)


def overhear(node: Node) -> Overheard:
    """The fetches of a follower, as they go out."""
    return Overheard(node, FetchRequest, "fetch")


def named(overheard: Overheard) -> list[list[int]]:
    """The partitions that each fetch names."""
    return [
        [p.partition for topic in request.topics for p in topic.partitions]
        for _, request in overheard.requests
    ]


def test_only_partitions_whose_question_changed_are_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            overheard = overhear(cluster.nodes[2])
            await cluster.create_topic("t", *([(1, 2)] * 10))
            await cluster.produce(b"a", index=3)
            await until(lambda: len(overheard.requests) > 3, "it fetches on")
            overheard.requests.clear()
            await cluster.produce(b"b", index=3)
            await until(lambda: len(overheard.requests) > 1, "it fetches on")
            assert all(each in ([], [3]) for each in named(overheard))

    asyncio.run(scenario())


def test_an_answer_that_is_lost_is_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            overheard = overhear(cluster.nodes[2])
            await cluster.create_topic("t", (1, 2))
            lost: list[FetchResponse] = []

            def lose(response: FetchResponse) -> FetchResponse | None:
                if response.responses and len(lost) < 3:
                    lost.append(response)
                    return None
                return response

            overheard.change = lose
            assert (await cluster.produce(b"a")).error_code == 0
            assert cluster.nodes[2].values() == [b"a"]
            assert len(lost) == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("damage", ["flipped", "cut", "old"])
def test_damaged_records_are_not_appended_and_fetched_again(tmp_path: Path, damage: str) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            overheard = overhear(cluster.nodes[2])
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(b"first")
            damaged: list[PartitionData] = []

            def change(response: FetchResponse) -> FetchResponse:
                for topic in response.responses:
                    for data in topic.partitions:
                        if data.records and not damaged:
                            damaged.append(data)
                            records = bytearray(data.records)
                            if damage == "flipped":
                                records[-3] ^= 0xFF
                            elif damage == "cut":
                                del records[-5:]
                            else:
                                records = batch(b"another")
                            data.records = memoryview(records)
                return response

            overheard.change = change
            assert (await cluster.produce(b"a")).error_code == 0
            assert damaged
            assert cluster.nodes[2].values() == [b"first", b"a"]

    asyncio.run(scenario())


def test_a_leader_that_forgot_the_session_is_asked_for_everything_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            await cluster.create_topic("t", *([(1, 2)] * 3))
            await cluster.produce(b"a")
            overheard = overhear(cluster.nodes[2])
            sessions = cluster.nodes[1].services.follower_sessions
            for session in list(sessions._sessions.values()):
                session.close()
            sessions._sessions.clear()
            assert (await cluster.produce(b"b", index=2)).error_code == 0
            assert [0, 1, 2] in [sorted(each) for each in named(overheard)]

    asyncio.run(scenario())


async def set_rates(cluster: Cluster, rate: int) -> None:
    for node_id in (1, 3):
        change = IncrementalAlterableConfig("follower.replication.throttled.rate", 0, str(rate))
        resource = IncrementalAlterConfigsResource(4, str(node_id), [change])
        response = await cluster.submit(IncrementalAlterConfigsRequest([resource]))
        assert response.responses[0].error_code == 0, response.responses[0].error_message


def test_a_replica_that_is_being_moved_here_keeps_to_its_rate_and_others_do_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await set_rates(cluster, 50_000)
            await cluster.create_topic("t", (1, 2))
            await cluster.create_topic("other", (1, 3))
            for _ in range(20):
                await cluster.produce(b"x" * 5_000)
            overheard = overhear(cluster.nodes[3])
            await cluster.submit(reassignment("t", [1, 2, 3]))
            await until(lambda: cluster.nodes[3].partition().log.extent.segments.size_bytes > 0, "it begins")
            assert (await cluster.produce(b"y", topic="other")).error_code == 0
            assert cluster.nodes[3].partition().log.extent.segments.size_bytes < 90_000
            await until(lambda: not cluster.placed().adding_replicas, "the move is complete")
            assert {purpose for purpose, _ in overheard.requests} == {"fetch", "fetch-moving"}
            assert len(cluster.nodes[3].values()) == 20

    asyncio.run(scenario())


def test_a_topic_that_is_to_be_flushed_changes_the_lane(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(b"a")
            overheard = overhear(cluster.nodes[2])
            change = IncrementalAlterableConfig("ottla.flush.on.acks.all", 0, "true")
            resource = IncrementalAlterConfigsResource(2, "t", [change])
            await cluster.submit(IncrementalAlterConfigsRequest([resource]))
            assert (await cluster.produce(b"b")).error_code == 0
            assert "fetch-flushed" in {purpose for purpose, _ in overheard.requests}
            assert cluster.nodes[2].partition().log.durability.flushed_offset == 2

    asyncio.run(scenario())
