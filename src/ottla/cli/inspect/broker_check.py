"""Examines a running broker and the cluster it is part of, the way a client would see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from ottla.cli.client_config import security_given
from ottla.cli.inspect.running_security_check import (
    CHECKS_RIGHTS,
    check_certificate,
    check_running_settings,
)
from ottla.cli.inspect.security_check import check_rights
from ottla.cli.inspect.tier_check import check_tier
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.cluster_check import (
    DAMAGED_REPLICAS,
    check_controller,
    check_damage,
    check_log_dirs,
    check_newest_record,
    check_partition,
)
from ottla.client.admin.checks.findings import CannotLookError, Examination
from ottla.client.admin.checks.transaction_check import check_transactions
from ottla.client.requests.brokers import described_log_dirs
from ottla.client.requests.configs import ResourceType
from ottla.client.requests.metadata import TopicInfo, cluster_metadata
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address, TopicPartition, parse_addresses
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.list_offsets import (
    MAX_TIMESTAMP,
    TIMESTAMPS_SINCE,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.security.acl.rules import AclFilter
from ottla.security.settings import Security
from ottla.wire.connection import Connection

_TIMEOUT_MS: Final = 5_000  # a broker that takes longer to say hello is not well
_ROUND_TRIPS: Final = 11  # the median of these is not moved by one slow answer
_SLOW_ROUND_TRIP_MS: Final = 100.0
# Without these no client can produce and consume.
_NEEDED: Final = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS)

# What is asked about transactions. An older broker does not serve it.
_OF_TRANSACTIONS: Final = (
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_TRANSACTIONS,
)
_CLIENT_ID: Final = "ottla-doctor"

_FAILURES: Final = (KafkaError, ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The broker's answers about itself and the cluster."""

    metadata: MetadataResponse
    report: Examination
    security: Security

    def broker(self, node_id: int) -> MetadataResponseBroker | None:
        return next((each for each in self.metadata.brokers if each.node_id == node_id), None)

    def partitions(self) -> Iterator[tuple[MetadataResponseTopic, MetadataResponsePartition]]:
        return ((topic, each) for topic in self.metadata.topics for each in topic.partitions)


async def check_broker(bootstrap: str, security: Security | None = None) -> Examination:
    """Examine the broker, and through it the cluster; CannotLookError if none of the addresses answers.

    Without `security`, the command that runs says how to reach them.
    """
    report, security = Examination(bootstrap), security or security_given()
    async with await _first_connection(parse_addresses(bootstrap), report, security) as connection:
        try:
            metadata = await _metadata(connection, report)
        except _FAILURES as problem:
            raise CannotLookError(
                f"{connection.address} does not answer what a client asks first: {problem}"
            ) from problem
        cluster = Cluster(metadata, report, security)
        _check_apis(connection, report)
        asks_transactions = all(connection.offers(key) is not None for key in _OF_TRANSACTIONS)
    _check_topics(cluster)
    reached = {broker.node_id for broker in metadata.brokers if await _check_member(broker, cluster)}
    if asks_transactions and reached:
        await _check_transactions(cluster, reached)
    if report.facts.get(CHECKS_RIGHTS):
        await _check_rights(cluster)
    return report


async def _first_connection(
    addresses: tuple[Address, ...], report: Examination, security: Security
) -> Connection:
    problems: list[str] = []
    for address in addresses:
        try:
            return await _connect(address.host, address.port, security)
        except _FAILURES as problem:
            problems.append(str(problem))
            if len(addresses) > 1:
                report.warning(
                    address, str(problem), "Start the broker there, or take the address out of the list."
                )
    raise CannotLookError("; ".join(problems))


async def _connect(host: str, port: int, security: Security) -> Connection:
    return await Connection.open(host, port, client_id=_CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=security)


async def _metadata(connection: Connection, report: Examination) -> MetadataResponse:
    """Ask for all topics, and time some small questions."""
    times_ms: list[float] = []
    for _ in range(_ROUND_TRIPS):
        started = time.perf_counter()
        await connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        times_ms.append((time.perf_counter() - started) * 1000)
    report.facts["round_trip_ms"] = round(median(times_ms), 3)
    if median(times_ms) > _SLOW_ROUND_TRIP_MS:
        report.warning(
            connection.address,
            f"a small question takes {median(times_ms):.0f} ms",
            "Look at the network between here and there, and at the load of the broker's machine.",
        )
    metadata: MetadataResponse = await connection.ask(
        MetadataRequest(topics=None, allow_auto_topic_creation=False)
    )
    report.facts |= {
        "cluster_id": metadata.cluster_id,
        "brokers": len(metadata.brokers),
        "topics": len(metadata.topics),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
    }
    return metadata


def _check_apis(connection: Connection, report: Examination) -> None:
    for key in _NEEDED:
        offered, ours = connection.offers(key), APIS[key]
        if offered is None or offered.last < ours.min_version or offered.first > ours.max_version:
            report.error(
                connection.address,
                f"it does not serve {key.name.lower()} in a version that this client speaks",
                "Use versions of broker and client that belong together.",
            )


# ---- topics


