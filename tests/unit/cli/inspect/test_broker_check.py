"""The doctor's findings about a running broker."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest
from tests.unit.wire.fake_broker import HANG_UP, FakeBroker, all_versions

from ottla.cli.inspect.broker_check import check_broker
from ottla.client.admin.checks.cluster_check import DAMAGED_REPLICAS
from ottla.client.admin.checks.findings import CannotLookError, Examination, Severity
from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.cluster import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def partition(index: int = 0, leader: int = 1, **fields: Any) -> MetadataResponsePartition:
    fields = {"replica_nodes": [1], "isr_nodes": [1], **fields}
    return MetadataResponsePartition(partition_index=index, leader_id=leader, **fields)


def newest(timestamp: int) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, timestamp=timestamp, offset=41)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])])


def load(damaged_replicas: int) -> DescribeConfigsResponse:
    entry = DescribeConfigsResourceResult(name=DAMAGED_REPLICAS, value=str(damaged_replicas))
    return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[entry])])


class Cluster:
    """The fake broker's answers; a test changes those that it is about."""

    def __init__(self) -> None:
        self.topics = [MetadataResponseTopic(name="orders", partitions=[partition()])]
        self.advertised_port: int | None = None
        self.controller_id = 1
        self.directory = DescribeLogDirsResult(log_dir="/data", total_bytes=100 << 30, usable_bytes=50 << 30)
        self.newest_timestamp = -1
        self.damaged_replicas = 0
        self.versions: Any = all_versions

    def examine(self, bootstrap: str = "127.0.0.1:{port}") -> Examination:
        return asyncio.run(self._examine(bootstrap))

    async def _examine(self, bootstrap: str) -> Examination:
        broker = FakeBroker().on(ApiVersionsRequest, lambda *_: self.versions())
        broker.on(MetadataRequest, lambda *_: self._metadata(broker.port))
        broker.on(DescribeLogDirsRequest, lambda *_: DescribeLogDirsResponse(results=[self.directory]))
        broker.on(ListOffsetsRequest, lambda *_: newest(self.newest_timestamp))
        broker.on(DescribeConfigsRequest, lambda *_: load(self.damaged_replicas))
        async with broker:
            return await check_broker(bootstrap.format(port=broker.port))

    def _metadata(self, port: int) -> MetadataResponse:
        advertised = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.advertised_port or port)
        return MetadataResponse(
            brokers=[advertised],
            cluster_id="Some-cluster",
            controller_id=self.controller_id,
            topics=self.topics,
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def only(report: Examination) -> tuple[Severity, str]:
    (finding,) = report.findings
    assert finding.advice
    return finding.severity, f"{finding.place}: {finding.problem}"


def test_a_healthy_broker_has_no_findings(cluster: Cluster) -> None:
    report = cluster.examine()
    assert report.findings == []
    assert report.facts["round_trip_ms"] > 0
    del report.facts["round_trip_ms"]
    assert report.facts == {"cluster_id": "Some-cluster", "brokers": 1, "topics": 1, "partitions": 1}


def test_nobody_at_the_address_cannot_be_looked_at(free_port: int) -> None:
    with pytest.raises(CannotLookError, match="could not reach"):
        asyncio.run(check_broker(f"127.0.0.1:{free_port}"))


def test_one_of_several_addresses_is_enough(cluster: Cluster, free_port: int) -> None:
    severity, text = only(cluster.examine(f"127.0.0.1:{free_port},127.0.0.1:{{port}}"))
    assert severity is Severity.WARNING
    assert text.startswith(f"127.0.0.1:{free_port}: could not reach")


def test_a_broker_that_hangs_up_cannot_be_looked_at() -> None:
    async def scenario() -> None:
        async with FakeBroker().on(MetadataRequest, HANG_UP) as broker:
            with pytest.raises(CannotLookError, match="does not answer what a client asks first"):
                await check_broker(f"127.0.0.1:{broker.port}")

    asyncio.run(scenario())


def test_a_partition_without_a_leader_is_an_error(cluster: Cluster) -> None:
    cluster.topics[0].partitions = [partition(leader=-1), partition(1, leader=7)]
    report = cluster.examine()
    assert [(each.severity, each.place) for each in report.findings] == [
        (Severity.ERROR, "orders-0"),
        (Severity.ERROR, "orders-1"),
    ]
    assert all("it has no leader" in each.problem for each in report.findings)


def test_replicas_that_fell_behind_are_a_warning(cluster: Cluster) -> None:
    cluster.topics[0].partitions = [partition(replica_nodes=[1, 2, 3], isr_nodes=[1, 3])]
    assert only(cluster.examine()) == (Severity.WARNING, "orders-0: the replicas on [2] are not in sync")


def test_a_damaged_replica_on_a_broker_that_runs_is_an_error(cluster: Cluster) -> None:
    cluster.topics[0].partitions = [
        partition(leader=1, replica_nodes=[1, 2], isr_nodes=[2], offline_replicas=[1])
    ]
    severity, problem = only(cluster.examine())
    assert severity is Severity.ERROR
    assert "orders-0: the replica on broker 1 has records that cannot be read" in problem


def test_damaged_replicas_that_stay_in_use_are_an_error(cluster: Cluster) -> None:
    cluster.damaged_replicas = 2
    severity, problem = only(cluster.examine())
    assert severity is Severity.ERROR
    assert problem == "broker 1: it has 2 replicas with records that cannot be read"


def test_errors_in_the_metadata_are_passed_on(cluster: Cluster) -> None:
    cluster.topics[0].partitions = [partition(error_code=ErrorCode.KAFKA_STORAGE_ERROR)]
    cluster.topics.append(MetadataResponseTopic(name="odd", error_code=999))
    report = cluster.examine()
    assert [each.problem for each in report.findings] == [
        "the broker says error 999",
        "the broker says KAFKA_STORAGE_ERROR",
    ]


def test_an_advertised_address_that_leads_nowhere_is_an_error(cluster: Cluster, free_port: int) -> None:
    cluster.advertised_port = free_port
    severity, text = only(cluster.examine())
    assert severity is Severity.ERROR
    assert text.startswith(f"broker 1: it advertises 127.0.0.1:{free_port}, and could not reach")


def test_a_controller_that_nobody_knows_is_a_warning(cluster: Cluster) -> None:
    cluster.controller_id = 9
    assert "the controller is node 9" in only(cluster.examine())[1]


def test_a_broken_log_directory_is_an_error(cluster: Cluster) -> None:
    cluster.directory = DescribeLogDirsResult(log_dir="/data", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    assert only(cluster.examine()) == (Severity.ERROR, "broker 1: /data: KAFKA_STORAGE_ERROR")


def test_a_nearly_full_disk_is_a_warning(cluster: Cluster) -> None:
    cluster.directory = DescribeLogDirsResult(log_dir="/data", total_bytes=100 << 30, usable_bytes=1 << 30)
    assert only(cluster.examine()) == (
        Severity.WARNING,
        "broker 1: /data: only 1024 MiB are free on its disk",
    )


def test_a_record_from_the_future_shows_that_a_clock_is_wrong(cluster: Cluster) -> None:
    cluster.newest_timestamp = int(time.time() * 1000) + 3_600_000
    severity, text = only(cluster.examine())
    assert severity is Severity.WARNING
    assert text.startswith("orders-0: the record at offset 41 is 3")


def test_an_older_broker_is_asked_less(cluster: Cluster) -> None:
    def older() -> Any:
        response = all_versions()
        keep = [each for each in response.api_keys if each.api_key != ApiKey.DESCRIBE_LOG_DIRS]
        for each in keep:
            if each.api_key == ApiKey.LIST_OFFSETS:
                each.max_version = 6
        response.api_keys = keep
        return response

    cluster.versions = older
    cluster.newest_timestamp = 1 << 60
    severity, text = only(cluster.examine())
    assert severity is Severity.NOTE
    assert "DESCRIBE_LOG_DIRS" in text


def test_a_broker_without_what_clients_need_is_an_error(cluster: Cluster) -> None:
    def without_produce() -> Any:
        response = all_versions()
        response.api_keys = [each for each in response.api_keys if each.api_key != ApiKey.PRODUCE]
        return response

    cluster.versions = without_produce
    severity, text = only(cluster.examine())
    assert severity is Severity.ERROR
    assert "it does not serve produce" in text


@pytest.fixture
def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
