"""Disks fail under one replica: another leads, and what cannot be written or flushed is not counted (REP-10,
STO-11).
"""

import asyncio
from pathlib import Path

import pytest
from tests.integration.replicas import Cluster, running, until
from tests.integration.troubled_disk import TroubledDisk

from ottla.client.admin.admin import Admin
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode
from ottla.localcluster.ports import HOST
from ottla.model import NO_LEADER, TopicPartition

NODES = (1, 2, 3)
SHORT_LAG: dict[str, str | int] = {"replica_lag_time_max_ms": 400, "replica_fetch_wait_max_ms": 100}


async def start_with(cluster: Cluster, disk: TroubledDisk, node_id: int) -> None:
    for other in NODES:
        await cluster.start_node(other, disk if other == node_id else None)


def test_a_leader_that_cannot_flush_hands_its_leadership_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path, **SHORT_LAG) as cluster:
            await start_with(cluster, disk, 1)
            await cluster.create_topic("t", NODES, ottla_flush_on_acks_all="true")
            assert (await cluster.produce(b"a")).error_code == 0
            disk.fails_sync = lambda path: "/t-0/" in path
            refused = await cluster.produce(b"b")
            assert refused.error_code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await cluster.until_led_by(2)
            assert (await cluster.produce(b"c")).error_code == 0
            assert 1 not in cluster.placed().isr

    asyncio.run(scenario())


