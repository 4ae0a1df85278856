"""Another broker leads: what stays, what is cut off, and what those who waited are told (REP-6)."""

import asyncio
from pathlib import Path
from typing import Any

from tests.integration.peer import fetch_request
from tests.integration.replicas import Cluster, reassignment, running, until

from ottla.errors import ErrorCode

NODES = (1, 2, 3)


def test_a_new_leader_has_all_acknowledged_records_and_knows_their_producers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            known: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
            for sequence in range(5):
                await cluster.produce(b"%d" % sequence, base_sequence=sequence, **known)
            await cluster.kill(1)
            assert cluster.placed().leader == 2
            # The answer was lost; the producer asks again, elsewhere.
            again = await cluster.produce(b"4", base_sequence=4, **known)
            assert (again.error_code, again.base_offset) == (0, 4)
            assert (await cluster.produce(b"5", base_sequence=5, **known)).base_offset == 5
            assert cluster.nodes[2].values() == cluster.nodes[3].values() == [b"%d" % n for n in range(6)]

    asyncio.run(scenario())


def test_a_former_leader_cuts_off_what_the_new_one_does_not_have(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            for value in (b"lost", b"too"):
                await cluster.produce(value, acks=1)
            await cluster.kill(1)
            for node_id in (2, 3):
                cluster.nodes[node_id].fetchers.start()
            await cluster.produce(b"b")
            former = await cluster.start_node(1)
            await cluster.until_isr(1, 2, 3)
            assert former.values() == [b"a", b"b"]
            assert former.partition().log.extent.leader_epochs.entries == [(0, 0), (1, 1)]

    asyncio.run(scenario())


def test_a_leader_that_is_replaced_while_it_runs_cuts_its_log_and_follows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            waiting = asyncio.ensure_future(cluster.produce(b"lost"))
            await until(lambda: len(cluster.nodes[1].values()) == 2, "it is appended")
            await cluster.fence(1)
            # Who waited for the others must not be told that they have it, not even when another record has
            # its offset.
            assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            for node_id in (2, 3):
                cluster.nodes[node_id].fetchers.start()
            await cluster.produce(b"b")
            await until(lambda: cluster.nodes[1].values() == [b"a", b"b"], "the former leader follows")

    asyncio.run(scenario())


def test_a_leader_that_does_not_know_that_it_is_none_acknowledges_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, replica_lag_time_max_ms=500) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            cluster.cut_off(1)
            await cluster.fence(1)
            assert cluster.placed().leader == 2
            late = await cluster.produce(b"lost", node=1, timeout_ms=700)
            assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
            await cluster.produce(b"b")
            await cluster.let_in(1)
            await until(lambda: cluster.nodes[1].values() == [b"a", b"b"], "the former leader follows")

    asyncio.run(scenario())


def test_a_client_at_the_wrong_broker_is_told_the_right_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            topic_id = await cluster.create_topic("t", NODES)
            leader = cluster.nodes[1]
            from tests.integration.peer import batch, produce_request

            response = await cluster.ask(3, produce_request("t", batch(b"a")), 10)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
            assert [(e.node_id, e.port) for e in response.node_endpoints] == [(1, leader.port)]
            response = await cluster.ask(2, fetch_request((topic_id, 0, 0)), 16)
            found = response.responses[0].partitions[0]
            assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert found.current_leader.leader_id == 1
            assert [(e.node_id, e.port) for e in response.node_endpoints] == [(1, leader.port)]

    asyncio.run(scenario())


def test_writes_go_on_soon_after_a_change_of_leaders_that_nobody_was_prepared_for(tmp_path: Path) -> None:
    """Followers come to the new leader at once: their fetches elsewhere, and those they have there, do not
    hold them up.
    """

    async def scenario() -> None:
        async with running(tmp_path, *NODES, replica_fetch_wait_max_ms=20_000) as cluster:
            await cluster.create_topic("t", NODES)
            # An idle topic, so that node 3 has a fetch waiting at node 2 already.
            await cluster.create_topic("idle", (2, 3))
            await cluster.produce(b"a")
            await until(
                lambda: len(cluster.nodes[2].services.follower_sessions) == 1, "node 3 fetches from node 2"
            )
            await asyncio.sleep(0.1)
            await cluster.kill(1)
            async with asyncio.timeout(1):
                assert (await cluster.produce(b"b")).error_code == 0

    asyncio.run(scenario())


