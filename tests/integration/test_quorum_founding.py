"""A majority founds a quorum if its directories were prepared, and after the loss of a majority a person decides
(CTL-5, REP-9).
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from click.testing import CliRunner
from tests.integration.quorum_nodes import Nodes, eventually, nodes

from ottla.cli.main import ottla
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from ottla.runtime.disk import OsDisk
from ottla.server.quorum.state_file import QuorumStateFile


async def format_directory(cluster: Nodes, node_id: int, *flags: str) -> tuple[int, str]:
    """`ottla format` with a node's settings: its exit code, and what it said."""
    config = cluster.config(node_id)
    arguments = ["format", "--data", config.logs.directory, "--node-id", str(node_id), *flags]
    arguments += ["--set", f"controller.quorum.voters={','.join(config.node.quorum_voters)}"]
    shown = await asyncio.to_thread(CliRunner().invoke, ottla, arguments)
    return shown.exit_code, shown.output


async def create(cluster: Nodes, node_id: int, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
    response = await cluster.ask(node_id, CreateTopicsRequest([topic], timeout_ms=5_000))
    assert response.topics[0].error_code == 0, response.topics[0].error_message


def can_vote(cluster: Nodes, node_id: int) -> bool:
    return cluster.running[node_id].quorum.member.replica.can_vote


def trouble(cluster: Nodes, node_id: int) -> str:
    return cluster.running[node_id].quorum.describe_trouble()


def memory_of(cluster: Nodes, node_id: int) -> object:
    return QuorumStateFile(OsDisk(), str(cluster.directory(node_id) / "__cluster_metadata-0")).read()


def test_a_majority_of_prepared_voters_founds_a_quorum_and_the_last_one_earns_its_vote(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            assert await format_directory(cluster, 1) == (
                0,
                f"{cluster.directory(1)} is prepared for voter 1.\n",
            )
            await format_directory(cluster, 2)
            assert await format_directory(cluster, 2) == (
                2,
                f"Error: {cluster.directory(2)} is prepared already: start the node with it.\n",
            )
            await cluster.start(1, 2)
            await create(cluster, 1, "t")
            status, said = await format_directory(cluster, 3)
            assert (status, "The quorum exists" in said) == (2, True), said
            await cluster.start(3)
            await eventually(lambda: can_vote(cluster, 3), "the third has earned its vote")

    asyncio.run(test())


def test_after_the_loss_of_a_majority_of_voters_a_person_decides(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await create(cluster, 1, "t")
            await eventually(lambda: all(_knows(cluster, each) for each in (1, 2, 3)), "all know of it")
            await asyncio.gather(*(cluster.kill(node_id) for node_id in (1, 2, 3)))
            for lost in (1, 2):
                shutil.rmtree(cluster.directory(lost))
            status, said = await format_directory(cluster, 1, "--give-up-lost-metadata")
            assert (status, "start the voters whose directories are left first" in said) == (2, True), said
            starting = [asyncio.create_task(cluster.start(node_id)) for node_id in (1, 2, 3)]
            await eventually(lambda: len(cluster.running) == 3, "they run")
            for node_id in (1, 2, 3):
                await eventually(
                    lambda node_id=node_id: (
                        "node 1" in trouble(cluster, node_id)  # type: ignore[misc]
                        and "node 2" in trouble(cluster, node_id)
                        and "lost their disks" in trouble(cluster, node_id)
                    ),
                    f"node {node_id} says what it waits for",
                )
            assert memory_of(cluster, 1) is None
            starting[0].cancel()
            await asyncio.gather(starting[0], return_exceptions=True)
            cluster.running.pop(1)
            status, said = await format_directory(cluster, 1, "--give-up-lost-metadata")
            assert status == 0, said
            await cluster.start(1)
            await asyncio.gather(*starting[1:])
            assert all(_knows(cluster, each) for each in (1, 2, 3))
            await eventually(lambda: can_vote(cluster, 2), "the other earns its vote")

    asyncio.run(test())


def _knows(cluster: Nodes, node_id: int) -> bool:
    return "t" in cluster.running[node_id].quorum.image.topics_by_name
