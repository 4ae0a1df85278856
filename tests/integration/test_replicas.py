"""Replication between shipped brokers in one loop (replicas.py) (REP-1 to REP-5)."""

import asyncio
from pathlib import Path
from typing import Any

from tests.integration.peer import fetch_request, values_of
from tests.integration.replicas import Cluster, Overheard, reassignment, running, until

from ottla.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.partitions import AlterPartitionRequest
from ottla.protocol.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

NODES = (1, 2, 3)
# Slow followers are put out soon, and refreshed often enough for that.
SHORT_LAG: dict[str, str | int] = {"replica_lag_time_max_ms": 400, "replica_fetch_wait_max_ms": 100}


def test_what_is_acknowledged_is_on_all_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            answer = await cluster.produce(b"a", b"b")
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert [cluster.nodes[n].values() for n in NODES] == [[b"a", b"b"]] * 3
            assert cluster.nodes[1].partition().replica.high_watermark == 2
            await until(
                lambda: all(cluster.nodes[n].partition().replica.high_watermark == 2 for n in NODES),
                "followers know the high watermark",
            )

    asyncio.run(scenario())


def test_followers_have_the_same_epochs_offsets_and_producers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            for sequence in range(3):
                await cluster.produce(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence)
            logs = [cluster.nodes[n].partition().log for n in NODES]
            assert {log.log_end_offset for log in logs} == {3}
            assert {tuple(log.extent.leader_epochs.entries) for log in logs} == {((0, 0),)}
            entries = [log.producers.get(7) for log in logs]
            assert [entry.last_sequence for entry in entries if entry is not None] == [2, 2, 2]

    asyncio.run(scenario())


def test_a_follower_that_is_gone_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            await cluster.kill(3, notice=False)
            # It waits until the follower has left the ISR: what is acknowledged is on all who are in it.
            answer = await cluster.produce(b"b")
            assert answer.error_code == ErrorCode.NONE
            await cluster.until_isr(1, 2)
            await cluster.start_node(3)
            await cluster.until_isr(1, 2, 3)
            assert cluster.nodes[3].values() == [b"a", b"b"]

    asyncio.run(scenario())


def test_chk_4_a_follower_is_cut_off_and_heals(tmp_path: Path) -> None:
    """CHK-4: the ISR shrinks after the lag time, writes go on, the follower heals and rejoins; the high
    watermark never passes the slowest member of the ISR.
    """

    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            leader = cluster.nodes[1].partition()
            for number in range(50):
                if number == 10:
                    await cluster.nodes[3].fetchers.stop()
                if number == 30:
                    await cluster.until_isr(1, 2)
                    cluster.nodes[3].fetchers.start()
                assert (await cluster.produce(b"%d" % number)).error_code == 0
                ends = [cluster.nodes[n].partition().log.log_end_offset for n in leader.replica.isr]
                assert leader.replica.high_watermark <= min(ends)
            await cluster.until_isr(1, 2, 3)
            await until(lambda: len(cluster.nodes[3].values()) == 50, "the follower has caught up")

    asyncio.run(scenario())


def test_an_idle_follower_stays_in_the_isr(tmp_path: Path) -> None:
    """Fetches that name nothing still say that the follower is there; the first append after the silence
    shows it.
    """

    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            proposals = Overheard(cluster.nodes[1], AlterPartitionRequest)
            await asyncio.sleep(1.0)
            await cluster.produce(b"b", acks=1)
            await asyncio.sleep(0.3)
            assert not proposals.requests

    asyncio.run(scenario())


def test_consumers_see_what_is_committed_and_are_woken_when_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            await cluster.produce(b"a", acks=1)
            assert values_of(await fetched(cluster)) == []
            poll = asyncio.ensure_future(fetched(cluster, max_wait_ms=5000))
            await asyncio.sleep(0.05)
            for node_id in (2, 3):
                cluster.nodes[node_id].fetchers.start()
            async with asyncio.timeout(2):
                assert values_of(await poll) == [b"a"]

    asyncio.run(scenario())


async def fetched(cluster: Cluster, node: int = 1, version: int = 12, **options: Any) -> Any:
    response = await cluster.ask(node, fetch_request(("t", 0, 0), **options), version)
    return response.responses[0].partitions[0]


