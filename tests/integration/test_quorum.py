"""Several nodes are one cluster (CTL-1, CTL-3 to CTL-6): they elect, commit, fail over, hand over, and say
what is wrong.

Real brokers on real connections, in one process; what must happen soon has its deadline in the test, a deadline of
work (`processor_waits`).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.processor_waits import Stopwatch
from tests.integration.quorum_nodes import Nodes, eventually, nodes

from ottla.controller.image import ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.cluster import DescribeClusterRequest
from ottla.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.partitions import ElectLeadersRequest
from ottla.protocol.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumTopicData,
)
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

SOON_S = 0.2  # how long a change of metadata may take to reach every broker


def creation(name: str, replicas: int = 3, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    return CreateTopicsRequest([topic], timeout_ms=15_000)


def description() -> DescribeQuorumRequest:
    partition = DescribeQuorumPartitionData(0)
    return DescribeQuorumRequest([DescribeQuorumTopicData("__cluster_metadata", [partition])])


async def create(cluster: Nodes, node_id: int, name: str, **wanted: int) -> None:
    response = await cluster.ask(node_id, creation(name, **wanted))
    assert response.topics[0].error_code == 0, response.topics[0].error_message


def knows(cluster: Nodes, name: str) -> Callable[[], bool]:
    return lambda: all(name in broker.quorum.image.topics_by_name for broker in cluster.running.values())


def is_fenced(cluster: Nodes, node_id: int) -> bool:
    return all(broker.quorum.image.brokers[node_id].is_fenced for broker in cluster.running.values())


def test_any_broker_takes_a_command_and_all_of_them_hear_of_it_soon(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            controller_id = await cluster.controller()
            for node_id in cluster.running:
                await create(cluster, node_id, f"by-{node_id}")
                await eventually(knows(cluster, f"by-{node_id}"), "all know of it", SOON_S)
            asked = cluster.others(controller_id)[0]
            # An old version, whose names stand in a field that newer ones do not have.
            deletion = DeleteTopicsRequest(topic_names=["by-1"], timeout_ms=5_000)
            assert (await cluster.ask(asked, deletion, 4)).responses[0].error_code == 0
            gone = DeleteTopicsRequest([DeleteTopicState(name="by-1")], timeout_ms=5_000)
            (refused,) = (await cluster.ask(asked, gone)).responses
            assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for request in (MetadataRequest(topics=[]), DescribeClusterRequest()):
                answers = [await cluster.ask(node_id, request) for node_id in cluster.running]
                assert {answer.controller_id for answer in answers} == {controller_id}
                assert {len(answer.brokers) for answer in answers} == {3}

    asyncio.run(test())


def test_when_the_controller_dies_another_takes_over_and_fences_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            dead = await cluster.controller()
            await create(cluster, dead, "t", partitions=3)
            await eventually(knows(cluster, "t"), "all know of it")
            watch = Stopwatch()
            await cluster.kill(dead)
            await eventually(lambda: is_fenced(cluster, dead), "it is fenced", 1.5)
            # A majority of two goes on, and what the dead one led is led by others.
            await create(cluster, cluster.others(-1)[0], "later", replicas=2)
            took_s = watch.seconds
            image = cluster.running[await cluster.controller()].quorum.image
            assert {p.leader for p in image.topics_by_name["t"].partitions} <= set(cluster.running)
            assert took_s < 2
            await cluster.start(dead)
            await eventually(knows(cluster, "later"), "the one that was dead has caught up")
            assert not is_fenced(cluster, dead)

    asyncio.run(test())


def test_a_broker_that_stops_hands_over_and_the_quorum_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            for _ in range(2):
                leaving = await cluster.controller()
                watch = Stopwatch()
                await cluster.stop(leaving)
                await cluster.controller()
                assert watch.seconds < 1
                await create(cluster, cluster.others(leaving)[0], f"without-{leaving}", replicas=2)
                await cluster.start(leaving)
            assert (cluster.directory(1) / ".kafka_cleanshutdown").exists() is False
            for node_id in list(cluster.running):
                await cluster.stop(node_id)
            assert all(
                (cluster.directory(node_id) / ".kafka_cleanshutdown").exists() for node_id in (1, 2, 3)
            )

    asyncio.run(test())


def test_a_cluster_that_was_stopped_as_a_whole_comes_back_as_it_was(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await create(cluster, 1, "kept", partitions=2)
            await eventually(knows(cluster, "kept"), "all know of it")
            await asyncio.gather(*(cluster.kill(node_id) for node_id in (1, 2, 3)))
            # Founding needed all three; from then on two are enough.
            await cluster.start(1, 2)
            await eventually(knows(cluster, "kept"), "they remember")
            await create(cluster, 2, "more", replicas=2)

    asyncio.run(test())


def test_a_voter_that_lost_its_disk_has_no_vote_until_it_has_earned_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await create(cluster, 1, "t")
            lost = cluster.others(await cluster.controller())[0]
            await cluster.kill(lost)
            shutil.rmtree(cluster.directory(lost))
            await create(cluster, await cluster.controller(), "while-away", replicas=2)
            await cluster.start(lost)
            member = cluster.running[lost].quorum.member
            assert member.voters.ids == {1, 2, 3}
            await eventually(lambda: member.replica.can_vote, "it has its vote back")
            await eventually(knows(cluster, "while-away"), "it has caught up")
            # With its vote the cluster survives the loss of another.
            await cluster.kill(next(node_id for node_id in cluster.running if node_id != lost))
            await create(cluster, lost, "after", replicas=2)

    asyncio.run(test())


def test_a_voter_with_an_empty_disk_alone_with_one_that_is_behind_founds_nothing(tmp_path: Path) -> None:
    """The majority that committed is gone or has forgotten: nobody may pretend that nothing was ever
    decided.
    """

    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await create(cluster, 1, "t")
            await eventually(knows(cluster, "t"), "all know of it")
            await asyncio.gather(*(cluster.kill(node_id) for node_id in (1, 2, 3)))
            shutil.rmtree(cluster.directory(1))
            starting = [asyncio.create_task(cluster.start(node_id)) for node_id in (1, 2)]
            await eventually(lambda: len(cluster.running) == 2, "they run")
            forgetful = cluster.running[1]
            await eventually(lambda: forgetful.quorum.member.replica.epoch > 0, "it hears of the quorum")
            assert not forgetful.quorum.member.replica.can_vote
            assert all(not broker.quorum.is_controller for broker in cluster.running.values())
            await cluster.start(3)
            await asyncio.gather(*starting)
            await eventually(knows(cluster, "t"), "what was decided is decided")

    asyncio.run(test())


def test_a_quorum_is_founded_only_when_all_three_are_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            starting = asyncio.create_task(cluster.start(1, 2))
            await eventually(lambda: len(cluster.running) == 2, "they run")
            first = cluster.running[1]
            await eventually(lambda: first.quorum.member.unheard_founders == [3], "it has heard the other")
            assert "founded when node 3" in first.quorum.describe_trouble()
            assert first.quorum.member.replica.epoch == 0
            await cluster.start(3)
            await starting
            await create(cluster, 2, "t")

    asyncio.run(test())


def test_brokers_that_do_not_vote_and_controllers_that_hold_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            roles = {"process_roles": "controller"}
            controllers = asyncio.gather(*(cluster.start(node_id, **roles) for node_id in (1, 2, 3)))
            await asyncio.gather(controllers, cluster.start(11, 12))
            await eventually(
                lambda: sorted(cluster.running[11].quorum.image.brokers) == [11, 12],
                "a broker knows the other",
            )
            assert not cluster.running[12].quorum.member.is_voter
            await create(cluster, 12, "t", replicas=2)
            await eventually(knows(cluster, "t"), "all know of it")
            answer = await cluster.ask(11, MetadataRequest(topics=None))
            # A controller that clients cannot reach as a broker is not shown to them.
            assert {broker.node_id for broker in answer.brokers} == {11, 12}
            assert answer.controller_id == 11
            await cluster.kill(await cluster.controller())
            await create(cluster, 11, "later", replicas=1)
            await cluster.kill(12)
            await eventually(lambda: is_fenced(cluster, 12), "the dead broker is fenced")

    asyncio.run(test())


def test_without_a_majority_commands_are_refused_in_words(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            last, *dead = [await cluster.controller(), *cluster.others(await cluster.controller())]
            await asyncio.gather(*(cluster.kill(node_id) for node_id in dead))
            quorum = cluster.running[last].quorum
            await eventually(lambda: not quorum.is_controller, "it has noticed")
            request = creation("t", replicas=1)
            request.timeout_ms = 300
            (refused,) = (await cluster.ask(last, request)).topics
            assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert (
                "There is no controller: 1 of 3 voters answer, 2 are needed. Start node"
                in refused.error_message
            )
            assert f"127.0.0.1:{cluster.ports[dead[0]]}" in refused.error_message
            with pytest.raises(KafkaError, match="1 of 3 voters"):
                await quorum.submit(ElectLeadersRequest(), timeout_ms=50)
            # What it knows it still tells.
            assert len((await cluster.ask(last, MetadataRequest(topics=None))).brokers) >= 1
            (partition,) = (await cluster.ask(last, description())).topics[0].partitions
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(test())


def test_everybody_can_say_how_the_quorum_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            await cluster.start(4)
            controller_id = await cluster.controller()

            async def described(node_id: int) -> Any:
                return (await cluster.ask(node_id, description())).topics[0].partitions[0]

            async def observers(node_id: int) -> list[int]:
                return [observer.replica_id for observer in (await described(node_id)).observers]

            async with asyncio.timeout(20):
                # A voter that has not heard all others yet cannot vote, and is an observer so long.
                while await observers(controller_id) != [4]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            for node_id in cluster.running:
                partition = await described(node_id)
                assert partition.leader_id == controller_id
                assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
                assert [observer.replica_id for observer in partition.observers] == [4]
                assert partition.high_watermark > 0

    asyncio.run(test())


def test_a_node_of_another_cluster_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path) as cluster:
            await cluster.start(1, 2, 3)
            with pytest.raises(KafkaError) as refused:
                await asyncio.wait_for(cluster.start(4, ottla_cluster_id="another"), 5)
            assert "give all nodes the same ottla.cluster.id" in refused.value.message
            del cluster.running[4]

    asyncio.run(test())


def test_a_node_that_is_far_behind_gets_a_snapshot(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path, metadata_log_max_record_bytes_between_snapshots="4000") as cluster:
            await cluster.start(1, 2, 3)
            away = cluster.others(await cluster.controller())[0]
            await create(cluster, away, "before")
            await cluster.stop(away)
            for number in range(60):
                await create(cluster, await cluster.controller(), f"t-{number}", replicas=2)
            leader = cluster.running[await cluster.controller()]
            start = leader.quorum.member.log_start_offset
            assert start > 20, "its log does not go back to the beginning"
            snapshots = list(
                (cluster.directory(cluster.others(away)[0])).glob("__cluster_metadata-0/*.checkpoint")
            )
            assert len(snapshots) == 2
            await cluster.start(away)
            await eventually(knows(cluster, "t-59"), "it has caught up")
            behind = cluster.running[away].quorum
            assert behind.member.log_start_offset >= start
            assert behind.image.topics_by_name.keys() == leader.quorum.image.topics_by_name.keys()
            # And so does a whole cluster that starts from its snapshots.
            await asyncio.gather(*(cluster.kill(node_id) for node_id in (1, 2, 3)))
            await cluster.start(1, 2, 3)
            assert knows(cluster, "before")()
            assert knows(cluster, "t-59")()

    asyncio.run(test())


def test_a_broker_tells_its_load_to_whoever_describes_its_settings(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path, voters=1) as cluster:
            await cluster.start(1)
            for keys, count in ((None, 9), (["ottla.load.cpu.percent"], 1)):
                resource = DescribeConfigsResource(ResourceType.BROKER, "1", keys)
                (result,) = (await cluster.ask(1, DescribeConfigsRequest([resource]))).results
                load = [entry for entry in result.configs if entry.name.startswith("ottla.load.")]
                assert len(load) == count
                assert all(entry.read_only and float(entry.value) >= 0 for entry in load)

    asyncio.run(test())


def test_a_quota_of_partitions_counts_whichever_broker_is_asked(tmp_path: Path) -> None:
    """KIP-599 (OPS-4): the controller counts, for the client that asked another broker."""

    async def test() -> None:
        async with nodes(tmp_path, controller_quota_window_num="1") as cluster:
            await cluster.start(1, 2, 3)
            asked = cluster.others(await cluster.controller())
            limit = EntryData([EntityData("user", "ANONYMOUS")], [OpData("controller_mutation_rate", 1.0)])
            await cluster.ask(asked[0], AlterClientQuotasRequest([limit]))
            await eventually(
                lambda: all(node.quorum.image.client_quotas for node in cluster.running.values()), "set"
            )
            errors = []
            for number, node_id in enumerate(asked):
                topic = CreatableTopic(f"limited-{number}", num_partitions=30, replication_factor=1)
                answer = await cluster.ask(node_id, CreateTopicsRequest([topic]))
                errors.append((answer.topics[0].error_code, answer.throttle_time_ms > 0))
            assert errors == [(ErrorCode.NONE, False), (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)]

    asyncio.run(test())


def test_a_client_can_see_at_which_level_the_cluster_works(tmp_path: Path) -> None:
    async def test() -> None:
        async with nodes(tmp_path, voters=1) as cluster:
            await cluster.start(1)
            answer = await cluster.ask(1, ApiVersionsRequest("a", "1"))
            supported = {each.name: each for each in answer.supported_features}
            finalized = {each.name: each.max_version_level for each in answer.finalized_features}
            names = {"metadata.version", "eligible.leader.replicas.version", "transaction.version"}
            assert set(finalized) == names
            for name, level in finalized.items():
                assert supported[name].min_version <= level <= supported[name].max_version
            assert answer.finalized_features_epoch >= 0

    asyncio.run(test())
