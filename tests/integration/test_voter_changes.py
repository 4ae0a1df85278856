"""Voters are added, removed and replaced while the cluster runs (CTL-5, KIP-853)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from uuid import UUID

from click.testing import CliRunner
from tests.integration.quorum_nodes import Nodes, eventually, nodes

from ottla.cli.main import ottla
from ottla.errors import ErrorCode
from ottla.localcluster.ports import HOST, free_port
from ottla.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    VoterListener,
)
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from ottla.raft.messages import ReplicaKey

TWO_LISTENERS = {
    "listener_security_protocol_map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT",
    "inter_broker_listener_name": "NODES",
}
STANDBY = {"process_roles": "broker,controller", "ottla_controller_standby": "true"}


def directories_of(cluster: Nodes, node_id: int) -> set[UUID]:
    """The directories that a node has fetched from, as the controller sees it: none at first."""
    controllers = (each for each in cluster.running.values() if each.quorum.is_controller)
    for controller in controllers:
        (partition,) = controller.quorum.describe().topics[0].partitions
        return {
            each.replica_directory_id
            for each in [*partition.observers, *partition.current_voters]
            if each.replica_id == node_id and each.last_fetch_timestamp != -1
        }
    return set()


async def key_of(cluster: Nodes, node_id: int) -> ReplicaKey:
    """A running node with its directory, once it has fetched from the controller."""
    await eventually(lambda: len(directories_of(cluster, node_id)) == 1, f"node {node_id} has fetched")
    (directory_id,) = directories_of(cluster, node_id)
    return ReplicaKey(node_id, directory_id)


async def add(cluster: Nodes, key: ReplicaKey, through: int) -> tuple[int, str | None]:
    listener = VoterListener("PLAINTEXT", HOST, cluster.ports[key.node_id])
    request = AddRaftVoterRequest(
        None,
        timeout_ms=10_000,
        voter_id=key.node_id,
        voter_directory_id=key.directory_id,
        listeners=[listener],
    )
    response = await cluster.ask(through, request)
    return response.error_code, response.error_message


async def remove(cluster: Nodes, key: ReplicaKey, through: int) -> tuple[int, str | None]:
    response = await cluster.ask(through, RemoveRaftVoterRequest(None, *key))
    return response.error_code, response.error_message


async def voters(cluster: Nodes, *arguments: str) -> tuple[int, str]:
    """`ottla cluster voters`: its exit code, and what it said."""
    address = f"{HOST}:{cluster.ports[await cluster.controller()]}"
    command = ["cluster", "voters", "--bootstrap", address, *arguments]
    shown = await asyncio.to_thread(CliRunner().invoke, ottla, command)
    return shown.exit_code, shown.output


async def all_know(cluster: Nodes, *voters: int) -> None:
    await eventually(
        lambda: all(each.quorum.member.voters.ids == set(voters) for each in cluster.running.values()),
        f"all know the voters {voters}",
    )


async def create(cluster: Nodes, node_id: int, name: str) -> None:
    """Create a topic, as a client does that asks again if the controller changed meanwhile."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
    done = [ErrorCode.NONE]
    while True:
        response = await cluster.ask(node_id, CreateTopicsRequest([topic], timeout_ms=8_000))
        created = response.topics[0]
        if created.error_code != ErrorCode.NOT_CONTROLLER:
            break
        done = [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert created.error_code in done, created.error_message


def test_a_voter_is_added_and_the_leader_is_removed(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await cluster.start(4, **STANDBY)
            leader = await cluster.controller()
            stranger = ReplicaKey(9, (await key_of(cluster, 4)).directory_id)
            refused, _ = await remove(cluster, stranger, 1)
            assert refused == ErrorCode.VOTER_NOT_FOUND
            assert await add(cluster, await key_of(cluster, 4), through=4) == (0, None)
            await all_know(cluster, 1, 2, 3, 4)
            again, _ = await add(cluster, await key_of(cluster, 4), through=1)
            assert again == ErrorCode.DUPLICATE_VOTER
            other = cluster.others(leader)[0]
            assert await remove(cluster, await key_of(cluster, leader), through=other) == (0, None)
            left = {1, 2, 3, 4} - {leader}
            await all_know(cluster, *left)
            await eventually(lambda: cluster.controller_id in left, "another leads")
            # It stays as a broker, and may be stopped without harm.
            await create(cluster, leader, "after")
            await cluster.kill(leader)
            # Three voters survive the loss of one, the new one among them.
            await cluster.kill(min(left))
            await create(cluster, 4, "survived")

    asyncio.run(test())


def test_a_voter_that_lost_its_disk_is_replaced_and_all_is_remembered(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await cluster.start(4, **STANDBY)
            await cluster.controller()
            assert await add(cluster, await key_of(cluster, 4), through=1) == (0, None)
            await all_know(cluster, 1, 2, 3, 4)
            lost = cluster.others(await cluster.controller())[0]
            old = await key_of(cluster, lost)
            await cluster.kill(lost)
            shutil.rmtree(cluster.directory(lost))
            settings = STANDBY if lost == 4 else {}
            await cluster.start(lost, **settings)
            member = cluster.running[lost].quorum.member
            await eventually(lambda: member.voters.names_directories, "it knows the voters")
            assert not member.replica.can_vote
            await cluster.controller()
            status, said = await voters(cluster, "--remove", str(lost), "--add", str(lost))
            assert status == 0, said
            assert [line.split(",")[0] for line in said.splitlines()] == [
                f"Node {lost} is no voter any more.",
                f"Node {lost} is a voter.",
                *(f"node {node_id}: voter" for node_id in (1, 2, 3, 4)),
            ]
            await all_know(cluster, 1, 2, 3, 4)
            assert await key_of(cluster, lost) != old
            await eventually(lambda: member.replica.can_vote, "it votes from its new directory")
            await asyncio.gather(*(cluster.kill(node_id) for node_id in (1, 2, 3, 4)))
            await asyncio.gather(
                cluster.start(1),
                cluster.start(2),
                cluster.start(3),
                cluster.start(4, **STANDBY),
            )
            await all_know(cluster, 1, 2, 3, 4)

    asyncio.run(test())


def test_a_voter_is_added_at_the_listener_of_the_quorum_by_a_client_of_another(tmp_path: Path) -> None:
    """The client sees another address of each node than the quorum does: the voter's is in the node's settings."""

    async def test() -> None:
        async with nodes(tmp_path, voters=1) as cluster:
            clients = {node_id: free_port() for node_id in (1, 2)}
            for node_id, standby in ((1, {}), (2, STANDBY)):
                cluster.ports.setdefault(node_id, free_port())
                listeners = f"CLIENTS://{HOST}:{clients[node_id]},NODES://{HOST}:{cluster.ports[node_id]}"
                await cluster.start(node_id, listeners=listeners, **TWO_LISTENERS, **standby)
            await key_of(cluster, 2)
            command = ["cluster", "voters", "--bootstrap", f"{HOST}:{clients[1]}", "--add", "2"]
            shown = await asyncio.to_thread(CliRunner().invoke, ottla, command)
            assert shown.exit_code == 0, shown.output
            voter = cluster.running[1].quorum.member.voters.node(2)
            assert voter is not None
            assert voter.endpoints == (("NODES", HOST, cluster.ports[2]),)

    asyncio.run(test())
