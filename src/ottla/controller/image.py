"""The cluster as of one offset of the metadata log: immutable, so that whoever holds an image sees one
moment.

Images share what did not change: a topic that no record touched is the same object in both.
`controller/delta.py` makes the next image from records; nothing else does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.controller.remote_log import RemoteLogs
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.security.acl.rules import Acl
from ottla.security.quota.entities import ClientQuotas
from ottla.security.sasl.credentials import ScramUsers
from ottla.security.sasl.delegation_token import DelegationTokens

# A broker says with this feature's highest version how much it can hold beside the others; without it, as
# much as one.
CAPACITY_FEATURE: Final = "ottla.capacity"

# Kafka's id for a replica whose log directory was never recorded.
UNKNOWN_DIRECTORY: Final = UUID(int=0)

# Kafka's id for a log directory that cannot be used.
LOST_DIRECTORY: Final = UUID(int=1)

# A replica with records that cannot be read, beside other replicas that hold them. Kafka has no id for that; the first
# hundred are never given to a directory.
DAMAGED_DIRECTORY: Final = UUID(int=99)

# Topics that brokers keep for themselves; clients may read them but a misspelt name must never create one.
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class ResourceType(IntEnum):
    """The kinds of resources that have configurations, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something with a configuration of its own; the broker "" is the default of all brokers."""

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker can be reached."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class SupportedFeature(NamedTuple):
    """The levels of a feature that a broker can work at."""

    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker. Its epoch is the offset of its registration, so a newer one is always higher."""

    node_id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    is_fenced: bool = False
    in_controlled_shutdown: bool = False
    features: tuple[SupportedFeature, ...] = ()
    log_dirs: tuple[UUID, ...] = ()
    is_directory_offline: bool = False

    @property
    def is_eligible(self) -> bool:
        """Whether it may lead partitions and be in sync: it is there, not about to go, and its disk takes writes."""
        return not (self.is_fenced or self.in_controlled_shutdown or self.is_directory_offline)

    @property
    def directory(self) -> UUID:
        """The log directory that new replicas on this broker get; UNKNOWN_DIRECTORY if it named none."""
        return self.log_dirs[0] if self.log_dirs else UNKNOWN_DIRECTORY

    @property
    def capacity(self) -> int:
        """How many times the share of a broker with capacity 1 it takes."""
        found = self.supported(CAPACITY_FEATURE)
        return max(1, found.max_version) if found is not None else 1

    def supported(self, name: str) -> SupportedFeature | None:
        """The versions of a feature that the broker supports, as it registered them."""
        return next((feature for feature in self.features if feature.name == name), None)

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Where clients of the named listener reach this broker."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The replicas of a partition and its leader. The leader epoch rises with each leader, and never
    falls.

    `directories` are the ids of the log directories that hold the replicas, in the order of the replicas;
    empty, or UNKNOWN_DIRECTORY for one of them, where a metadata log from before directory ids does not say;
    DAMAGED_DIRECTORY for a replica that cannot be read, which is neither in `isr` nor in `elr` until it is repaired.
    `elr` are replicas out of sync that hold every committed record nevertheless (`eligible_leaders`).
    `last_known_leader` is the last leader of a partition that has none. `is_recovering` after an unclean
    election, until every replica is in sync: logs may be truncated below their high watermark meanwhile.
    """

    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    directories: tuple[UUID, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    is_recovering: bool = False

    def directory_of(self, node_id: int) -> UUID:
        """The log directory of a replica; UNKNOWN_DIRECTORY if it is not known."""
        if node_id not in self.replicas or not self.directories:
            return UNKNOWN_DIRECTORY
        return self.directories[self.replicas.index(node_id)]

    def is_damaged_on(self, node_id: int) -> bool:
        """Whether the broker said that records of its replica cannot be read."""
        return self.directory_of(node_id) == DAMAGED_DIRECTORY

    @property
    def is_moving(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas of the partition when the move under way is finished."""
        if not self.removing_replicas:
            return self.replicas
        return tuple(node_id for node_id in self.replicas if node_id not in self.removing_replicas)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic. A topic that is deleted and created again has a new id. Partition i stands at place i."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Whether brokers keep it for themselves."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionImage | None:
        """The partition with this index, if there is one."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything the metadata log says, up to `last_offset`."""

    cluster_id: str
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    scram_users: ScramUsers = field(default_factory=dict)
    delegation_tokens: DelegationTokens = field(default_factory=dict)
    # Unchanged ACLs are the same object in the next image.
    acls: Mapping[UUID, Acl] = field(default_factory=dict)
    # Unchanged quotas are the same object in the next image.
    client_quotas: ClientQuotas = field(default_factory=dict)
    # Unchanged remote logs are the same objects in the next image.
    remote_logs: RemoteLogs = field(default_factory=dict)
    next_producer_id: int = 0
    last_offset: int = -1
    last_epoch: int = 0

    def config_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings that were given to a resource itself; nothing about its defaults."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    @property
    def live_brokers(self) -> list[BrokerImage]:
        """The brokers that may serve clients, in the order of their ids."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.is_fenced]

    @property
    def eligible_brokers(self) -> set[int]:
        """The ids of the brokers that may lead partitions and be in sync."""
        return {node_id for node_id, broker in self.brokers.items() if broker.is_eligible}

    def without(self, node_id: int) -> "ClusterImage":
        """The cluster as it is if this broker is fenced; unchanged if no other broker is there."""
        broker = self.brokers.get(node_id)
        if broker is None or not any(other.node_id != node_id for other in self.live_brokers):
            return self
        return replace(self, brokers={**self.brokers, node_id: replace(broker, is_fenced=True)})

    def broker_epoch_error(self, node_id: int, epoch: int) -> ErrorCode:
        """Why a broker with this epoch is refused: it is not registered, or it has registered again since."""
        broker = self.brokers.get(node_id)
        if broker is None:
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        return ErrorCode.NONE if broker.epoch == epoch else ErrorCode.STALE_BROKER_EPOCH

    def partitions(self) -> Iterator[tuple[TopicImage, PartitionImage]]:
        """Every partition with its topic."""
        for topic in self.topics_by_id.values():
            for partition in topic.partitions:
                yield topic, partition

    @property
    def partition_count(self) -> int:
        """All partitions of all topics."""
        return sum(len(topic.partitions) for topic in self.topics_by_name.values())


class TopicChanges(NamedTuple):
    """The changes of topics between two images. A topic that was deleted and created again is in both
    lists.
    """

    removed: list[TopicImage]
    changed: list[TopicImage]  # new ones, and those with other partitions


def topic_changes(before: ClusterImage, after: ClusterImage) -> TopicChanges:
    """The topics that one image has and the other has not, or has differently; quick where images share
    topics.
    """
    if before.topics_by_id is after.topics_by_id:
        return TopicChanges([], [])
    removed = [topic for topic_id, topic in before.topics_by_id.items() if topic_id not in after.topics_by_id]
    changed = [
        topic
        for topic_id, topic in after.topics_by_id.items()
        if before.topics_by_id.get(topic_id) is not topic
    ]
    return TopicChanges(removed, changed)
