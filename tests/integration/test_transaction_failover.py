"""Transactions outlive the leaders of their partitions (EOS-1, EOS-2)."""

import asyncio
from pathlib import Path

from tests.integration.peer import fetch_request, produce_request
from tests.integration.replicas import Cluster, running, until
from tests.integration.test_transaction_coordinator import ID, SMALL, Producer, identity
from tests.integration.transactional_peer import committed_values, transactional

from ottla.errors import ErrorCode

NODES = (1, 2, 3)
IMPLICIT = 12


async def write(cluster: Cluster, who: tuple[int, int], value: bytes, sequence: int) -> None:
    """Append one record of a transaction at the partition's leader; asked again as clients do."""
    records = transactional(value, producer_id=who[0], epoch=who[1], sequence=sequence)
    request = produce_request("t", records, transactional_id=ID)
    error = ErrorCode.NONE
    for _ in range(500):
        leader = cluster.placed().leader
        if leader >= 0 and cluster.nodes[leader].is_running:
            answer = await cluster.ask(leader, request, IMPLICIT)
            error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if error is ErrorCode.NONE:
                return
        await asyncio.sleep(0.02)
    raise TimeoutError(f"last answered {error.name}")


async def committed(cluster: Cluster) -> list[bytes | None]:
    """The records that a reader of committed records gets from the leader."""
    request = fetch_request(("t", 0, 0), isolation_level=1)
    answer = await cluster.ask(cluster.placed().leader, request, IMPLICIT)
    return committed_values(answer.responses[0].partitions[0])


def test_a_new_leader_knows_open_and_aborted_transactions(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, *NODES, **SMALL) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.until_isr(*NODES)
            producer = Producer(cluster)
            who = identity(await producer.init())
            await write(cluster, who, b"aborted", 0)
            who = identity(await producer.end(who, commit=False))
            await write(cluster, who, b"before", 0)
            first = cluster.placed().leader
            await cluster.kill(first)
            await until(lambda: cluster.placed().leader not in (first, -1), "another broker leads")
            leader = cluster.nodes[cluster.placed().leader]
            await until(lambda: leader.partition().replica.is_leader, "it knows that it leads")
            # The open transaction is at offset 2, after the aborted record and its marker.
            await until(lambda: leader.partition().replica.high_watermark == 3, "all is committed")
            assert leader.partition().last_stable_offset == 2
            assert await committed(cluster) == []
            await write(cluster, who, b"after", 1)
            identity(await producer.end(who, commit=True))
            await until(lambda: leader.partition().last_stable_offset == 5, "the marker is replicated")
            assert await committed(cluster) == [b"before", b"after"]
            other = cluster.nodes[next(iter({*NODES} - {first, leader.node_id}))]
            await until(lambda: other.partition().last_stable_offset == 5, "the follower has it, too")

    asyncio.run(run())
