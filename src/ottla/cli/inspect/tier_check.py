"""Whether a broker's object store can be used, and whether its copies go on."""

from __future__ import annotations

from ottla.client.admin.checks.findings import Examination
from ottla.client.requests.configs import ResourceType
from ottla.config.tiers import STORE_URL
from ottla.errors import ErrorCode
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.remote_logs import DescribeRemoteLogRequest, DescribeRemoteLogResponse
from ottla.wire.connection import Connection

_LOOK = "See docs/tiers.md, Looking at it. Records are taken meanwhile, and local logs grow: watch the disk."


async def check_tier(connection: Connection, node_id: int, report: Examination) -> None:
    """Examine the tiered storage of a broker that has it; other brokers are not asked, Apache Kafka neither."""
    resource = DescribeConfigsResource(ResourceType.BROKER, str(node_id), [STORE_URL])
    configs: DescribeConfigsResponse = await connection.ask(DescribeConfigsRequest(resources=[resource]))
    entries = [entry for result in configs.results for entry in result.configs]
    if not any(entry.name == STORE_URL and entry.value for entry in entries):
        return
    answer: DescribeRemoteLogResponse = await connection.ask(DescribeRemoteLogRequest())
    if answer.error_code != ErrorCode.NONE:
        return
    place = f"broker {node_id}"
    if answer.problem is not None:
        report.error(place, f"the object store {answer.store_url} fails: {answer.problem}", _LOOK)
        return
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.problem is not None:
                name = f"{topic.name}-{partition.partition_index}"
                report.warning(place, f"{name} is not copied to the object store: {partition.problem}", _LOOK)
