"""An image as records: replayed into an empty controller they make an equal image.

The records stand for everything up to one offset of the log, so whoever replays them gives that offset to
each.
"""

from collections.abc import Iterator
from typing import Any

from ottla.controller.acl_records import acl_record
from ottla.controller.image import (
    LOST_DIRECTORY,
    UNKNOWN_DIRECTORY,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from ottla.controller.quota_records import quota_records
from ottla.controller.records import (
    METADATA_VERSION_FEATURE,
    RECOVERED,
    RECOVERING,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.controller.remote_log_records import remote_log_records
from ottla.controller.scram import credential_records
from ottla.controller.token_records import token_records
from ottla.model import NO_LEADER


def snapshot_records(image: ClusterImage) -> Iterator[Any]:
    """Everything that the image says, the level of metadata first: it says how to read the rest."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION_FEATURE, name)):
        yield FeatureLevelRecord(name, image.features[name])
    for _, broker in sorted(image.brokers.items()):
        yield _broker_record(broker)
        if broker.is_directory_offline:
            yield BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, log_dirs=[LOST_DIRECTORY])
    for _, topic in sorted(image.topics_by_name.items()):
        yield TopicRecord(topic.name, topic.topic_id)
        for partition in topic.partitions:
            yield _partition_record(topic, partition)
    for resource, values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(resource.type, resource.name, name, value)
    yield from credential_records(image.scram_users)
    yield from token_records(image.delegation_tokens)
    for acl_id, acl in sorted(image.acls.items()):
        yield acl_record(acl_id, acl)
    yield from quota_records(image.client_quotas)
    yield from remote_log_records(image.remote_logs)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in broker.endpoints],
        features=[BrokerFeature(f.name, f.min_version, f.max_version) for f in broker.features],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
    )


def _partition_record(topic: TopicImage, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        leader_recovery_state=RECOVERING if partition.is_recovering else RECOVERED,
        directories=list(partition.directories or [UNKNOWN_DIRECTORY] * len(partition.replicas)),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=None if partition.last_known_leader == NO_LEADER else [partition.last_known_leader],
    )
