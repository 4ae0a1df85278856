"""A controller whose decisions are committed at once, as one node with a disk that never fails would do
it.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import count
from typing import Any
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.controller.commands import FenceBrokers
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision
from ottla.controller.image import CAPACITY_FEATURE, ClusterImage, PartitionImage, TopicImage
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponsePartitionData,
    AlterPartitionTopicData,
    BrokerState,
)
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CLUSTER_ID = "ottla-test-cluster-id0"
NODE_ID = 1


def numbered_uuids() -> Callable[[], UUID]:
    """Ids that are different each time and the same in each run."""
    numbers = count(1)
    return lambda: UUID(int=next(numbers) << 100)


def registration(
    node_id: int,
    incarnation: int = 1,
    previous_epoch: int = -1,
    rack: str | None = None,
    capacity: int | None = None,
    directory: int | None = None,
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=incarnation),
        listeners=[Listener(name="PLAINTEXT", host=f"host{node_id}", port=9092)],
        features=[Feature(CAPACITY_FEATURE, 0, capacity)] if capacity is not None else [],
        rack=rack,
        previous_broker_epoch=previous_epoch,
        log_dirs=[] if directory is None else [UUID(int=directory)],
    )


def topic(
    name: str, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None, **more: str
) -> CreatableTopic:
    """A topic to create; settings are given with underscores for dots."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(key.replace("_", "."), value)
            for key, value in {**(configs or {}), **more}.items()
        ],
    )


def topic_on(name: str, *replica_lists: list[int], **configs: str) -> CreatableTopic:
    """A topic to create with its replicas on given brokers."""
    wanted = topic(name, -1, -1, configs)
    wanted.assignments = [
        CreatableReplicaAssignment(index, replicas) for index, replicas in enumerate(replica_lists)
    ]
    return wanted


class Cluster:
    """A controller and its log in memory; its first brokers are there and live."""

    def __init__(self, config: BrokerConfig | None = None, brokers: int = 1) -> None:
        self.config = config or BrokerConfig()
        self.controller = Controller(NODE_ID, CLUSTER_ID, self.config, numbered_uuids())
        self.log: list[Any] = []
        for node_id in range(NODE_ID, NODE_ID + brokers):
            self.join(registration(node_id))

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def settings(self) -> BrokerSettings:
        return BrokerSettings(self.image, NODE_ID, self.config)

    def decide(self, request: Any) -> Decision:
        """Ask, and show that asking changed neither the state nor the request."""
        before, asked = self.image, deepcopy(request)
        decision = self.controller.command(request, now_ms=0)
        assert self.image is before
        assert request == asked
        return decision

    def commit(self, request: Any) -> Any:
        """Carry a command out; its response."""
        decision = self.decide(request)
        for record in decision.records:
            self.controller.replay(record, len(self.log))
            self.log.append(record)
        return decision.response

    def join(self, request: BrokerRegistrationRequest) -> int:
        """Register a broker and hear its first heartbeat; its epoch."""
        epoch: int = self.commit(request).broker_epoch
        assert not self.heartbeat(request.broker_id).is_fenced
        return epoch

    def restart(self, node_id: int, *, clean: bool, incarnation: int = 99) -> int:
        """Let a broker register again, and no more."""
        previous = self.image.brokers[node_id].epoch if clean else -1
        epoch: int = self.commit(registration(node_id, incarnation, previous)).broker_epoch
        return epoch

    def heartbeat(
        self,
        node_id: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
        is_offline: bool = False,
    ) -> BrokerHeartbeatResponse:
        """Hear a broker that has caught up."""
        broker, offset = self.image.brokers[node_id], self.image.last_offset
        offline = list(broker.log_dirs) if is_offline else []
        response = self.commit(
            BrokerHeartbeatRequest(node_id, broker.epoch, offset, want_fence, want_shut_down, offline)
        )
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def fence(self, *node_ids: int) -> None:
        assert self.commit(FenceBrokers(node_ids)) is None

    def alter(
        self, name: str, isr: Iterable[int], index: int = 0, **wrong: int
    ) -> AlterPartitionResponsePartitionData:
        """Propose an ISR in the name of the leader, with the epochs that hold unless others are given."""
        return self.propose(self.proposal(name, isr, index, **wrong))

    def proposal(self, name: str, isr: Iterable[int], index: int = 0, **wrong: int) -> AlterPartitionRequest:
        partition = self.partition(name, index)
        brokers = self.image.brokers
        return AlterPartitionRequest(
            partition.leader,
            brokers[partition.leader].epoch,
            [
                AlterPartitionTopicData(
                    self.topic(name).topic_id,
                    [
                        AlterPartitionPartitionData(
                            index,
                            wrong.get("leader_epoch", partition.leader_epoch),
                            new_isr_with_epochs=[
                                BrokerState(node_id, brokers[node_id].epoch if node_id in brokers else -1)
                                for node_id in isr
                            ],
                            partition_epoch=wrong.get("partition_epoch", partition.partition_epoch),
                        )
                    ],
                )
            ],
        )

    def propose(self, request: AlterPartitionRequest) -> AlterPartitionResponsePartitionData:
        response = self.commit(request)
        assert response.error_code == 0
        (answer,) = response.topics[0].partitions
        assert isinstance(answer, AlterPartitionResponsePartitionData)
        return answer

    def partition(self, name: str, index: int = 0) -> PartitionImage:
        return self.topic(name).partitions[index]

    def standing(self, name: str, index: int = 0) -> tuple[int, tuple[int, ...], int]:
        """The leader, the ISR and the leader epoch of a partition."""
        partition = self.partition(name, index)
        return partition.leader, partition.isr, partition.leader_epoch

    def create(self, *topics: CreatableTopic) -> Any:
        return self.commit(CreateTopicsRequest(topics=list(topics)))

    def topic(self, name: str) -> TopicImage:
        return self.image.topics_by_name[name]
