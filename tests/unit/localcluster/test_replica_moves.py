from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest
from tests.unit.wire.fake_broker import FakeBroker

from ottla.cli.cluster.growth import progress_words
from ottla.client.admin.admin import Admin
from ottla.localcluster import replica_moves
from ottla.localcluster.replica_moves import Progress, cancel_moves, carry_out, cluster_image
from ottla.model import TopicPartition
from ottla.protocol.messages import cluster, configs, metadata, partitions

T = TypeVar("T")
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class MovingCluster:
    """A cluster of one broker, number 1, that lets each move take a while, and remembers what it was
    asked.
    """

    def __init__(self, looks: int = 1) -> None:
        self.broker = FakeBroker()
        self.under_way: dict[TopicPartition, tuple[list[int], int]] = {}
        self.most_at_once = 0
        self._looks = looks
        on = self.broker.on
        on(partitions.AlterPartitionReassignmentsRequest, self._alter)
        on(partitions.ListPartitionReassignmentsRequest, self._list)
        on(partitions.ElectLeadersRequest, partitions.ElectLeadersResponse())
        on(configs.IncrementalAlterConfigsRequest, self._alter_configs)
        on(configs.DescribeConfigsRequest, self._configs)
        on(cluster.DescribeLogDirsRequest, self._log_dirs)
        on(cluster.DescribeClusterRequest, self._cluster)
        on(metadata.MetadataRequest, self._metadata)

    def asks(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        async def body() -> T:
            async with self.broker, Admin(f"127.0.0.1:{self.broker.port}", timeout_ms=5_000) as admin:
                return await question(admin)

        return asyncio.run(body())

    def rates(self) -> list[dict[str, str | None]]:
        """The limits that were set, in order."""
        requests = self.broker.asked_for(configs.IncrementalAlterConfigsRequest)
        return [
            {config.name: config.value for resource in each.resources for config in resource.configs}
            for each in requests
        ]

    def _alter(self, request: Any, _: Any) -> Any:
        for topic in request.topics:
            for each in topic.partitions:
                key = TopicPartition(topic.name, each.partition_index)
                if each.replicas is None:
                    self.under_way.pop(key)
                else:
                    self.under_way[key] = (each.replicas, self._looks)
        self.most_at_once = max(self.most_at_once, len(self.under_way))
        return partitions.AlterPartitionReassignmentsResponse(
            responses=[
                partitions.ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        partitions.ReassignablePartitionResponse(partition_index=each.partition_index)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list(self, *_: Any) -> Any:
        moves = [
            partitions.OngoingPartitionReassignment(
                partition_index=key.partition,
                replicas=[*replicas, 9],
                adding_replicas=[1],
                removing_replicas=[9],
            )
            for key, (replicas, _) in self.under_way.items()
        ]
        self.under_way = {
            key: (replicas, looks - 1) for key, (replicas, looks) in self.under_way.items() if looks > 0
        }
        moves = [each for each in moves if TopicPartition("a", each.partition_index) in self.under_way]
        topics = [partitions.OngoingTopicReassignment(name="a", partitions=moves)] if moves else []
        return partitions.ListPartitionReassignmentsResponse(topics=topics)

    def _alter_configs(self, request: Any, _: Any) -> Any:
        return configs.IncrementalAlterConfigsResponse(
            responses=[
                configs.IncrementalAlterConfigsResourceResponse(
                    resource_type=4, resource_name=each.resource_name
                )
                for each in request.resources
            ]
        )

    def _configs(self, request: Any, _: Any) -> Any:
        capacity = configs.DescribeConfigsResourceResult(name="ottla.broker.capacity", value="3")
        return configs.DescribeConfigsResponse(
            results=[
                configs.DescribeConfigsResult(
                    resource_type=4, resource_name=each.resource_name, configs=[capacity]
                )
                for each in request.resources
            ]
        )

    def _log_dirs(self, *_: Any) -> Any:
        held = [
            cluster.DescribeLogDirsPartition(partition_index=index, partition_size=1 << 20)
            for index in range(100)
        ]
        topic = cluster.DescribeLogDirsTopic(name="a", partitions=held)
        return cluster.DescribeLogDirsResponse(
            results=[cluster.DescribeLogDirsResult(log_dir="/d", topics=[topic])]
        )

    def _cluster(self, *_: Any) -> Any:
        members = [
            cluster.DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=self.broker.port, rack="r"),
            cluster.DescribeClusterBroker(broker_id=9, host="127.0.0.1", port=1, is_fenced=True),
        ]
        return cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=members)

    def _metadata(self, *_: Any) -> Any:
        itself = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)
        gone = metadata.MetadataResponseBroker(node_id=9, host="127.0.0.1", port=self.broker.port)
        topic = metadata.MetadataResponseTopic(
            name="a",
            topic_id=UUID(int=5),
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=0, leader_id=-1, replica_nodes=[1, 9], isr_nodes=[9]
                )
            ],
        )
        return metadata.MetadataResponse(
            brokers=[itself, gone], cluster_id="c", controller_id=1, topics=[topic]
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_moves, "_LOOK_AGAIN_S", 0.001)


