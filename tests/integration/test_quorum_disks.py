"""The disk of the controller is full or fails: another voter becomes the controller (CTL-5).

Real brokers on real connections, in one process; what must happen soon has its deadline in the test, a deadline of
work (`processor_waits`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.quorum_nodes import Nodes, eventually, nodes
from tests.integration.test_quorum import create, knows

from ottla.controller.image import PartitionImage
from ottla.protocol.messages.metadata import MetadataRequest

SOON_S = 2.0


def _of_metadata(path: str) -> bool:
    return "/__cluster_metadata-0/" in path


def _placed(cluster: Nodes) -> tuple[PartitionImage, ...]:
    """The partitions of the topic, as the controller knows them."""
    return cluster.running[cluster.controller_id or 0].quorum.image.topics_by_name["t"].partitions


async def _brokers(cluster: Nodes, node_id: int) -> list[int]:
    """The brokers that a node tells clients of."""
    answer = await cluster.ask(node_id, MetadataRequest())
    return sorted(broker.node_id for broker in answer.brokers)


def test_a_controller_whose_disk_fails_halts_and_another_decides(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            broken = await cluster.controller()
            cluster.disks[broken].fails_write = _of_metadata
            # The command that finds the disk broken is carried out by the next controller.
            await create(cluster, cluster.others(broken)[0], "t", replicas=2)
            reason = await asyncio.wait_for(cluster.running[broken].halted, SOON_S)
            assert "Input/output error" in reason
            await cluster.stop(broken)
            assert await cluster.controller() != broken
            await create(cluster, cluster.controller_id or 0, "u", replicas=2)

    asyncio.run(test())


def test_a_voter_without_room_for_the_file_of_epochs_flushes_when_there_is_room(tmp_path: Path) -> None:
    """The file is written before a flush of a new epoch: nothing is unknown if it cannot be."""

    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            first = await cluster.controller()
            full, other = cluster.others(first)
            asked = list[str]()

            def is_full(path: str) -> bool:
                is_meant = "__cluster_metadata" in path and "leader-epoch-checkpoint" in path
                asked.extend([path] if is_meant else [])
                return is_meant

            cluster.disks[full].is_full = is_full
            await cluster.kill(first)
            await eventually(lambda: bool(asked), "the voter wants to write the epoch down", SOON_S)
            assert not cluster.running[full].halted.done()
            cluster.disks[full].is_full = lambda path: False
            await create(cluster, other, "t", replicas=2)
            await eventually(knows(cluster, "t"), "both voters go on", SOON_S)
            assert not cluster.running[full].halted.done()

    asyncio.run(test())


def test_a_controller_whose_disk_is_full_resigns_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            full = await cluster.controller()
            cluster.disks[full].is_full = lambda path: True
            await create(cluster, cluster.others(full)[0], "t", replicas=2)
            assert not cluster.running[full].quorum.is_controller
            assert not cluster.running[full].halted.done()
            cluster.disks[full].is_full = lambda path: False
            await eventually(knows(cluster, "t"), "the node that was full knows all", SOON_S)
            assert await cluster.controller() != full

    asyncio.run(test())


def test_a_broker_whose_disk_is_full_leaves_every_isr_and_says_no_more_who_leads(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await create(cluster, 1, "t", partitions=3)
            full = cluster.others(await cluster.controller())[0]
            cluster.disks[full].is_full = lambda path: True
            await create(cluster, cluster.controller_id or 0, "u", replicas=2)
            left = [node_id for node_id in (1, 2, 3) if node_id != full]
            await eventually(
                lambda: not any(full in each.isr for each in _placed(cluster)), "it is in no ISR", SOON_S
            )
            assert await _brokers(cluster, full) == left
            cluster.disks[full].is_full = lambda path: False
            await eventually(
                lambda: all(full in each.isr for each in _placed(cluster)), "it is in sync again", 5 * SOON_S
            )
            assert await _brokers(cluster, full) == [1, 2, 3]

    asyncio.run(test())
