"""A cluster as a client knows it: brokers, topics, and the leader of each partition.

These are plain values, read from a Metadata response. `cluster_metadata` is the only place that knows the
message.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker of the cluster, at the address that it advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False  # registered, and not alive; reported by DescribeCluster only

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads a partition, and since which epoch."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The replicas of a partition. `leader` is None while there is none."""

    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its partitions, in order of their index."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def replication_factor(self) -> int:
        """Of the first partition; a move under way can make it differ between partitions."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One broker's answer to Metadata."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerInfo, ...]
    topics: dict[str, TopicInfo | KafkaError]


def metadata_request(topics: list[str] | None, *, may_create: bool = False) -> MetadataRequest:
    """Ask for the named topics, for all of them (None), or for the brokers only ([]).

    With `may_create`, a named topic that does not exist is created if the cluster is set up to do that.
    """
    named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=may_create)


def cluster_metadata(response: MetadataResponse) -> ClusterMetadata:
    """The values of a Metadata response. Raises KafkaError if the response as a whole is an error."""
    if response.error_code != ErrorCode.NONE:
        raise error_of(response.error_code)
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id if response.controller_id >= 0 else None,
        brokers=tuple(BrokerInfo(each.node_id, each.host, each.port, each.rack) for each in response.brokers),
        topics={topic.name: _topic(topic) for topic in response.topics if topic.name is not None},
    )


def _topic(topic: MetadataResponseTopic) -> TopicInfo | KafkaError:
    name = topic.name or ""
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f'there is no topic "{name}"')
    if topic.error_code != ErrorCode.NONE:
        return error_of(topic.error_code)
    partitions = sorted(map(_partition, topic.partitions), key=lambda each: each.index)
    return TopicInfo(name, topic.topic_id, topic.is_internal, tuple(partitions))


def _partition(partition: MetadataResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        index=partition.partition_index,
        leader=partition.leader_id if partition.leader_id >= 0 else None,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        offline_replicas=tuple(partition.offline_replicas),
    )
