"""Group coordinators move with their partition of `__consumer_offsets`."""

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.integration.replicas import Cluster, running, until
from tests.unit.server.group_shards import commit_request

from ottla.client.consumer.consumer import Consumer
from ottla.errors import ErrorCode
from ottla.localcluster.ports import HOST
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.group_admin import DescribeGroupsRequest
from ottla.protocol.messages.groups import HeartbeatRequest
from ottla.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.replication.events import Assigned
from ottla.server.coordinators import coordinator_log

NODES = (1, 2, 3)
OFFSETS = "__consumer_offsets"


async def with_group(cluster: Cluster) -> None:
    """The topics, and a committed offset."""
    await cluster.create_topic("t", NODES)
    await cluster.create_topic(OFFSETS, NODES, cleanup_policy="compact")
    assert await commit(cluster, 1, 10) == ErrorCode.NONE


async def commit(cluster: Cluster, node: int, offset: int) -> int:
    response = await cluster.ask(node, commit_request("g", {0: offset}), 9)
    error: int = response.topics[0].partitions[0].error_code
    return error


async def committed(cluster: Cluster, node: int) -> tuple[int, int]:
    """The error and the offset."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    (group,) = (await cluster.ask(node, request, 9)).groups
    offsets = [p.committed_offset for topic in group.topics for p in topic.partitions]
    return group.error_code, offsets[0] if offsets else -1


async def until_committed(cluster: Cluster, node: int, offset: int) -> None:
    await until_told(cluster, node, (ErrorCode.NONE, offset))


async def until_told(cluster: Cluster, node: int, expected: tuple[int, int]) -> None:
    """Ask for the offset until the broker answers with this error and offset."""
    found = (-1, -1)
    for _ in range(1000):
        found = await committed(cluster, node)
        if found == expected:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"{expected} is not told, but {found}")


async def members(cluster: Cluster, node: int) -> list[str]:
    """The members of the group, once the broker coordinates it."""
    error = -1
    for _ in range(1000):
        (group,) = (await cluster.ask(node, DescribeGroupsRequest(groups=["g"]), 5)).groups
        error = group.error_code
        if error == ErrorCode.NONE:
            return [member.member_id for member in group.members]
        await asyncio.sleep(0.01)
    raise TimeoutError(f"broker {node} answers {error}")


def test_the_next_coordinator_knows_what_was_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await with_group(cluster)
            assert (await committed(cluster, 2))[0] == ErrorCode.NOT_COORDINATOR
            await cluster.kill(1)
            await until_committed(cluster, 2, 10)
            found = await cluster.ask(3, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            assert found.coordinators[0].node_id == 2
            assert await commit(cluster, 2, 11) == 0

    asyncio.run(scenario())


def test_a_former_coordinator_sends_everybody_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await with_group(cluster)
            await cluster.fence(1)
            assert await commit(cluster, 1, 12) == ErrorCode.NOT_COORDINATOR
            beat = await cluster.ask(1, HeartbeatRequest("g", 1, "m"), 4)
            assert beat.error_code == ErrorCode.NOT_COORDINATOR
            await until_committed(cluster, 2, 10)

    asyncio.run(scenario())


def test_a_consumer_that_closes_when_its_coordinator_has_just_moved_leaves_the_group(tmp_path: Path) -> None:
    """Otherwise its partitions are read by nobody until the session timeout, 45 s by default, is over."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES, group_initial_rebalance_delay_ms=0) as cluster:
            await with_group(cluster)
            bootstrap = f"{HOST}:{cluster.nodes[3].port}"
            async with Consumer(bootstrap, group_id="g", enable_auto_commit=False) as consumer:
                consumer.subscribe(["t"])
                while not consumer.assignment:
                    await consumer.poll(timeout_ms=100)
                # It thinks that broker 1 coordinates the group.
                await cluster.fence(1)
            assert await members(cluster, 2) == []

    asyncio.run(scenario())


def test_a_coordinator_that_is_replaced_in_the_middle_of_a_write_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await with_group(cluster)
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            waiting = asyncio.ensure_future(commit(cluster, 1, 11))
            log = cluster.nodes[1].partition(OFFSETS).log
            await until(lambda: log.log_end_offset == 2, "it is written")
            assert not waiting.done()
            await cluster.fence(1)
            assert await waiting == ErrorCode.NOT_COORDINATOR
            for node_id in (2, 3):
                cluster.nodes[node_id].fetchers.start()
            await until_committed(cluster, 2, 10)

    asyncio.run(scenario())


def test_a_coordinator_that_is_cut_off_tells_no_offsets(tmp_path: Path) -> None:
    """Another broker may coordinate the group by now, and may have committed more."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES, broker_session_timeout_ms=1000) as cluster:
            await with_group(cluster)
            await cluster.kill_controller()
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            await until_told(cluster, 1, (ErrorCode.NOT_COORDINATOR, -1))
            beat = await cluster.ask(1, HeartbeatRequest("g", 1, "m"), 4)
            assert beat.error_code == ErrorCode.NOT_COORDINATOR
            for node_id in (2, 3):
                cluster.nodes[node_id].fetchers.start()
            await until_committed(cluster, 1, 10)

    asyncio.run(scenario())


def test_a_coordinator_that_lost_and_regained_its_partition_at_once_begins_anew(tmp_path: Path) -> None:
    """Both elections come in one change of metadata: the broker never sees another leader."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await with_group(cluster)
            former = cluster.nodes[1].services.coordinators.shard_of("g")
            partition = cluster.nodes[1].partition(OFFSETS)
            replica = partition.replica
            again = Assigned(
                1, replica.leader_epoch + 2, replica.isr, replica.replicas, replica.partition_epoch + 2
            )
            partition.assign(again, time.monotonic_ns() // 1_000_000)
            coordinators, image = cluster.nodes[1].services.coordinators, cluster.nodes[1].quorum.image
            coordinators.apply(image, image)
            assert coordinators.shard_of("g") is not former
            await until_committed(cluster, 1, 10)

    asyncio.run(scenario())


def test_a_commit_waits_for_the_replicas_but_not_for_ever(tmp_path: Path, monkeypatch: Any) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await with_group(cluster)
            await cluster.nodes[3].fetchers.stop()
            with monkeypatch.context() as patched:
                patched.setattr(coordinator_log, "_COMMIT_TIMEOUT_S", 0.2)
                assert await commit(cluster, 1, 11) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            cluster.nodes[3].fetchers.start()
            assert await commit(cluster, 1, 12) == 0

    asyncio.run(scenario())


def test_a_coordinator_that_leads_again_begins_with_what_the_log_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await with_group(cluster)
            former = cluster.nodes[1].services.coordinators.shard_of("g")
            await cluster.fence(1)
            await until_committed(cluster, 2, 10)
            assert await commit(cluster, 2, 20) == 0
            await cluster.until_isr(1, 2, 3, topic=OFFSETS)
            await cluster.kill(2)
            await until(lambda: cluster.placed(OFFSETS).leader in (1, 3), "another one leads")
            leader = cluster.placed(OFFSETS).leader
            await until_committed(cluster, leader, 20)
            if leader == 1:
                assert cluster.nodes[1].services.coordinators.shard_of("g") is not former

    asyncio.run(scenario())


def test_the_offsets_topic_waits_for_the_brokers_that_should_have_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            cluster.cut_off(2)
            await cluster.fence(2)
            early = await cluster.ask(1, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            assert early.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert OFFSETS not in cluster.image.topics_by_name
            await cluster.let_in(2)
            await cluster.ask(1, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            assert len(cluster.placed(OFFSETS).replicas) == 2

    asyncio.run(scenario())
