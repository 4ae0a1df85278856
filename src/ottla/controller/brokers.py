"""The life of a broker as the controller sees it (CTL-1, CTL-3).

    registered ──► fenced ──heartbeat, caught up──► live ──wants to stop──► shutting down ──► fenced
                     ▲                               │
                     └── not heard of, or its wish ──┘

BrokerRegistration, versions 0 to 4, BrokerHeartbeat, 0 to 1, and UnregisterBroker, 0 (KIP-631); fencing is
decided by the controller itself when a broker is not heard of (`liveness`).
- A broker that comes back leaves every ISR in which another can lead. A replica that may miss committed
  records (`replica_trust`) leaves ISR and ELR even where no other can lead.
- The only member of an ISR keeps its leadership while it stops and starts again: no other broker could have
  it. If it stopped without saying so, it leads under a new epoch: a reader that had seen records which were
  lost can then tell (OffsetForLeaderEpoch).
- A broker whose log directory is offline (its disk is full, or fails) leaves every ISR in which another can lead,
  and leads nothing that another can lead, until a heartbeat says that the directory is there again.
- A heartbeat of a broker that is as it should be decides nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ottla.controller.commands import FenceBrokers
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.configs import cluster_wide_settings
from ottla.controller.decision import Decision
from ottla.controller.features import levels_to_raise
from ottla.controller.image import (
    CAPACITY_FEATURE,
    LOST_DIRECTORY,
    BrokerImage,
    ClusterImage,
)
from ottla.controller.partition_changes import PartitionChanges, elected
from ottla.controller.records import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.controller.replica_trust import KEPT_WRITES_FEATURE, Return
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def register_broker(
    image: ClusterImage, request: BrokerRegistrationRequest, settings: BrokerSettings
) -> Decision:
    """Take a broker into the cluster; its epoch is the offset that its registration will have."""
    error = _registration_error(image, request)
    if error:
        return Decision([], BrokerRegistrationResponse(error_code=error))
    former = image.brokers.get(request.broker_id)
    if former is not None and former.incarnation_id == request.incarnation_id:
        return Decision([], BrokerRegistrationResponse(broker_epoch=former.epoch))
    records: list[Any] = list(levels_to_raise(image))
    records += cluster_wide_settings(image, settings)
    epoch = image.last_offset + 1 + len(records)
    records.append(_registration(request, epoch))
    directories = {request.broker_id: request.log_dirs[0]} if request.log_dirs else {}
    eligible = image.eligible_brokers - {request.broker_id}
    changes = PartitionChanges(image, eligible, settings, directories)
    _readmit(image, Return(request, former), changes)
    return changes.decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _registration_error(image: ClusterImage, request: BrokerRegistrationRequest) -> ErrorCode:
    if request.cluster_id != image.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    for feature in request.features:
        level = image.features.get(feature.name)
        if level is not None and not (
            feature.min_supported_version <= level <= feature.max_supported_version
        ):
            return ErrorCode.UNSUPPORTED_VERSION
        if feature.name == CAPACITY_FEATURE and feature.max_supported_version < 1:
            return ErrorCode.INVALID_REGISTRATION
    return ErrorCode.NONE


def _registration(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(item.name, item.host, item.port, item.security_protocol)
            for item in request.listeners
        ],
        features=[
            BrokerFeature(item.name, item.min_supported_version, item.max_supported_version)
            for item in request.features
            if item.name != KEPT_WRITES_FEATURE
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def _readmit(image: ClusterImage, back: Return, changes: PartitionChanges) -> None:
    """Take the replicas of a broker that comes back out of ISR and ELR, as far as they can be spared or
    cannot be trusted.
    """
    node_id = back.node_id
    for topic, partition in image.partitions():
        if node_id in partition.isr or node_id in partition.elr:
            if not back.is_trusted_with(partition, changes.config_of(topic)):
                changes.distrust(topic, partition, node_id)
                continue
            after = elected(partition, changes.eligible)
            if after.leader != NO_LEADER:
                changes.put(topic, partition, after)
            elif partition.leader == node_id and not back.is_clean:
                changes.put(topic, partition, partition, renews_leader=True)
        elif node_id in partition.replicas and not back.has_directory_of(partition):
            changes.put(topic, partition, partition)


def _take_out(image: ClusterImage, node_id: int, changes: PartitionChanges) -> None:
    """Take a broker that goes out of every ISR in which another can lead."""
    for topic, partition in image.partitions():
        if node_id in partition.isr:
            after = elected(partition, changes.eligible)
            if after.leader != NO_LEADER:
                changes.put(topic, partition, after)


def heartbeat(image: ClusterImage, request: BrokerHeartbeatRequest, settings: BrokerSettings) -> Decision:
    """Hear a broker: let it in once it knows of its own registration, let it go when it wants to stop."""
    error = image.broker_epoch_error(request.broker_id, request.broker_epoch)
    if error:
        return Decision([], BrokerHeartbeatResponse(error_code=error))
    broker = image.brokers[request.broker_id]
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=broker.is_fenced,
        should_shut_down=request.want_shut_down,
    )
    is_offline = bool(broker.log_dirs) and set(broker.log_dirs) <= set(request.offline_log_dirs)
    if is_offline and not broker.is_directory_offline:
        return _offline(image, broker, settings, response)
    if broker.is_directory_offline and not is_offline:
        return _online(image, broker, settings, response)
    if broker.is_fenced:
        stays_out = request.want_fence or request.want_shut_down or broker.in_controlled_shutdown
        if stays_out or not response.is_caught_up:
            return Decision([], response)
        return _unfenced(image, broker, settings, replace(response, is_fenced=False))
    if request.want_fence:
        return _fenced(image, [broker], settings, replace(response, is_fenced=True))
    if request.want_shut_down and not broker.in_controlled_shutdown:
        return _leaving(image, broker, settings, response)
    return Decision([], response)


def _unfenced(
    image: ClusterImage, broker: BrokerImage, settings: BrokerSettings, response: BrokerHeartbeatResponse
) -> Decision:
    record = BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, fenced=UNFENCE)
    changes = _with(image, replace(broker, is_fenced=False), settings)
    return changes.decision([record], response)


def _offline(
    image: ClusterImage, broker: BrokerImage, settings: BrokerSettings, response: BrokerHeartbeatResponse
) -> Decision:
    record = BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, log_dirs=[LOST_DIRECTORY])
    changes = PartitionChanges(image, image.eligible_brokers - {broker.node_id}, settings)
    _take_out(image, broker.node_id, changes)
    return changes.decision([record], response)


def _online(
    image: ClusterImage, broker: BrokerImage, settings: BrokerSettings, response: BrokerHeartbeatResponse
) -> Decision:
    record = BrokerRegistrationChangeRecord(broker.node_id, broker.epoch, log_dirs=list(broker.log_dirs))
    changes = _with(image, replace(broker, is_directory_offline=False), settings)
    return changes.decision([record], response)


def _with(image: ClusterImage, broker: BrokerImage, settings: BrokerSettings) -> PartitionChanges:
    """The changes of partitions when a broker is there again: it leads where no other can."""
    eligible = image.eligible_brokers | ({broker.node_id} if broker.is_eligible else set())
    changes = PartitionChanges(image, eligible, settings)
    # A broker that is about to stop still leads the partitions that no other broker can lead.
    live = {other.node_id for other in image.live_brokers}
    for topic, partition in image.partitions():
        if partition.leader not in live and broker.node_id in partition.replicas:
            changes.elect(topic, partition)
    return changes


def _leaving(
    image: ClusterImage, broker: BrokerImage, settings: BrokerSettings, response: BrokerHeartbeatResponse
) -> Decision:
    record = BrokerRegistrationChangeRecord(
        broker.node_id, broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
    )
    changes = PartitionChanges(image, image.eligible_brokers - {broker.node_id}, settings)
    _take_out(image, broker.node_id, changes)
    return changes.decision([record], response)


def fence_brokers(image: ClusterImage, command: FenceBrokers, settings: BrokerSettings) -> Decision:
    """Give up brokers that are not heard of; those that are fenced or gone already do not matter."""
    found = (image.brokers.get(node_id) for node_id in sorted(set(command.broker_ids)))
    brokers = [broker for broker in found if broker is not None and not broker.is_fenced]
    return _fenced(image, brokers, settings, None) if brokers else Decision([], None)


def _fenced(
    image: ClusterImage, brokers: list[BrokerImage], settings: BrokerSettings, response: Any
) -> Decision:
    records = [BrokerRegistrationChangeRecord(b.node_id, b.epoch, fenced=FENCE) for b in brokers]
    changes = _without(image, [broker.node_id for broker in brokers], settings)
    return changes.decision(records, response)


def unregister_broker(
    image: ClusterImage, request: UnregisterBrokerRequest, settings: BrokerSettings
) -> Decision:
    """Forget a broker that is gone for good. Replicas on it stay where they are until they are moved."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        sentence = f"No broker {request.broker_id} is registered."
        refusal = UnregisterBrokerResponse(0, ErrorCode.BROKER_ID_NOT_REGISTERED, sentence)
        return Decision([], refusal)
    if not broker.is_fenced:
        # Kafka would forget it, and be told of it again by the next heartbeat; until then clients would be
        # without it.
        sentence = f"Broker {request.broker_id} is running: stop it first, then unregister it."
        return Decision([], UnregisterBrokerResponse(0, ErrorCode.INVALID_REQUEST, sentence))
    record = UnregisterBrokerRecord(broker.node_id, broker.epoch)
    changes = _without(image, [broker.node_id], settings)
    return changes.decision([record], UnregisterBrokerResponse(error_message=None))


def _without(image: ClusterImage, node_ids: Iterable[int], settings: BrokerSettings) -> PartitionChanges:
    """The changes of partitions when brokers are gone."""
    gone = set(node_ids)
    changes = PartitionChanges(image, image.eligible_brokers - gone, settings)
    for topic, partition in image.partitions():
        if not gone.isdisjoint(partition.isr):
            changes.elect(topic, partition)
    return changes