def test_a_leader_whose_disk_is_full_hands_its_leadership_over_and_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path, **SHORT_LAG) as cluster:
            await start_with(cluster, disk, 1)
            await cluster.create_topic("t", NODES)
            assert (await cluster.produce(b"a")).error_code == 0
            disk.is_full = lambda path: "/t-0/" in path
            assert (await cluster.produce(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await cluster.until_led_by(2)
            assert (await cluster.produce(b"c")).error_code == 0
            disk.is_full = lambda path: False
            await cluster.until_isr(1, 2, 3)
            assert cluster.nodes[1].values() == [b"a", b"c"]

    asyncio.run(scenario())


def test_a_leader_that_is_alone_stays_and_refuses_writes(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path, **SHORT_LAG) as cluster:
            await start_with(cluster, disk, 1)
            await cluster.create_topic("t", (1,))
            await cluster.produce(b"a")
            disk.is_full = lambda path: "/t-0/" in path
            assert (await cluster.produce(b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await asyncio.sleep(1.2)
            assert cluster.placed().leader == 1
            disk.is_full = lambda path: False
            assert (await cluster.produce(b"c")).error_code == 0

    asyncio.run(scenario())


def test_a_log_that_cannot_be_opened_does_not_lead(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path, **SHORT_LAG) as cluster:
            await start_with(cluster, disk, 1)
            disk.is_full = lambda path: path.endswith("/t-0")
            await cluster.create_topic("t", NODES)
            assert cluster.placed().leader == 1
            await cluster.until_led_by(2)
            assert (await cluster.produce(b"a")).error_code == 0
            disk.is_full = lambda path: False
            cluster.nodes[1].hosting.retry()
            await cluster.until_isr(1, 2, 3)

    asyncio.run(scenario())


def test_a_follower_that_cannot_write_leaves_the_isr(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path, **SHORT_LAG) as cluster:
            await start_with(cluster, disk, 3)
            await cluster.create_topic("t", NODES)
            await cluster.create_topic("u", NODES)
            disk.is_full = lambda path: "/t-0/" in path
            assert (await cluster.produce(b"a")).error_code == 0
            await cluster.until_isr(1, 2)
            # A disk that is full for one log is full for all.
            await cluster.until_isr(1, 2, topic="u")
            assert (await cluster.produce(b"a", topic="u")).error_code == 0
            disk.is_full = lambda path: False
            await cluster.until_isr(1, 2, 3)
            await cluster.until_isr(1, 2, 3, topic="u")
            assert cluster.nodes[3].values() == [b"a"]

    asyncio.run(scenario())


def test_where_acks_all_means_fsync_a_follower_counts_when_it_has_flushed(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path) as cluster:
            await start_with(cluster, disk, 3)
            await cluster.create_topic("t", NODES, ottla_flush_on_acks_all="true")
            await cluster.create_topic("u", NODES)
            disk.may_sync.clear()
            waiting = asyncio.ensure_future(cluster.produce(b"a"))
            await until(lambda: cluster.nodes[3].values() == [b"a"], "the follower has it")
            # Nobody else waits for that disk.
            assert (await cluster.produce(b"u", topic="u")).error_code == 0
            assert not waiting.done()
            assert cluster.nodes[1].partition().replica.high_watermark == 0
            disk.may_sync.set()
            assert (await waiting).error_code == 0
            assert cluster.nodes[3].partition().log.durability.flushed_offset == 1

    asyncio.run(scenario())


def test_where_acks_all_means_fsync_the_leader_counts_when_it_has_flushed(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = TroubledDisk()
        async with running(tmp_path) as cluster:
            await start_with(cluster, disk, 1)
            await cluster.create_topic("t", NODES, ottla_flush_on_acks_all="true")
            disk.may_sync.clear()
            waiting = asyncio.ensure_future(cluster.produce(b"a"))
            await until(lambda: cluster.nodes[3].values() == [b"a"], "a follower has it")
            await asyncio.sleep(0.1)
            assert cluster.nodes[1].partition().replica.high_watermark == 0
            disk.may_sync.set()
            assert (await waiting).error_code == 0
            # acks=1 is answered at once, and is flushed all the same: readers wait for that.
            assert (await cluster.produce(b"b", acks=1)).error_code == 0
            await until(
                lambda: cluster.nodes[1].partition().replica.high_watermark == 2, "it is committed, too"
            )

    asyncio.run(scenario())


@pytest.mark.parametrize("node_id", [1, 3])
def test_damage_in_the_middle_is_cut_off_by_a_follower_and_fetched_again(
    tmp_path: Path, node_id: int
) -> None:
    """STO-9: a corrupt batch in the middle is fetched again where a replica has it."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            for number in range(6):
                await cluster.produce(b"value-%d" % number)
            await cluster.kill(node_id)
            await cluster.produce(b"value-6")
            path = tmp_path / f"node-{node_id}" / "t-0" / "00000000000000000000.log"
            data = bytearray(path.read_bytes())
            data[data.index(b"value-2")] ^= 0xFF
            path.write_bytes(data)
            node = await cluster.start_node(node_id)
            await cluster.until_isr(1, 2, 3)
            await until(lambda: node.values() == [b"value-%d" % n for n in range(7)], "all is there again")

    asyncio.run(scenario())


def test_a_leader_that_lost_records_in_the_middle_does_not_go_on_behind_the_hole(tmp_path: Path) -> None:
    """A follower that still had them would never find out that its leader has not."""

    async def scenario() -> None:
        async with running(tmp_path, 1, 2) as cluster:
            await cluster.create_topic("t", (1, 2))
            for number in range(5):
                await cluster.produce(b"value-%d" % number)
            await cluster.kill(2)
            await cluster.kill(1)
            path = tmp_path / "node-1" / "t-0" / "00000000000000000000.log"
            data = bytearray(path.read_bytes())
            data[data.index(b"value-2")] ^= 0xFF
            path.write_bytes(data)
            leader = await cluster.start_node(1)
            assert cluster.placed().leader == NO_LEADER  # it may not lead without being told to
            async with Admin(f"{HOST}:{leader.port}") as admin:
                succeeded(await admin.elect_replicas({TopicPartition("t", 0): 1}))
            await cluster.until_led_by(1)
            assert leader.values() == [b"value-0", b"value-1"]
            follower = await cluster.start_node(2)
            await cluster.produce(b"more")
            await cluster.until_isr(1, 2)
            assert follower.values() == leader.values() == [b"value-0", b"value-1", b"more"]

    asyncio.run(scenario())
