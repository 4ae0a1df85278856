"""DescribeLogDirs, versions 1 to 5 (KIP-113, KIP-784, KIP-827): what lies in the data directory and how full
it is.
"""

from ottla.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions

api = ApiFamily()


@api.handles(DescribeLogDirsRequest)
def describe_log_dirs(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """One result: a broker has one data directory."""
    disk = context.services.disk
    path = disk.absolute(context.services.config.logs.directory)
    try:
        usage = disk.usage(path)
    except OSError:
        failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
        return DescribeLogDirsResponse(results=[failed])
    result = DescribeLogDirsResult(
        log_dir=path,
        topics=_topics(_wanted(context.services.partitions, request)),
        total_bytes=usage.total_bytes,
        usable_bytes=usage.free_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _wanted(partitions: Partitions, request: DescribeLogDirsRequest) -> list[HostedPartition]:
    if request.topics is None:
        return list(partitions)
    found = (partitions.find(topic.topic, index) for topic in request.topics for index in topic.partitions)
    return [partition for partition in found if partition is not None]


def _topics(partitions: list[HostedPartition]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.extent.segments.size_bytes,
                offset_lag=partition.lag_records,
            )
        )
    return list(topics.values())
