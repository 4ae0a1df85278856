"""The controller: a machine that decides on changes of the cluster, and whose state is what its log says
(CTL-4).

    request                      records
    BrokerRegistration           FeatureLevel (first of a log), RegisterBroker, PartitionChange
    BrokerHeartbeat              BrokerRegistrationChange, PartitionChange; mostly none
    FenceBrokers                 BrokerRegistrationChange, PartitionChange
    UnregisterBroker             UnregisterBroker, PartitionChange
    AllocateProducerIds          ProducerIds
    UpdateFeatures               FeatureLevel
    AlterPartition               PartitionChange
    AssignReplicasToDirs         PartitionChange
    ElectLeaders, BalanceLeaders PartitionChange
    AlterPartitionReassignments  PartitionChange
    CreateTopics                 Topic, Config, Partition
    CreatePartitions             Partition
    DeleteTopics                 RemoveTopic
    AlterConfigs, incremental    Config
    AlterUserScramCredentials    UserScramCredential, RemoveUserScramCredential
    CreateAcls, DeleteAcls       AccessControlEntry, RemoveAccessControlEntry
    CreateDelegationToken, Renew DelegationToken
    ExpireDelegationToken        DelegationToken, RemoveDelegationToken
    ExpireTokens                 RemoveDelegationToken
    AlterRemoteLog               RemoteLog, RemoteSegment, RemoveRemoteSegment

`command` only decides. Its records are written and made durable by the shell, then given to `replay`, which
alone changes the state: what is not in the log did not happen. The records of one decision are committed as
one batch, and replayed before the next command is asked for: a decision holds for the state it was made on.
"""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.controller.acls import create_acls, delete_acls
from ottla.controller.alter_partition import alter_partition
from ottla.controller.brokers import fence_brokers, heartbeat, register_broker, unregister_broker
from ottla.controller.commands import (
    BalanceLeaders,
    ExpireTokens,
    FenceBrokers,
    Metered,
    OnBehalfOf,
    free_of_charge,
)
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.configs import alter_configs, incremental_alter_configs
from ottla.controller.decision import Decision
from ottla.controller.delta import ImageDelta
from ottla.controller.elections import balance_leaders, elect_leaders
from ottla.controller.features import update_features
from ottla.controller.image import ClusterImage
from ottla.controller.lost_replicas import assign_replicas_to_dirs
from ottla.controller.partitions import create_partitions
from ottla.controller.producer_ids import allocate_producer_ids
from ottla.controller.reassignment import alter_partition_reassignments
from ottla.controller.scram import alter_user_scram_credentials
from ottla.controller.topics import create_topics, delete_topics
from ottla.protocol.apis import ApiKey
from ottla.protocol.declaration import declaration_of
from ottla.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from ottla.protocol.messages.brokers import (
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    UnregisterBrokerRequest,
)
from ottla.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from ottla.protocol.messages.features import UpdateFeaturesRequest
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ElectLeadersRequest,
)
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from ottla.protocol.messages.user_scram_credentials import AlterUserScramCredentialsRequest

# Commands that decide on the image alone, and commands that also need settings.
_BY_IMAGE: dict[type[Any], Callable[[ClusterImage, Any], Decision]] = {
    AllocateProducerIdsRequest: allocate_producer_ids,
    DeleteAclsRequest: delete_acls,
    UpdateFeaturesRequest: update_features,
    AlterUserScramCredentialsRequest: alter_user_scram_credentials,
}
_BY_SETTINGS: dict[type[Any], Callable[[ClusterImage, Any, BrokerSettings], Decision]] = {
    BrokerRegistrationRequest: register_broker,
    BrokerHeartbeatRequest: heartbeat,
    FenceBrokers: fence_brokers,
    UnregisterBrokerRequest: unregister_broker,
    AlterPartitionRequest: alter_partition,
    AssignReplicasToDirsRequest: assign_replicas_to_dirs,
    ElectLeadersRequest: elect_leaders,
    BalanceLeaders: balance_leaders,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    AlterConfigsRequest: alter_configs,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
}


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

    @property
    def image(self) -> ClusterImage:
        """The cluster after every record replayed so far."""
        if self._delta is not None:
            self._image = self._delta.image()
            self._delta = None
        return self._image

    def command(self, request: Any, now_ms: int) -> Decision:
        """Decide on a request; nothing changes. `now_ms` is the time of day."""
        charge = free_of_charge
        if isinstance(request, Metered):
            request, charge = request.request, request.charge
        kind = type(request)
        if kind in _BY_IMAGE:
            return _BY_IMAGE[kind](self.image, request)
        settings = BrokerSettings(self.image, self._node_id, self._defaults)
        if kind in _BY_SETTINGS:
            return _BY_SETTINGS[kind](self.image, request, settings)
        if kind is CreateTopicsRequest:
            return create_topics(self.image, request, settings, self._new_uuid, charge)
        if kind is CreatePartitionsRequest:
            return create_partitions(self.image, request, charge)
        if kind is CreateAclsRequest:
            return create_acls(self.image, request, self._new_uuid)
        if kind is DeleteTopicsRequest:
            return delete_topics(self.image, request, self._defaults, charge)
        if kind in (OnBehalfOf, ExpireTokens):
            # Imported here, as below: most clusters have no delegation tokens.
            from ottla.controller.delegation_tokens import decide_on_tokens

            config = self._defaults.delegation_tokens
            return decide_on_tokens(self.image, request, config, self._new_uuid, now_ms)
        if declaration_of(kind).key == ApiKey.ALTER_CLIENT_QUOTAS:
            # Imported here: most clusters have no quotas, and a broker starts in a fraction of a second.
            from ottla.controller.client_quotas import alter_client_quotas

            return alter_client_quotas(self.image, request)
        if declaration_of(kind).key == ApiKey.ALTER_REMOTE_LOG:
            # Imported here: most clusters have no tiered storage.
            from ottla.controller.alter_remote_log import alter_remote_log

            return alter_remote_log(self.image, request, settings)
        raise TypeError(f"{kind.__name__} is not a command of the controller")

    def replay(self, record: Any, offset: int, epoch: int = 0) -> None:
        """Take over a committed record: the only way in which the state changes.

        A record that is not one of ours, as a control record is, moves the offset only.
        """
        if self._delta is None:
            self._delta = ImageDelta(self._image)
        self._delta.apply(record, offset, epoch)

    def load_snapshot(self, records: Iterable[Any], last_offset: int, last_epoch: int) -> None:
        """Restart from a snapshot (`snapshot.snapshot_records`) of the log up to an offset."""
        delta = ImageDelta(ClusterImage(self._image.cluster_id))
        delta.apply(None, last_offset, last_epoch)
        for record in records:
            delta.apply(record, last_offset, last_epoch)
        self._delta = delta
