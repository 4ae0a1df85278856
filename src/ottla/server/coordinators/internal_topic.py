"""An internal topic that coordinators keep their state in: `__consumer_offsets`, `__transaction_state`.

The topic is created when the first client asks for a coordinator. A broker that has just started waits a
little for the other brokers, so that the topic gets as many replicas as it should. The partition of a group or
transactional id follows from its name, so every broker finds the coordinator without asking (GRP-1).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ottla.controller.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.server.coordinators.java_hash import partition_for
from ottla.server.quorum.quorum import Quorum

logger = logging.getLogger(__name__)

_CREATE_TIMEOUT_MS: Final = 10_000
# A cluster that starts is complete by then, or needs an operator.
_GATHERING_MS: Final = 10_000

# Hashing a name takes longer than answering a heartbeat; groups are asked about again and again.
_partition_for = lru_cache(maxsize=1 << 16)(partition_for)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """How an internal topic is created: `replicas` of them, or as many as there are brokers.

    With `min_isr` a change counts when so many in-sync replicas have it. A topic with fewer replicas asks for
    one less than it has, so that one of two brokers may be away.
    """

    name: str
    partitions: int
    replicas: int
    configs: Mapping[str, str]
    min_isr: int | None = None

    def configs_with(self, replicas: int) -> dict[str, str]:
        """The settings of the topic if it has so many replicas."""
        if self.min_isr is None:
            return dict(self.configs)
        min_isr = self.min_isr if replicas > self.min_isr else max(replicas - 1, 1)
        return {**self.configs, "min.insync.replicas": str(min_isr)}


class InternalTopic:
    """Finds the partition and leader for a key, and creates the topic."""

    def __init__(self, plan: TopicPlan, quorum: Quorum, voters: int, steady_ms: Callable[[], int]) -> None:
        self.name = plan.name
        self._plan = plan
        self._quorum = quorum
        self._voters = voters
        self._steady_ms = steady_ms
        self._started_ms = steady_ms()

    def in_image(self, image: ClusterImage) -> TopicImage | None:
        """The topic, as metadata have it."""
        return image.topics_by_name.get(self.name)

    def partition_of(self, key: str) -> int | None:
        """The partition that a key belongs to; None while there is no topic."""
        topic = self.in_image(self._quorum.image)
        return None if topic is None else _partition_for(key, len(topic.partitions))

    def leader_of(self, key: str) -> int:
        """The broker that coordinates what has this key. Raises KafkaError while there is no topic."""
        topic = self.in_image(self._quorum.image)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return topic.partitions[_partition_for(key, len(topic.partitions))].leader

    async def make(self) -> None:
        """See that the topic exists; KafkaError if it cannot be made now."""
        if self.in_image(self._quorum.image) is not None:
            return
        replicas = self._replication_factor()
        configs = self._plan.configs_with(replicas)
        topic = CreatableTopic(
            name=self.name,
            num_partitions=self._plan.partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        try:
            response = await self._quorum.submit(CreateTopicsRequest([topic], _CREATE_TIMEOUT_MS))
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.error("%s could not be created: %s", self.name, result.error_message)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.error_message)

    def _replication_factor(self) -> int:
        """As many replicas as are asked for, or as there are brokers."""
        image = self._quorum.image
        wanted = min(self._plan.replicas, max(len(image.brokers), self._voters))
        live = len(image.live_brokers)
        if live < wanted and self._steady_ms() - self._started_ms < _GATHERING_MS:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{live} of {wanted} brokers are there that should have {self.name}",
            )
        return min(wanted, live)