def _check_topics(cluster: Cluster) -> None:
    metadata, report = cluster.metadata, cluster.report
    values, brokers = cluster_metadata(metadata), {each.node_id for each in metadata.brokers}
    check_controller(values.controller_id, brokers, report)
    for raw in metadata.topics:
        if raw.error_code:
            report.error(
                raw.name,
                f"the broker says {_words(raw.error_code)}",
                "Read the broker's log about this topic.",
            )
    codes = {(topic.name, each.partition_index): each.error_code for topic, each in cluster.partitions()}
    for topic in (each for each in values.topics.values() if isinstance(each, TopicInfo)):
        for each in topic.partitions:
            place, code = TopicPartition(topic.name, each.index), codes[topic.name, each.index]
            if code and each.leader in brokers:
                report.warning(place, f"the broker says {_words(code)}", "Read the broker's log about it.")
            else:
                check_partition(place, each, brokers, report)


def _words(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


# ---- brokers


async def _check_member(broker: MetadataResponseBroker, cluster: Cluster) -> bool:
    """Go to where a broker says it is, as every client does after its first question; whether it is there."""
    place, report = f"broker {broker.node_id}", cluster.report
    try:
        connection = await _connect(broker.host, broker.port, cluster.security)
    except _FAILURES as problem:
        report.error(
            place,
            f"it advertises {Address(broker.host, broker.port)}, and {problem}",
            "Start it, or set advertised.listeners to an address that clients can reach.",
        )
        return False
    async with connection:
        for check in (
            _check_log_directories,
            _check_damage,
            _check_newest_records,
            _check_security,
            _check_tier,
        ):
            try:
                await check(connection, broker.node_id, cluster)
            except _FAILURES as problem:
                report.note(
                    place, f"not everything could be asked: {problem}", "Nothing, if it is an older broker."
                )
    return True


async def _check_log_directories(connection: Connection, node_id: int, cluster: Cluster) -> None:
    response: DescribeLogDirsResponse = await connection.ask(DescribeLogDirsRequest(topics=None))
    directories = described_log_dirs(response)
    if isinstance(directories, KafkaError):
        raise directories
    check_log_dirs(node_id, directories, cluster.report)


async def _check_damage(connection: Connection, node_id: int, cluster: Cluster) -> None:
    """Replicas that the broker has found damaged, those that it keeps in use because no other could lead included."""
    resource = DescribeConfigsResource(ResourceType.BROKER, str(node_id), [DAMAGED_REPLICAS])
    response: DescribeConfigsResponse = await connection.ask(DescribeConfigsRequest(resources=[resource]))
    for result in response.results:
        for entry in result.configs:
            if entry.name == DAMAGED_REPLICAS:
                check_damage(node_id, entry.value, cluster.report)


async def _check_security(connection: Connection, node_id: int, cluster: Cluster) -> None:
    await check_running_settings(connection, node_id, cluster.report)
    if cluster.security.uses_tls:
        await check_certificate(connection.address, node_id, cluster.report)


async def _check_tier(connection: Connection, node_id: int, cluster: Cluster) -> None:
    await check_tier(connection, node_id, cluster.report)


async def _check_newest_records(connection: Connection, node_id: int, cluster: Cluster) -> None:
    """The protocol tells no time, but a record from the future shows that some clock is wrong."""
    offered = connection.offers(ApiKey.LIST_OFFSETS)
    if offered is None or offered.last < TIMESTAMPS_SINCE[MAX_TIMESTAMP]:
        return
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in cluster.partitions():
        if partition.leader_id == node_id and topic.name:
            wanted = ListOffsetsPartition(partition_index=partition.partition_index, timestamp=MAX_TIMESTAMP)
            topics.setdefault(topic.name, []).append(wanted)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()]
    )
    response: ListOffsetsResponse = await connection.ask(request)
    now_ms = time.time() * 1000
    for found in response.topics:
        for each in found.partitions:
            place = TopicPartition(found.name, each.partition_index)
            check_newest_record(place, each.offset, each.timestamp, now_ms, cluster.report)


async def _check_transactions(cluster: Cluster, reached: Collection[int]) -> None:
    """Ask about the partitions whose leaders can be reached."""
    report = cluster.report
    led = [
        TopicPartition(topic.name, each.partition_index)
        for topic, each in cluster.partitions()
        if topic.name and not each.error_code and each.leader_id in reached
    ]
    try:
        async with Admin(
            report.subject, client_id=_CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=cluster.security
        ) as admin:
            await check_transactions(admin, led, report, int(time.time() * 1000))
    except _FAILURES as problem:
        report.note(
            report.subject,
            f"transactions could not be asked about: {problem}",
            "Look at the findings about brokers first; then list them with `ottla transactions list`.",
        )


async def _check_rights(cluster: Cluster) -> None:
    """Ask for rights that everybody has."""
    report = cluster.report
    try:
        async with Admin(
            report.subject, client_id=_CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=cluster.security
        ) as admin:
            check_rights(await admin.describe_acls(AclFilter()), "rights", report)
    except _FAILURES as problem:
        report.note(
            report.subject,
            f"rights could not be asked about: {problem}",
            "Ask as a user who may describe the cluster.",
        )


def examine(bootstrap: str) -> Examination:
    """`check_broker` for callers without an event loop."""
    return asyncio.run(check_broker(bootstrap))
