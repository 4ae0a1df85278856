from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from tests.unit.client.consumer.test_consumer_groups import eventually
from tests.unit.client.fake_cluster import TOPIC_ID, FakeCluster
from tests.unit.wire.fake_broker import HANG_UP, SILENCE

from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.conversation import refreshed
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.topology import Topology
from ottla.client.requests.metadata import Leader
from ottla.errors import ErrorCode
from ottla.model import TopicPartition, parse_addresses
from ottla.protocol.messages import metadata

T0 = TopicPartition("t", 0)


def watching(
    cluster: FakeCluster, body: Callable[[Topology], Awaitable[None]], *, max_age_ms: int = 60_000
) -> int:
    """Keep a topology of the cluster fresh while `body` runs; answers how often it changed."""
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    async def run() -> None:
        async with asyncio.timeout(10), cluster.broker:
            connections = Connections(
                KnownCluster(parse_addresses(cluster.bootstrap)), client_id="c", timeout_ms=5_000
            )
            topology = Topology(connections, max_age_ms=max_age_ms, on_change=changed)
            task = asyncio.ensure_future(topology.run())
            try:
                await body(topology)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await connections.close()

    asyncio.run(run())
    return changes


def test_what_is_wanted_is_learned_and_what_is_not_wanted_any_more_forgotten() -> None:
    async def body(topology: Topology) -> None:
        assert topology.leader_of(T0) is None
        topology.want(["t"])
        await eventually(lambda: topology.leader_of(T0) == Leader(1, 0))
        assert topology.id_of("t") == TOPIC_ID
        assert topology.partition_counts(["t", "nix"]) == {"t": 2, "nix": 0}
        topology.want([])
        await topology.refresh()
        assert topology.leader_of(T0) is None

    assert watching(FakeCluster(partitions=2), body) >= 2


def test_it_is_asked_again_when_something_says_so_and_when_it_is_old() -> None:
    cluster = FakeCluster()

    async def told(topology: Topology) -> None:
        topology.want(["t"])
        await eventually(lambda: topology.leader_of(T0) is not None)
        cluster.leader_epoch = 1
        topology.request_refresh()
        await eventually(lambda: topology.leader_of(T0) == Leader(1, 1))

    async def old(topology: Topology) -> None:
        topology.want(["t"])
        await eventually(lambda: topology.leader_of(T0) is not None)
        cluster.leader_epoch = 2
        await eventually(lambda: topology.leader_of(T0) == Leader(1, 2))

    watching(cluster, told)
    watching(cluster, old, max_age_ms=10)


def test_a_leader_of_an_older_epoch_is_not_believed_unless_the_topic_is_another() -> None:
    cluster = FakeCluster()
    cluster.leader_epoch = 5

    async def body(topology: Topology) -> None:
        topology.want(["t"])
        await topology.refresh()
        cluster.leader_epoch = 4
        await topology.refresh()
        assert topology.leader_of(T0) == Leader(1, 5)
        cluster.topic_id = UUID(int=8)
        await topology.refresh()
        assert topology.leader_of(T0) == Leader(1, 4)

    watching(cluster, body)


def test_a_topic_that_is_deleted_has_no_leader_and_a_cluster_that_does_not_answer_changes_nothing() -> None:
    cluster = FakeCluster()
    answers: list[object] = []
    serve = cluster.broker.answer_to(metadata.MetadataRequest)
    cluster.broker.on(metadata.MetadataRequest, lambda *asked: answers.pop() if answers else serve(*asked))

    async def body(topology: Topology) -> None:
        topology.want(["t"])
        await eventually(lambda: topology.leader_of(T0) is not None)
        answers.append(HANG_UP)
        topology.request_refresh()
        await eventually(lambda: not answers)
        assert topology.leader_of(T0) is not None
        cluster.partitions = 0
        topology.request_refresh()
        await eventually(lambda: topology.leader_of(T0) is None)

    watching(cluster, body)


def test_a_leader_that_another_broker_names_is_believed_if_it_is_news() -> None:
    async def body(topology: Topology) -> None:
        assert not topology.learn_leader(T0, Leader(2, 1))
        topology.want(["t"])
        await eventually(lambda: topology.leader_of(T0) is not None)
        assert topology.learn_leader(T0, Leader(2, 1))
        assert not topology.learn_leader(T0, Leader(3, 1))
        assert topology.leader_of(T0) == Leader(2, 1)

    watching(FakeCluster(), body)


def test_it_is_known_why_nothing_is_known_of_a_topic() -> None:
    async def body(topology: Topology) -> None:
        topology.want(["nix"])
        await eventually(lambda: topology.error_of("nix") is not None)
        error = topology.error_of("nix")
        assert error is not None
        assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topology.want([])
        await topology.refresh()
        assert topology.error_of("nix") is None

    watching(FakeCluster(), body)


def test_topics_are_created_only_by_those_who_may() -> None:
    for may_create in (False, True):
        cluster = FakeCluster()

        async def ask(cluster: FakeCluster = cluster, may_create: bool = may_create) -> None:
            async with cluster.broker:
                connections = Connections(
                    KnownCluster(parse_addresses(cluster.bootstrap)), client_id="c", timeout_ms=5_000
                )
                topology = Topology(
                    connections, max_age_ms=1, on_change=lambda: None, may_create_topics=may_create
                )
                topology.want(["t"])
                await topology.refresh()
                await connections.close()

        asyncio.run(ask())
        (request,) = cluster.asked_for(metadata.MetadataRequest)
        assert request.allow_auto_topic_creation is may_create


def test_a_broker_that_does_not_answer_is_not_asked_again_while_there_are_others() -> None:
    silent, cluster = FakeCluster(), FakeCluster()
    silent.broker.on(metadata.MetadataRequest, SILENCE)

    async def body() -> None:
        async with silent.broker, cluster.broker:
            addresses = parse_addresses(f"{silent.bootstrap},{cluster.bootstrap}")
            connections = Connections(KnownCluster(addresses), client_id="c", timeout_ms=5_000)
            with pytest.raises(TimeoutError):
                await connections.converse(refreshed(connections.known, [], 20))
            assert [
                each.port for each in (await connections.converse(refreshed(connections.known, []))).brokers
            ] == [cluster.broker.port]
            await connections.close()

    asyncio.run(body())
