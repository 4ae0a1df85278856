"""An administrator of a simulated cluster: it creates topics, adds partitions, moves replicas and leaders, drains brokers.

It asks any node, which passes the command on, and does not insist: what is refused or lost is not asked again, except for the
first topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.simulation.clients import Client
from tests.simulation.metadata import has_failed

from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.plan.rebalance import Move, plan_drain, plan_rebalance
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)

RETRY_MS = 25
MAX_PARTITIONS = 8


class Administrator:
    """Has its ideas from the newest image there is."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._random: Random = client.site.cluster.random
        self._created = 0

    @property
    def image(self) -> ClusterImage:
        return self._client.site.checks.image

    @property
    def brokers(self) -> list[int]:
        return sorted(self.image.brokers)

    def ask(self, request: Any, answered: Callable[[Any], None] = lambda answer: None) -> None:
        self._client.ask(self._client.anyone(), request, answered)

    # ---- topics

    def create_topic(self, partitions: int, replicas: int, min_isr: int) -> None:
        """Create a topic, and ask until it is there."""
        self._created += 1
        configs = [CreatableTopicConfig("min.insync.replicas", str(min_isr))]
        name = f"topic-{self._created}"
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replicas, configs=configs
        )
        self._create(CreateTopicsRequest(topics=[topic]))

    def _create(self, request: CreateTopicsRequest) -> None:
        def answered(answer: Any) -> None:
            is_there = request.topics[0].name in self.image.topics_by_name
            if not is_there and (has_failed(answer) or answer.topics[0].error_code != ErrorCode.NONE):
                self._client.after(RETRY_MS, lambda: self._create(request))

        self.ask(request, answered)

    def add_partitions(self) -> None:
        topic = self._any_topic()
        if topic is not None and self.image.partition_count < MAX_PARTITIONS:
            wanted = CreatePartitionsTopic(name=topic.name, count=len(topic.partitions) + 1, assignments=None)
            self.ask(CreatePartitionsRequest(topics=[wanted]))

    # ---- replicas

    def reassign(self) -> None:
        """Move a partition to any brokers, as many as it has or any other number."""
        topic, partition = self._any_partition()
        if topic is not None and partition is not None:
            count = self._random.choice((len(partition.target_replicas), 3, 3, 2, 1))
            target = self._random.sample(self.brokers, min(count, len(self.brokers)))
            self._move({(topic.name, partition.index): target})

    def cancel(self) -> None:
        """Call off whatever moves."""
        self._move({(t.name, p.index): None for t, p in self.image.partitions() if p.is_moving})

    def drain(self) -> None:
        """Take everything from a broker."""
        brokers = self.brokers
        try:
            plan = plan_drain(self.image, [self._random.choice(brokers)]) if brokers else []
        except KafkaError:
            return  # too few others
        self._carry_out(plan)

    def rebalance(self) -> None:
        self._carry_out(plan_rebalance(self.image))

    def _carry_out(self, plan: list[Move]) -> None:
        self._move({(move.topic, move.partition): list(move.replicas) for move in plan})

    def _move(self, targets: Mapping[tuple[str, int], list[int] | None]) -> None:
        topics: dict[str, ReassignableTopic] = {}
        for (name, index), target in targets.items():
            topic = topics.setdefault(name, ReassignableTopic(name))
            topic.partitions.append(ReassignablePartition(index, target))
        if topics:
            self.ask(AlterPartitionReassignmentsRequest(topics=list(topics.values())))

    def elect_preferred(self) -> None:
        self.ask(ElectLeadersRequest(topic_partitions=None))

    def _any_topic(self) -> TopicImage | None:
        topics = list(self.image.topics_by_id.values())
        return self._random.choice(topics) if topics else None

    def _any_partition(self) -> tuple[TopicImage, PartitionImage] | tuple[None, None]:
        topic = self._any_topic()
        if topic is None or not topic.partitions:
            return None, None
        return topic, self._random.choice(topic.partitions)
