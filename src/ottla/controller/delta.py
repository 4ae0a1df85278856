"""The next image in the making: records are applied here one after the other, then `image` is drawn once.

Applying a record costs the same however large the cluster is; drawing an image copies the index of topics,
but shares every topic that did not change, and the settings if none did. So a long log is replayed quickly,
and a change of one topic costs microseconds. A record that speaks of what the image does not know (a deleted
topic, an older broker epoch) changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from ottla.controller.acl_records import acl_of
from ottla.controller.image import (
    LOST_DIRECTORY,
    UNKNOWN_DIRECTORY,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    Endpoint,
    PartitionImage,
    ResourceType,
    SupportedFeature,
    TopicImage,
)
from ottla.controller.quota_records import change_quota
from ottla.controller.records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoteLogRecord,
    RemoteSegmentRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveRemoteSegmentRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from ottla.controller.remote_log_records import RemoteLogsDelta
from ottla.controller.scram import ScramDelta
from ottla.controller.token_records import token_of
from ottla.model import NO_LEADER
from ottla.security.acl.rules import Acl
from ottla.security.quota.entities import Entity

T = TypeVar("T")


class TopicDelta:
    """A topic that records have touched since the last image."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, topic: TopicImage) -> None:
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.partitions = dict(enumerate(topic.partitions))

    def image(self) -> TopicImage:
        """The topic as it is now."""
        return TopicImage(
            self.name, self.topic_id, tuple(self.partitions[index] for index in sorted(self.partitions))
        )