def test_a_follower_that_hears_late_of_its_new_leader_comes_soon(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, replica_fetch_wait_max_ms=20_000) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.create_topic("idle", (2, 3))
            await cluster.produce(b"a")
            await until(
                lambda: len(cluster.nodes[2].services.follower_sessions) == 1, "node 3 fetches from node 2"
            )
            await asyncio.sleep(0.1)
            cluster.cut_off(3)
            await cluster.kill(1)
            await asyncio.sleep(0.2)
            await cluster.let_in(3)
            async with asyncio.timeout(1):
                assert (await cluster.produce(b"b")).error_code == 0

    asyncio.run(scenario())


def test_after_an_unclean_election_even_committed_records_are_cut_off(tmp_path: Path) -> None:
    """REP-7: it is a topic's own choice, and it loses records, on all replicas alike."""

    async def scenario() -> None:
        lag: dict[str, str | int] = {"replica_lag_time_max_ms": 300, "replica_fetch_wait_max_ms": 100}
        async with running(tmp_path, 1, 2, **lag) as cluster:
            await cluster.create_topic("t", (1, 2), unclean_leader_election_enable="true")
            await cluster.produce(b"a")
            await cluster.nodes[2].fetchers.stop()
            assert (await cluster.produce(b"committed")).error_code == 0
            await cluster.until_isr(1)
            cluster.nodes[1].hosting.checkpoint()
            await cluster.kill(1)
            assert cluster.placed().leader == 2
            await cluster.produce(b"b", b"c", b"d")
            former = await cluster.start_node(1)
            await cluster.until_isr(1, 2)
            assert former.values() == [b"a", b"b", b"c", b"d"]
            await until(
                lambda: former.partition().high_watermark.value == 4, "it knows what is committed now"
            )

    asyncio.run(scenario())


def test_a_leader_that_is_elected_again_goes_on(tmp_path: Path) -> None:
    """As when a move ends: the epoch rises, nobody else led, and who waits need not be sent away."""

    async def scenario() -> None:
        async with running(tmp_path, *NODES) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            waiting = asyncio.ensure_future(cluster.produce(b"b"))
            await until(lambda: len(cluster.nodes[1].values()) == 2, "it is appended")
            await cluster.submit(reassignment("t", [1, 2]))
            await until(lambda: cluster.placed().leader_epoch == 1, "the epoch rose")
            assert cluster.placed().leader == 1
            cluster.nodes[2].fetchers.start()
            assert (await waiting).error_code == 0

    asyncio.run(scenario())


def test_a_leader_without_controller_and_followers_sends_producers_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, *NODES, broker_session_timeout_ms=1000) as cluster:
            await cluster.create_topic("t", NODES)
            await cluster.produce(b"a")
            await cluster.kill_controller()
            # Without a controller, but with its followers, it goes on. (On a busy machine they may be late.)
            await asyncio.sleep(1.2)
            await _accepted(cluster, b"b")
            for node_id in (2, 3):
                await cluster.nodes[node_id].fetchers.stop()
            async with asyncio.timeout(3):
                assert (await cluster.produce(b"c", node=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            early = await cluster.produce(b"d", node=1, acks=1)
            assert early.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            for node_id in (2, 3):
                cluster.nodes[node_id].fetchers.start()
            await until(
                lambda: cluster.nodes[2].values() == cluster.nodes[1].values(), "its followers are back"
            )
            await _accepted(cluster, b"e")

    asyncio.run(scenario())


async def _accepted(cluster: Cluster, value: bytes) -> None:
    for _ in range(200):
        if (await cluster.produce(value, node=1)).error_code == ErrorCode.NONE:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("no producer was accepted within 10 s")