def test_all_moves_are_carried_out_some_at_a_time() -> None:
    moving = MovingCluster(looks=2)
    moves = {TopicPartition("a", index): [1] for index in range(70)}
    shown: list[Progress] = []
    moving.asks(lambda admin: carry_out(admin, moves, throttle=None, on_progress=shown.append))
    assert moving.under_way == {}
    assert moving.most_at_once <= 32
    assert shown[-1].done == shown[-1].total == 70
    assert [each.done for each in shown] == sorted(each.done for each in shown)
    elected = moving.broker.asked_for(partitions.ElectLeadersRequest)
    assert sum(len(topic.partitions) for each in elected for topic in each.topic_partitions) == 70
    assert moving.rates() == []


def test_a_limit_is_set_before_and_lifted_afterwards() -> None:
    moving = MovingCluster()
    moving.asks(lambda admin: carry_out(admin, {A0: [1]}, throttle=1000, on_progress=lambda _: None))
    names = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    set_rates = [rate for rate in moving.rates() if set(rate.values()) == {"1000"}]
    assert set_rates == [dict.fromkeys(names, "1000")] * len(set_rates)
    assert set_rates
    assert moving.rates()[-1] == dict.fromkeys(names)


def test_bytes_are_counted_for_the_moves_under_way() -> None:
    moving = MovingCluster(looks=3)
    shown: list[Progress] = []
    moving.asks(lambda admin: carry_out(admin, {A0: [1], A1: [1]}, throttle=None, on_progress=shown.append))
    assert shown[0] == Progress(done=0, total=2, moving=2, copied_bytes=2 << 20, moving_bytes=2 << 20)
    assert progress_words(shown[0]) == "moved 0 of 2 partitions; 2 under way, 2.0 of 2.0 MiB"
    assert progress_words(shown[-1]) == "moved 2 of 2 partitions"


def test_what_is_under_way_can_be_cancelled() -> None:
    moving = MovingCluster(looks=99)
    moving.under_way = {A0: ([1], 99), A1: ([1], 99)}
    assert moving.asks(cancel_moves) == [A0, A1]
    assert moving.under_way == {}
    assert list(moving.rates()[-1].values()) == [None, None]


def test_the_planner_sees_racks_capacities_fences_and_moves() -> None:
    moving = MovingCluster(looks=99)
    moving.under_way = {A0: ([1], 99)}
    image = moving.asks(cluster_image)
    assert image.brokers[1].rack == "r"
    assert image.brokers[1].capacity == 3
    assert image.brokers[9].is_fenced
    (partition,) = image.topics_by_name["a"].partitions
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 9), (9,), -1)
    assert (partition.adding_replicas, partition.removing_replicas) == ((1,), (9,))
