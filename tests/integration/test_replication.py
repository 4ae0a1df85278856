"""Three real nodes in one process: what replication promises, with the quorum that decides (REP-1, REP-8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.integration.peer import batch, fetch_request, produce_request, values_of
from tests.integration.quorum_nodes import Nodes, eventually, nodes, run

from ottla.controller.image import PartitionImage
from ottla.errors import ErrorCode
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.records.batch import iter_batches

NODES = (1, 2, 3)


def placed(cluster: Nodes, topic: str = "t", index: int = 0) -> PartitionImage:
    """As the node knows it that knows most."""
    image = max((broker.quorum.image for broker in cluster.running.values()), key=lambda i: i.last_offset)
    return image.topics_by_name[topic].partitions[index]


async def create_topic(cluster: Nodes, name: str = "t", partitions: int = 1, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=3,
        configs=[CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
    )
    answer = await cluster.ask(next(iter(cluster.running)), CreateTopicsRequest([topic], 10_000))
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


async def produce(cluster: Nodes, *values: bytes, topic: str = "t", **options: Any) -> Any:
    """Produce to the leader, as a client does: again while the leader changes."""
    records = batch(*values, **options)
    for _ in range(400):
        leader = placed(cluster, topic).leader
        if leader in cluster.running:
            try:
                response = await cluster.ask(leader, produce_request(topic, records), 9)
            except OSError:
                continue
            answer = response.responses[0].partition_responses[0]
            if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return answer
        await asyncio.sleep(0.01)
    raise TimeoutError("nobody leads")


def values_on(cluster: Nodes, node_id: int, topic: str = "t") -> list[bytes | None]:
    partition = cluster.running[node_id].partitions.find(topic, 0)
    if partition is None:
        return []
    log, values = partition.log, []
    found = log.read(0, 1 << 24, upper_offset=log.log_end_offset, at_least_one=True)
    for stored in iter_batches(found.file.read(found.position, found.size)) if found is not None else ():
        values += [record.value for record in stored.records()]
    return values


def test_acknowledged_records_are_on_all_replicas(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(*NODES)
            await create_topic(cluster)
            answer = await produce(cluster, b"a", b"b")
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert [values_on(cluster, n) for n in NODES] == [[b"a", b"b"]] * 3

    run(test)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_leader_goes_and_comes_back(tmp_path: Path, how: str) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(*NODES)
            await create_topic(cluster)
            written = [b"%d" % n for n in range(30)]
            for sequence, value in enumerate(written):
                if sequence == 10:
                    gone = placed(cluster).leader
                    await (cluster.kill(gone) if how == "kill" else cluster.stop(gone))
                if sequence == 20:
                    await cluster.start(gone)
                answer = await produce(
                    cluster, value, producer_id=9, producer_epoch=0, base_sequence=sequence
                )
                assert (answer.error_code, answer.base_offset) == (0, sequence)
            await eventually(lambda: set(placed(cluster).isr) == set(NODES), "all are in sync again")
            assert [values_on(cluster, n) for n in NODES] == [written] * 3

    run(test)


def test_all_at_once(tmp_path: Path) -> None:
    """All nodes are killed together; what was acknowledged is there when they are back."""

    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(*NODES)
            await create_topic(cluster)
            for number in range(20):
                await produce(cluster, b"%d" % number)
            for node_id in NODES:
                await cluster.kill(node_id)
            await cluster.start(*NODES)
            await produce(cluster, b"20")
            leader = placed(cluster).leader
            assert values_on(cluster, leader) == [b"%d" % n for n in range(21)]

    run(test)


def test_groups_are_found_and_move(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path, offsets_topic_num_partitions="3") as cluster:
            await cluster.start(*NODES)
            request = FindCoordinatorRequest(coordinator_keys=["g"])

            async def coordinator() -> int:
                for _ in range(400):
                    at = next(iter(cluster.running))
                    (found,) = (await cluster.ask(at, request, 4)).coordinators
                    if found.error_code == 0 and found.node_id in cluster.running:
                        node_id: int = found.node_id
                        return node_id
                    await asyncio.sleep(0.01)
                raise TimeoutError("there is no coordinator")

            first = await coordinator()
            image = cluster.running[first].quorum.image
            assert len(image.topics_by_name["__consumer_offsets"].partitions[0].replicas) == 3
            await cluster.kill(first)
            assert await coordinator() != first

    run(test)


def test_a_consumer_reads_on_from_the_next_leader(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(*NODES)
            await create_topic(cluster)
            await produce(cluster, b"a", b"b")
            await cluster.kill(placed(cluster).leader)
            await produce(cluster, b"c")
            leader = placed(cluster).leader
            response = await cluster.ask(leader, fetch_request(("t", 0, 0)), 12)
            assert values_of(response.responses[0].partitions[0]) == [b"a", b"b", b"c"]

    run(test)
