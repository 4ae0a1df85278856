"""Moving replicas between brokers through a client: start some moves, wait for their end, start the next.

The plan comes from `plan.rebalance`. Moves that have started continue in the cluster when the client is
interrupted; only the limit on their speed stays in force then, until a later move, or `cancel_moves`, lifts
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from ottla.client.admin.admin import Admin
from ottla.client.requests.brokers import LogDir
from ottla.client.requests.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.requests.metadata import PartitionInfo, TopicInfo
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.reassignments import Reassignment
from ottla.controller.image import (
    CAPACITY_FEATURE,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    SupportedFeature,
    TopicImage,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.plan.rebalance import Move, plan_drain, plan_rebalance
from ottla.model import NO_LEADER, TopicPartition

Replicas: TypeAlias = Mapping[TopicPartition, Sequence[int]]

# Each move costs its leader a second reader of old data; more at once make none of them faster.
AT_ONCE: Final = 32
_LOOK_AGAIN_S: Final = 0.3
# A broker that stopped is fenced a moment after its connection has gone; the machine may be busy.
_FENCED_WITHIN_S: Final = 5.0
_RETRY_S: Final = 0.1
_CAPACITY: Final = "ottla.broker.capacity"
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a plan. Bytes are of the moves under way: copied so far, and in all."""

    done: int
    total: int
    moving: int
    copied_bytes: int
    moving_bytes: int


async def drain_moves(admin: Admin, broker: int) -> Replicas:
    """The moves that empty a broker; KafkaError where the other brokers are too few."""
    return _by_partition(plan_drain(await cluster_image(admin), [broker]))


async def rebalance_moves(admin: Admin) -> tuple[Replicas, list[TopicPartition]]:
    """The moves that even replicas out over all brokers, and all partitions of the cluster."""
    image = await cluster_image(admin)
    partitions = [
        TopicPartition(topic.name, each.index)
        for topic in image.topics_by_name.values()
        for each in topic.partitions
    ]
    return _by_partition(plan_rebalance(image)), partitions


def _by_partition(moves: Iterable[Move]) -> Replicas:
    return {TopicPartition(each.topic, each.partition): each.replicas for each in moves}


