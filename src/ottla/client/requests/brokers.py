"""A cluster's brokers and their disks: DescribeCluster, UnregisterBroker and DescribeLogDirs."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.requests.metadata import BrokerInfo
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.brokers import UnregisterBrokerResponse
from ottla.protocol.messages.cluster import (
    DescribeClusterResponse,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The id, controller and brokers of a cluster. `controller_id` is None while no controller is known."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One broker's log of one partition."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A data directory of a broker. The sizes of its volume are -1 if the broker does not report them."""

    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaLog]


def described_cluster(response: DescribeClusterResponse) -> ClusterDescription:
    if response.error_code != ErrorCode.NONE:
        raise error_of(response.error_code, response.error_message)
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id if response.controller_id >= 0 else None,
        brokers=tuple(
            BrokerInfo(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in response.brokers
        ),
    )


def unregistered_broker(response: UnregisterBrokerResponse) -> KafkaError | None:
    return outcome(response.error_code, None, response.error_message)


def described_log_dirs(response: DescribeLogDirsResponse) -> tuple[LogDir, ...] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code)
    return tuple(_log_dir(result) for result in response.results)


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        path=result.log_dir,
        error=error_of(result.error_code) if result.error_code != ErrorCode.NONE else None,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        replicas={
            TopicPartition(topic.name, each.partition_index): ReplicaLog(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in result.topics
            for each in topic.partitions
        },
    )
