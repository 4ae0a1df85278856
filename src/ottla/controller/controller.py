"""The controller: a machine that decides on changes of the cluster, and whose state is what its log says (CTL-4).

    request                     records
    BrokerRegistration          FeatureLevel (first of a log), RegisterBroker, PartitionChange
    AllocateProducerIds         ProducerIds
    CreateTopics                Topic, Config, Partition
    CreatePartitions            Partition
    DeleteTopics                RemoveTopic
    AlterConfigs, incremental   Config

`command` only decides. Its records are written and made durable by the shell, then given to `replay`, which alone
changes the state: what is not in the log did not happen. The records of one decision are committed as one batch,
and replayed before the next command is asked for: a decision holds for the state it was made on.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.controller.brokers import allocate_producer_ids, register_broker
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.configs import alter_configs, incremental_alter_configs
from ottla.controller.decision import Decision
from ottla.controller.delta import ImageDelta
from ottla.controller.image import ClusterImage
from ottla.controller.partitions import create_partitions
from ottla.controller.topics import create_topics, delete_topics
from ottla.protocol.messages.brokers import BrokerRegistrationRequest
from ottla.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)


class Controller:
    """The machine. `defaults` are the settings its node was started with; `new_uuid` draws random ids."""

    def __init__(
        self, node_id: int, cluster_id: str, defaults: BrokerConfig, new_uuid: Callable[[], UUID]
    ) -> None:
        self._node_id = node_id
        self._defaults = defaults
        self._new_uuid = new_uuid
        self._image = ClusterImage(cluster_id)
        self._delta: ImageDelta | None = None
        self._decide: dict[type[Any], Callable[[Any], Decision]] = {
            BrokerRegistrationRequest: lambda request: register_broker(self.image, request),
            AllocateProducerIdsRequest: lambda request: allocate_producer_ids(self.image, request),
            CreateTopicsRequest: self._create_topics,
            CreatePartitionsRequest: lambda request: create_partitions(self.image, request),
            DeleteTopicsRequest: lambda request: delete_topics(self.image, request, self._defaults),
            AlterConfigsRequest: lambda request: alter_configs(self.image, request, self._settings()),
            IncrementalAlterConfigsRequest: self._incremental_alter_configs,
        }

    @property
    def image(self) -> ClusterImage:
        """The cluster after every record replayed so far."""
        if self._delta is not None:
            self._image = self._delta.image()
            self._delta = None
        return self._image

    def command(self, request: Any, now_ms: int) -> Decision:
        """Decide on a request; nothing changes. `now_ms` is for decisions that depend on time; none does yet."""
        decide = self._decide.get(type(request))
        if decide is None:
            raise TypeError(f"{type(request).__name__} is not a command of the controller")
        return decide(request)

    def replay(self, record: Any, offset: int, epoch: int = 0) -> None:
        """Take over a committed record: the only way in which the state changes."""
        if self._delta is None:
            self._delta = ImageDelta(self._image)
        self._delta.apply(record, offset, epoch)

    def _settings(self) -> BrokerSettings:
        return BrokerSettings(self.image, self._node_id, self._defaults)

    def _create_topics(self, request: CreateTopicsRequest) -> Decision:
        return create_topics(self.image, request, self._settings(), self._new_uuid)

    def _incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> Decision:
        return incremental_alter_configs(self.image, request, self._settings())