async def cluster_image(admin: Admin) -> ClusterImage:
    """The cluster as the planner needs it, from answers that every client can get."""
    described = await admin.describe_cluster(include_fenced=True)
    capacities = await _capacities(admin, [each.node_id for each in described.brokers if not each.is_fenced])
    moving = await admin.list_reassignments()
    topics = [_topic_image(topic, moving) for topic in await admin.list_topics(include_internal=True)]
    brokers = {
        each.node_id: BrokerImage(
            node_id=each.node_id,
            epoch=0,
            incarnation_id=UUID(int=0),
            endpoints=(Endpoint("PLAINTEXT", each.host, each.port),),
            rack=each.rack,
            is_fenced=each.is_fenced,
            features=_capacity_feature(capacities.get(each.node_id)),
        )
        for each in described.brokers
    }
    return ClusterImage(
        cluster_id=described.cluster_id,
        topics_by_name={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
        brokers=brokers,
    )


async def _capacities(admin: Admin, brokers: Iterable[int]) -> dict[int, int]:
    """The relative capacity of each broker that declares one; Apache Kafka's brokers have no such setting."""
    resources = [ConfigResource(ResourceType.BROKER, str(node_id)) for node_id in brokers]
    described = succeeded(await admin.describe_configs(resources))
    return {
        int(resource.name): int(entry.value)
        for resource, entries in described.items()
        if (entry := entries.get(_CAPACITY)) and entry.value is not None
    }


def _capacity_feature(capacity: int | None) -> tuple[SupportedFeature, ...]:
    return () if capacity is None else (SupportedFeature(CAPACITY_FEATURE, 0, capacity),)


def _topic_image(topic: TopicInfo, moving: Mapping[TopicPartition, Reassignment]) -> TopicImage:
    return TopicImage(
        topic.name,
        topic.topic_id,
        tuple(
            _partition_image(each, moving.get(TopicPartition(topic.name, each.index)))
            for each in topic.partitions
        ),
    )


def _partition_image(partition: PartitionInfo, move: Reassignment | None) -> PartitionImage:
    return PartitionImage(
        index=partition.index,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=NO_LEADER if partition.leader is None else partition.leader,
        leader_epoch=partition.leader_epoch,
        removing_replicas=move.removing if move else (),
        adding_replicas=move.adding if move else (),
    )


async def carry_out(
    admin: Admin, moves: Replicas, *, throttle: int | None, on_progress: Callable[[Progress], None]
) -> None:
    """Make all moves, `AT_ONCE` at a time, then elect the preferred leaders."""
    brokers = sorted({node_id for replicas in moves.values() for node_id in replicas})
    if throttle is not None:
        brokers = sorted({*brokers, *(each.node_id for each in (await admin.describe_cluster()).brokers)})
        await limit_rate(admin, brokers, throttle)
    waiting, moving, done = list(moves), set[TopicPartition](), 0
    while waiting or moving:
        begin = waiting[: AT_ONCE - len(moving)]
        if begin:
            succeeded(await admin.alter_reassignments({each: moves[each] for each in begin}))
            waiting, moving = waiting[len(begin) :], moving | set(begin)
        under_way = await admin.list_reassignments()
        done += len(moving - under_way.keys())
        moving &= under_way.keys()
        on_progress(await _progress(admin, under_way, done, len(moves)))
        if moving:
            await asyncio.sleep(_LOOK_AGAIN_S)
    if throttle is not None:
        await limit_rate(admin, brokers, None)
    await prefer_leaders(admin, moves)


async def prefer_leaders(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """Elect the first replica of each partition where it is in sync; elsewhere the leader stays."""
    if wanted := list(partitions):
        await admin.elect_leaders(wanted)


async def cancel_moves(admin: Admin) -> list[TopicPartition]:
    """Revert all moves under way and lift the limit on their rate; returns their partitions."""
    under_way = list(await admin.list_reassignments())
    if under_way:
        succeeded(await admin.alter_reassignments(dict.fromkeys(under_way)))
    brokers = [each.node_id for each in (await admin.describe_cluster()).brokers]
    await limit_rate(admin, brokers, None)
    return under_way


async def limit_rate(admin: Admin, brokers: Iterable[int], bytes_per_second: int | None) -> None:
    """Limit the rate at which moving replicas are copied, or lift the limit."""
    if bytes_per_second is None:
        changes = [ConfigChange(name, None, ConfigOperation.DELETE) for name in _RATES]
    else:
        changes = [ConfigChange(name, str(bytes_per_second)) for name in _RATES]
    resources = [ConfigResource(ResourceType.BROKER, str(node_id)) for node_id in brokers]
    succeeded(await admin.alter_configs(dict.fromkeys(resources, changes)))


async def unregister(admin: Admin, broker: int) -> None:
    """Remove a stopped broker from the cluster's metadata, once the controller has fenced it."""
    deadline = asyncio.get_running_loop().time() + _FENCED_WITHIN_S
    while True:
        try:
            return await admin.unregister_broker(broker)
        except KafkaError as error:
            is_running = error.code is ErrorCode.INVALID_REQUEST
            if not is_running or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(_RETRY_S)


async def _progress(
    admin: Admin, under_way: Mapping[TopicPartition, Reassignment], done: int, total: int
) -> Progress:
    nodes = {node_id for move in under_way.values() for node_id in move.replicas}
    sizes = [sizes async for sizes in _log_sizes(admin, nodes)]
    copied = moving = 0
    for partition, move in under_way.items():
        held = {node_id: found[partition] for node_id, found in sizes if partition in found}
        whole = max((held[each] for each in move.replicas if each in held), default=0)
        moving += whole * len(move.adding)
        copied += sum(held.get(each, 0) for each in move.adding)
    return Progress(done, total, len(under_way), copied, moving)


async def _log_sizes(
    admin: Admin, nodes: Iterable[int]
) -> AsyncIterator[tuple[int, dict[TopicPartition, int]]]:
    for node_id, found in (await admin.describe_log_dirs(nodes)).items():
        if not isinstance(found, KafkaError):
            yield node_id, _sizes(found)


def _sizes(directories: Iterable[LogDir]) -> dict[TopicPartition, int]:
    return {
        partition: replica.size_bytes
        for directory in directories
        for partition, replica in directory.replicas.items()
    }
