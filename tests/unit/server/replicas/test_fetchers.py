"""A follower's fetches: what they ask, in which lane, and what becomes of answers that nobody would wish for
(REP-1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.peer import batch
from tests.integration.replicas import Cluster, Node, reassignment, running, until

from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

NODES = (1, 2, 3)


class Overheard:
    """Sees every fetch of a node before it goes out, and may change its answer."""

    def __init__(self, node: Node) -> None:
        self._ask = node.peers.ask
        self.requests: list[tuple[str, FetchRequest]] = []
        self._under_way: set[tuple[int, str]] = set()
        self.change: Callable[[FetchResponse], FetchResponse | None] = lambda response: response
        node.peers.ask = self.ask  # type: ignore[method-assign]

    async def ask(self, node_id: int, request: Any, *, purpose: str, **options: Any) -> Any:
        assert (node_id, purpose) not in self._under_way, "one fetch at a time"
        self._under_way.add((node_id, purpose))
        self.requests.append((purpose, request))
        try:
            response = await self._ask(node_id, request, purpose=purpose, **options)
        finally:
            self._under_way.discard((node_id, purpose))
        changed = self.change(response)
        if changed is None:
            raise ConnectionResetError("lost")
        return changed

    def named(self) -> list[list[int]]:
        return [
            [p.partition for topic in request.topics for p in topic.partitions]
            for _, request in self.requests
        ]


def test_only_partitions_whose_question_changed_are_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            overheard = Overheard(cluster.nodes[2])
            await cluster.create_topic("t", *([(1, 2)] * 10))
            await cluster.produce(b"a", index=3)
            await until(lambda: len(overheard.requests) > 3, "it fetches on")
            overheard.requests.clear()
            await cluster.produce(b"b", index=3)
            await until(lambda: len(overheard.requests) > 1, "it fetches on")
            assert all(named in ([], [3]) for named in overheard.named())

    asyncio.run(scenario())


def test_an_answer_that_is_lost_is_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            overheard = Overheard(cluster.nodes[2])
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
            overheard = Overheard(cluster.nodes[2])
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
            overheard = Overheard(cluster.nodes[2])
            sessions = cluster.nodes[1].sessions
            for session in list(sessions._sessions.values()):
                session.close()
            sessions._sessions.clear()
            assert (await cluster.produce(b"b", index=2)).error_code == 0
            assert [0, 1, 2] in [sorted(named) for named in overheard.named()]

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
            overheard = Overheard(cluster.nodes[3])
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
            overheard = Overheard(cluster.nodes[2])
            change = IncrementalAlterableConfig("ottla.flush.on.acks.all", 0, "true")
            resource = IncrementalAlterConfigsResource(2, "t", [change])
            await cluster.submit(IncrementalAlterConfigsRequest([resource]))
            assert (await cluster.produce(b"b")).error_code == 0
            assert "fetch-flushed" in {purpose for purpose, _ in overheard.requests}
            assert cluster.nodes[2].partition().log.durability.flushed_offset == 2

    asyncio.run(scenario())
