"""A controller whose decisions are committed at once, as one node with a disk that never fails would do it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import count
from typing import Any
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage, TopicImage
from ottla.protocol.messages.brokers import BrokerRegistrationRequest, Listener
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

CLUSTER_ID = "ottla-test-cluster-id0"
NODE_ID = 1


def numbered_uuids() -> Callable[[], UUID]:
    """Ids that are different each time and the same in each run."""
    numbers = count(1)
    return lambda: UUID(int=next(numbers) << 100)


def registration(node_id: int, incarnation: int = 1, previous_epoch: int = -1) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=incarnation),
        listeners=[Listener(name="PLAINTEXT", host=f"host{node_id}", port=9092)],
        rack=None,
        previous_broker_epoch=previous_epoch,
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


class Cluster:
    """A controller and its log in memory."""

    def __init__(self, config: BrokerConfig | None = None, brokers: int = 1) -> None:
        self.config = config or BrokerConfig()
        self.controller = Controller(NODE_ID, CLUSTER_ID, self.config, numbered_uuids())
        self.log: list[Any] = []
        for node_id in range(NODE_ID, NODE_ID + brokers):
            self.commit(registration(node_id))

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

    def create(self, *topics: CreatableTopic) -> Any:
        return self.commit(CreateTopicsRequest(topics=list(topics)))

    def topic(self, name: str) -> TopicImage:
        return self.image.topics_by_name[name]
