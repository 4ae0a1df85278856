"""The status of a cluster: its brokers, its quorum, its partitions, gathered from the brokers that answer.

People look at the status of a cluster in trouble. So no broker is waited for longer than `TIMEOUT_MS`, the
part of a broker that does not answer is left out (None), and brokers that are known not to serve are not
asked.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.client.admin.admin import Admin
from ottla.client.requests.brokers import ClusterDescription, LogDir
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.metadata import BrokerInfo, TopicInfo
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.quorum import QuorumDescription
from ottla.errors import KafkaError
from ottla.localcluster.state import BrokerState, ClusterState, Condition
from ottla.model import TopicPartition
from ottla.security.settings import PLAINTEXT, Security

T = TypeVar("T")

TIMEOUT_MS: Final = 3_000
LOAD_PREFIX: Final = "ottla.load."


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker: its process, if it is a local one, and what the cluster knows about it."""

    node_id: int
    address: str | None
    rack: str | None
    process: BrokerState | None
    is_fenced: bool | None  # None: the cluster does not know the broker, or was not asked
    is_voter: bool | None
    leads: int
    replicas: int
    in_sync: int
    replica_lag: int | None
    metadata_lag: int | None
    load: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition; `lags` has the number of records by which each follower lags."""

    topic: str
    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    lags: dict[int, int]

    @property
    def is_well(self) -> bool:
        return self.leader is not None and set(self.replicas) <= set(self.isr)


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The whole cluster. If no broker could be asked, `problem` says why and only processes are known."""

    cluster_id: str | None
    controller_id: int | None
    quorum: QuorumDescription | None
    brokers: tuple[BrokerStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to one round of questions; None or absent where no broker answered."""

    cluster: ClusterDescription
    quorum: QuorumDescription | None
    topics: tuple[TopicInfo, ...]
    log_dirs: dict[int, tuple[LogDir, ...]]
    loads: dict[int, dict[str, str]]


async def gather_status(
    bootstrap: str, state: ClusterState | None, security: Security = PLAINTEXT
) -> ClusterStatus:
    """Ask a cluster; `state` is the state of a local one."""
    try:
        async with Admin(
            bootstrap, client_id="ottla-status", timeout_ms=TIMEOUT_MS, security=security
        ) as admin:
            answers = await _ask(admin, _at_work(state))
    except (ConnectionError, TimeoutError, KafkaError) as error:
        return unknown_status(state, f"No broker answers: {error}")
    return status_of(answers, state)


async def local_status(state: ClusterState, security: Security = PLAINTEXT) -> ClusterStatus:
    """Ask a local cluster through the brokers that serve."""
    if state.bootstrap_at_work is None:
        return unknown_status(state, "No broker is at work.")
    return await gather_status(state.bootstrap_at_work, state, security)


async def _ask(admin: Admin, at_work: set[int] | None) -> Answers:
    cluster = await admin.describe_cluster(include_fenced=True)
    asked = [
        each.node_id
        for each in cluster.brokers
        if not each.is_fenced and (at_work is None or each.node_id in at_work)
    ]
    quorum, topics, log_dirs, loads = await asyncio.gather(
        _or_none(admin.describe_quorum()),
        _or_none(admin.list_topics(include_internal=True)),
        asyncio.gather(*(_or_none(_log_dirs(admin, node_id)) for node_id in asked)),
        asyncio.gather(*(_or_none(_load(admin, node_id)) for node_id in asked)),
    )
    return Answers(
        cluster=cluster,
        quorum=quorum,
        topics=tuple(topics or ()),
        log_dirs={node_id: dirs for node_id, dirs in zip(asked, log_dirs, strict=True) if dirs is not None},
        loads={node_id: load for node_id, load in zip(asked, loads, strict=True) if load is not None},
    )


async def _log_dirs(admin: Admin, node_id: int) -> tuple[LogDir, ...]:
    return succeeded(await admin.describe_log_dirs([node_id]))[node_id]


async def _load(admin: Admin, node_id: int) -> dict[str, str]:
    resource = ConfigResource(ResourceType.BROKER, str(node_id))
    entries = succeeded(await admin.describe_configs([resource]))[resource]
    return {
        name.removeprefix(LOAD_PREFIX): entry.value
        for name, entry in entries.items()
        if name.startswith(LOAD_PREFIX) and entry.value is not None
    }


async def _or_none(question: Awaitable[T]) -> T | None:
    try:
        return await question
    except (ConnectionError, TimeoutError, KafkaError):
        return None


def _at_work(state: ClusterState | None) -> set[int] | None:
    if state is None:
        return None
    return {each.node_id for each in state.brokers if each.condition == Condition.RUNNING}


def unknown_status(state: ClusterState | None, problem: str) -> ClusterStatus:
    """The status of a cluster of which no broker answers: its processes."""
    nothing = ClusterDescription("", None, ())
    status = status_of(Answers(nothing, None, (), {}, {}), state)
    cluster_id = state.cluster_id if state else None
    return ClusterStatus(cluster_id, None, None, status.brokers, (), problem)


def status_of(answers: Answers, state: ClusterState | None) -> ClusterStatus:
    """Combine the answers with the state of a local cluster. Pure."""
    partitions = tuple(_partitions(answers.topics, _lags(answers.log_dirs)))
    known = {each.node_id: each for each in answers.cluster.brokers}
    processes = {each.node_id: each for each in state.brokers} if state else {}
    brokers = tuple(
        _broker(node_id, known.get(node_id), processes.get(node_id), answers, state, partitions)
        for node_id in sorted(known.keys() | processes.keys())
    )
    return ClusterStatus(
        answers.cluster.cluster_id, answers.cluster.controller_id, answers.quorum, brokers, partitions
    )


def _broker(
    node_id: int,
    known: BrokerInfo | None,
    process: BrokerState | None,
    answers: Answers,
    state: ClusterState | None,
    partitions: Sequence[PartitionStatus],
) -> BrokerStatus:
    held = [each for each in partitions if node_id in each.replicas]
    lags = [each.lags[node_id] for each in held if node_id in each.lags]
    if known is not None:
        address: str | None = str(known.address)
    else:
        address = f"{state.host}:{process.advertised_port}" if state and process else None
    return BrokerStatus(
        node_id=node_id,
        address=address,
        rack=(known and known.rack) or (process and process.rack) or None,
        process=process,
        is_fenced=known.is_fenced if known else None,
        is_voter=_is_voter(node_id, answers.quorum, state),
        leads=sum(each.leader == node_id for each in held),
        replicas=len(held),
        in_sync=sum(node_id in each.isr for each in held),
        replica_lag=sum(lags) if node_id in answers.log_dirs else None,
        metadata_lag=_metadata_lag(node_id, answers.quorum),
        load=answers.loads.get(node_id, {}),
    )


def _is_voter(node_id: int, quorum: QuorumDescription | None, state: ClusterState | None) -> bool | None:
    if quorum is not None:
        return any(each.node_id == node_id for each in quorum.voters)
    return node_id in state.voters if state else None


def _metadata_lag(node_id: int, quorum: QuorumDescription | None) -> int | None:
    """The number of committed records of the metadata log that a node has not fetched."""
    for each in (*quorum.voters, *quorum.observers) if quorum else ():
        if each.node_id == node_id and quorum is not None:
            return None if each.log_end_offset < 0 else max(quorum.high_watermark - each.log_end_offset, 0)
    return None


def _lags(log_dirs: dict[int, tuple[LogDir, ...]]) -> dict[TopicPartition, dict[int, int]]:
    lags: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for node_id, directories in log_dirs.items():
        for directory in directories:
            for partition, replica in directory.replicas.items():
                lags[partition][node_id] = replica.offset_lag
    return lags


def _partitions(
    topics: Iterable[TopicInfo], lags: dict[TopicPartition, dict[int, int]]
) -> Iterable[PartitionStatus]:
    for topic in topics:
        for each in topic.partitions:
            found = lags.get(TopicPartition(topic.name, each.index), {})
            yield PartitionStatus(
                topic.name,
                each.index,
                each.leader,
                each.leader_epoch,
                each.replicas,
                each.isr,
                {node_id: found[node_id] for node_id in each.replicas if node_id in found},
            )