class ImageDelta:
    """An image and what happened since."""

    def __init__(self, image: ClusterImage) -> None:
        self._base = image
        self._topics: dict[UUID, TopicDelta] = {}
        self._removed: dict[UUID, str] = {}
        self._brokers = dict(image.brokers)
        self._configs: dict[ConfigResource, Mapping[str, str]] | None = None  # a copy, once one changes
        self._features = dict(image.features)
        self._scram = ScramDelta(image.scram_users)
        self._tokens = image.delegation_tokens
        self._acls: dict[UUID, Acl] | None = None  # a copy, once one changes
        self._quotas: dict[Entity, Mapping[str, float]] | None = None  # a copy, once one changes
        self._remote = RemoteLogsDelta(image.remote_logs)
        self._next_producer_id = image.next_producer_id
        self._last_offset = image.last_offset
        self._last_epoch = image.last_epoch

    def apply(self, record: Any, offset: int, epoch: int) -> None:
        """Take one record of the log over."""
        change = _CHANGES.get(type(record))
        if change is not None:
            change(self, record)
        self._last_offset = offset
        self._last_epoch = epoch

    def image(self) -> ClusterImage:
        """The cluster after all records applied so far."""
        by_name, by_id = self._base.topics_by_name, self._base.topics_by_id
        if self._topics or self._removed:
            by_name, by_id = self._topic_indices()
        return replace(
            self._base,
            topics_by_name=by_name,
            topics_by_id=by_id,
            brokers=self._brokers,
            configs=self._base.configs if self._configs is None else self._configs,
            features=self._features,
            scram_users=self._scram.users,
            delegation_tokens=self._tokens,
            acls=self._base.acls if self._acls is None else self._acls,
            client_quotas=self._base.client_quotas if self._quotas is None else self._quotas,
            remote_logs=self._remote.logs,
            next_producer_id=self._next_producer_id,
            last_offset=self._last_offset,
            last_epoch=self._last_epoch,
        )

    def _topic_indices(self) -> tuple[dict[str, TopicImage], dict[UUID, TopicImage]]:
        by_name, by_id = dict(self._base.topics_by_name), dict(self._base.topics_by_id)
        for topic_id, name in self._removed.items():
            by_name.pop(name, None)
            by_id.pop(topic_id, None)
        for topic_id, delta in self._topics.items():
            by_name[delta.name] = by_id[topic_id] = delta.image()
        return by_name, by_id

    def _topic(self, topic_id: UUID) -> TopicDelta | None:
        delta = self._topics.get(topic_id)
        if delta is None and topic_id in self._base.topics_by_id and topic_id not in self._removed:
            delta = self._topics[topic_id] = TopicDelta(self._base.topics_by_id[topic_id])
        return delta

    def _add_topic(self, record: TopicRecord) -> None:
        self._topics[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id))

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        if topic is None:
            return
        del self._topics[record.topic_id]
        self._removed[record.topic_id] = topic.name
        self._remote.remove_topic(record.topic_id)
        self._put_config(ConfigResource(ResourceType.TOPIC, topic.name), {})

    def _set_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        if topic is not None:
            topic.partitions[record.partition_id] = PartitionImage(
                index=record.partition_id,
                replicas=tuple(record.replicas),
                isr=tuple(record.isr),
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                removing_replicas=tuple(record.removing_replicas),
                adding_replicas=tuple(record.adding_replicas),
                directories=_known(record.directories),
                elr=tuple(record.eligible_leader_replicas or ()),
                last_known_leader=_last_leader(record.last_known_elr or ()),
                is_recovering=record.leader_recovery_state == RECOVERING,
            )

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id) if topic is not None else None
        if topic is not None and partition is not None:
            topic.partitions[record.partition_id] = changed_partition(partition, record)

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self._base.configs if self._configs is None else self._configs
        values = dict(configs.get(resource, ()))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        self._put_config(resource, values)

    def _put_config(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        if self._configs is None:
            self._configs = dict(self._base.configs)
        if values:
            self._configs[resource] = values
        else:
            self._configs.pop(resource, None)

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = BrokerImage(
            node_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            rack=record.rack,
            is_fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            features=tuple(
                SupportedFeature(f.name, f.min_supported_version, f.max_supported_version)
                for f in record.features
            ),
            log_dirs=tuple(record.log_dirs),
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        if self._broker(record.broker_id, record.broker_epoch) is not None:
            del self._brokers[record.broker_id]

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        if record.fenced:
            self._fence(record.broker_id, record.broker_epoch, record.fenced > 0)
        broker = self._broker(record.broker_id, record.broker_epoch)
        if broker is not None and record.in_controlled_shutdown:
            broker = self._brokers[broker.node_id] = replace(broker, in_controlled_shutdown=True)
        if broker is not None and record.log_dirs:
            is_offline = LOST_DIRECTORY in record.log_dirs
            self._brokers[broker.node_id] = replace(broker, is_directory_offline=is_offline)

    def _fence(self, node_id: int, epoch: int, is_fenced: bool) -> None:
        broker = self._broker(node_id, epoch)
        if broker is not None:
            self._brokers[node_id] = replace(broker, is_fenced=is_fenced)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._fence(record.id, record.epoch, True)

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._fence(record.id, record.epoch, False)

    def _broker(self, node_id: int, epoch: int) -> BrokerImage | None:
        broker = self._brokers.get(node_id)
        return broker if broker is not None and broker.epoch == epoch else None

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level
        if record.feature_level == 0:
            del self._features[record.name]

    def _set_token(self, record: DelegationTokenRecord) -> None:
        self._tokens = {**self._tokens, record.token_id: token_of(record)}

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._tokens = {key: token for key, token in self._tokens.items() if key != record.token_id}

    def _give_credential(self, record: UserScramCredentialRecord) -> None:
        self._scram.give(record)

    def _take_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        self._scram.take(record)

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        self._changed_acls()[record.id] = acl_of(record)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._changed_acls().pop(record.id, None)

    def _changed_acls(self) -> dict[UUID, Acl]:
        if self._acls is None:
            self._acls = dict(self._base.acls)
        return self._acls

    def _change_quota(self, record: ClientQuotaRecord) -> None:
        if self._quotas is None:
            self._quotas = dict(self._base.client_quotas)
        change_quota(self._quotas, record)

    def _set_remote_start(self, record: RemoteLogRecord) -> None:
        self._remote.set_start(record)

    def _set_remote_segment(self, record: RemoteSegmentRecord) -> None:
        self._remote.set_segment(record)

    def _remove_remote_segment(self, record: RemoveRemoteSegmentRecord) -> None:
        self._remote.remove_segment(record, is_deleted=self._topic(record.topic_id) is None)

    def _set_next_producer_id(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id


def changed_partition(partition: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """A partition after a change record. Kafka's rule: whoever names a leader raises the leader epoch."""
    names_leader = change.leader != NO_LEADER_CHANGE
    return PartitionImage(
        index=partition.index,
        replicas=_changed(partition.replicas, change.replicas),
        isr=_changed(partition.isr, change.isr),
        leader=change.leader if names_leader else partition.leader,
        leader_epoch=partition.leader_epoch + names_leader,
        partition_epoch=partition.partition_epoch + 1,
        removing_replicas=_changed(partition.removing_replicas, change.removing_replicas),
        adding_replicas=_changed(partition.adding_replicas, change.adding_replicas),
        directories=_known(_changed(partition.directories, change.directories)),
        elr=_changed(partition.elr, change.eligible_leader_replicas),
        last_known_leader=partition.last_known_leader
        if change.last_known_elr is None
        else _last_leader(change.last_known_elr),
        is_recovering=partition.is_recovering
        if change.leader_recovery_state == NO_RECOVERY_CHANGE
        else change.leader_recovery_state == RECOVERING,
    )


def _changed(before: tuple[T, ...], after: list[T] | None) -> tuple[T, ...]:
    return before if after is None else tuple(after)


def _known(directories: Sequence[UUID]) -> tuple[UUID, ...]:
    """The directories of replicas; empty if none of them is known."""
    return tuple(directories) if any(each != UNKNOWN_DIRECTORY for each in directories) else ()


def _last_leader(last_known_elr: Sequence[int]) -> int:
    """Kafka keeps the last known leader as the only member of this list."""
    return last_known_elr[0] if last_known_elr else NO_LEADER


_CHANGES: dict[type[Any], Callable[[ImageDelta, Any], None]] = {
    TopicRecord: ImageDelta._add_topic,
    RemoveTopicRecord: ImageDelta._remove_topic,
    PartitionRecord: ImageDelta._set_partition,
    PartitionChangeRecord: ImageDelta._change_partition,
    ConfigRecord: ImageDelta._set_config,
    RegisterBrokerRecord: ImageDelta._register_broker,
    UnregisterBrokerRecord: ImageDelta._unregister_broker,
    BrokerRegistrationChangeRecord: ImageDelta._change_broker,
    FenceBrokerRecord: ImageDelta._fence_broker,
    UnfenceBrokerRecord: ImageDelta._unfence_broker,
    FeatureLevelRecord: ImageDelta._set_feature,
    UserScramCredentialRecord: ImageDelta._give_credential,
    RemoveUserScramCredentialRecord: ImageDelta._take_credential,
    DelegationTokenRecord: ImageDelta._set_token,
    RemoveDelegationTokenRecord: ImageDelta._remove_token,
    ProducerIdsRecord: ImageDelta._set_next_producer_id,
    ClientQuotaRecord: ImageDelta._change_quota,
    AccessControlEntryRecord: ImageDelta._add_acl,
    RemoveAccessControlEntryRecord: ImageDelta._remove_acl,
    RemoteLogRecord: ImageDelta._set_remote_start,
    RemoteSegmentRecord: ImageDelta._set_remote_segment,
    RemoveRemoteSegmentRecord: ImageDelta._remove_remote_segment,
}