def test_too_few_in_sync_replicas_refuse_writes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, **SHORT_LAG) as cluster:
            await cluster.create_topic("t", NODES, min_insync_replicas=2)
            assert (await cluster.produce(b"a")).error_code == 0
            await cluster.kill(3)
            assert (await cluster.produce(b"b")).error_code == 0
            await cluster.nodes[2].fetchers.stop()
            # It was appended when there were enough; before all of them had it there were too few.
            late = await cluster.produce(b"c")
            assert late.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            await cluster.until_isr(1)
            assert (await cluster.produce(b"d")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert (await cluster.produce(b"e", acks=1)).error_code == 0
            # What is not on two replicas nobody reads.
            assert values_of(await fetched(cluster)) == [b"a", b"b"]
            cluster.nodes[2].fetchers.start()
            await cluster.until_isr(1, 2)
            assert (await cluster.produce(b"f")).error_code == 0

    asyncio.run(scenario())


def test_a_follower_that_starts_empty_begins_where_the_leader_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(b"a", b"b", b"c")
            await delete_records(cluster, 2)
            await cluster.submit(reassignment("t", [1, 2, 3]))
            await cluster.until_isr(1, 2, 3)
            log = cluster.nodes[3].partition().log
            assert (log.log_start_offset, log.log_end_offset) == (2, 3)

    asyncio.run(scenario())


async def delete_records(cluster: Cluster, offset: int, timeout_ms: int = 5000) -> Any:
    want = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(0, offset)])
    response = await cluster.ask(1, DeleteRecordsRequest(topics=[want], timeout_ms=timeout_ms))
    return response.topics[0].partitions[0]


def test_a_moved_replica_is_filled_there_and_removed_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", (1, 2))
            await cluster.produce(*(b"%d" % n for n in range(100)))
            await cluster.submit(reassignment("t", [2, 3]))
            await until(lambda: set(cluster.placed().replicas) == {2, 3}, "the move is complete")
            assert len(cluster.nodes[3].values()) == 100
            assert cluster.placed().leader == 2
            await until(lambda: cluster.nodes[1].partitions.find("t", 0) is None, "the old replica is gone")
            await until(lambda: not list(tmp_path.glob("node-1/t-0*")), "its files are gone")
            assert (await cluster.produce(b"more")).error_code == 0

    asyncio.run(scenario())


def test_deleted_records_are_gone_on_all_replicas_when_the_answer_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a", b"b", b"c")
            answer = await delete_records(cluster, 2)
            assert (answer.error_code, answer.low_watermark) == (0, 2)
            assert {cluster.nodes[n].partition().log.log_start_offset for n in NODES} == {2}
            await cluster.nodes[3].fetchers.stop()
            late = await delete_records(cluster, 3, timeout_ms=200)
            assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
            # Who is not there is not waited for.
            await cluster.kill(3)
            assert (await delete_records(cluster, 3)).low_watermark == 3

    asyncio.run(scenario())


async def latest(cluster: Cluster, node: int, version: int = 7) -> Any:
    want = ListOffsetsTopic("t", [ListOffsetsPartition(partition_index=0, timestamp=-1)])
    response = await cluster.ask(node, ListOffsetsRequest(replica_id=-1, topics=[want]), version)
    return response.topics[0].partitions[0]


def test_a_new_leader_does_not_tell_offsets_before_it_knows_what_is_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, replica_fetch_wait_max_ms=5000) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a", b"b")
            await cluster.nodes[3].fetchers.stop()
            await cluster.kill(1)
            assert cluster.placed().leader == 2
            assert not cluster.nodes[2].partition().replica.high_watermark_is_known
            assert (await latest(cluster, 2)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await latest(cluster, 2, version=4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
            cluster.nodes[3].fetchers.start()
            await until(
                lambda: cluster.nodes[2].partition().replica.high_watermark_is_known, "it is known then"
            )
            found = await latest(cluster, 2)
            assert (found.error_code, found.offset) == (0, 2)

    asyncio.run(scenario())


def test_the_high_watermark_is_remembered_over_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a", b"b")
            node = cluster.nodes[2]
            await until(lambda: node.partition().replica.high_watermark == 2, "the follower knows it")
            node.hosting.checkpoint()
            await cluster.kill(2)
            await cluster.nodes[1].kill()
            again = await cluster.start_node(2)
            assert again.partition().replica.high_watermark == 2

    asyncio.run(scenario())
