"""Which broker answers for what: a partition's leader, a group's coordinator, a broker for itself, anybody for the rest.

`by_leader`, `by_coordinator`, `by_resource` and `by_node` turn a question to one broker into an attempt over all of them, as
`retries.settle` wants it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from ottla.client.cluster.connections import Connections
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.groups import find_coordinators_request, found_coordinators
from ottla.client.requests.metadata import TopicInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.coordinator import FindCoordinatorRequest
from ottla.wire.connection import Connection

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_SEVERAL_KEYS_SINCE: Final = first_version(FindCoordinatorRequest, "coordinator_keys")

Ask: TypeAlias = Callable[[Connection, Mapping[K, V], int], Awaitable[Mapping[K, T | KafkaError]]]
Attempt: TypeAlias = Callable[[Mapping[K, V], int], Awaitable[Mapping[K, T | KafkaError]]]


def by_leader(connections: Connections, ask: Ask[TopicPartition, V, T]) -> Attempt[TopicPartition, V, T]:
    """Ask each partition's leader, as fresh metadata names it."""

    async def attempt(
        pending: Mapping[TopicPartition, V], left_ms: int
    ) -> Mapping[TopicPartition, T | KafkaError]:
        metadata = await connections.refresh(list(dict.fromkeys(topic for topic, _ in pending)), left_ms)
        leaders = {each: _leader(metadata.topics.get(each.topic), each) for each in pending}
        outcomes: dict[TopicPartition, T | KafkaError] = {
            each: leader for each, leader in leaders.items() if isinstance(leader, KafkaError)
        }
        for node_id in _distinct(leader for leader in leaders.values() if isinstance(leader, int)):
            part = {each: pending[each] for each in pending if leaders[each] == node_id}
            outcomes.update(await ask(await connections.to(node_id), part, left_ms))
        return outcomes

    return attempt


def by_coordinator(
    connections: Connections, group_of: Callable[[K], str], ask: Ask[K, V, T]
) -> Attempt[K, V, T]:
    """Ask the coordinator of the group that each item belongs to."""

    async def attempt(pending: Mapping[K, V], left_ms: int) -> Mapping[K, T | KafkaError]:
        found = await find_coordinators(connections, list(_distinct(map(group_of, pending))), left_ms)
        coordinators = {each: found[group_of(each)] for each in pending}
        outcomes: dict[K, T | KafkaError] = {
            each: node for each, node in coordinators.items() if isinstance(node, KafkaError)
        }
        for node_id in _distinct(node for node in coordinators.values() if isinstance(node, int)):
            part = {each: pending[each] for each in pending if coordinators[each] == node_id}
            outcomes.update(await ask(await connections.to(node_id), part, left_ms))
        return outcomes

    return attempt


async def find_coordinators(
    connections: Connections, groups: Sequence[str], timeout_ms: int
) -> dict[str, int | KafkaError]:
    """The number of the broker that coordinates each group, as any broker names it."""
    broker = await connections.any()
    several = broker.common_version(ApiKey.FIND_COORDINATOR) >= _SEVERAL_KEYS_SINCE
    found: dict[str, int | KafkaError] = {}
    for part in [groups] if several else [[group] for group in groups]:
        response = await broker.ask(find_coordinators_request(part), timeout_ms=timeout_ms)
        found |= found_coordinators(response, part)
    missing = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker's answer left out a coordinator")
    return {group: found.get(group, missing) for group in groups}


def by_node(
    connections: Connections, ask: Callable[[Connection, int], Awaitable[T | KafkaError]]
) -> Attempt[int, None, T]:
    """Ask each of several brokers the same."""

    async def attempt(pending: Mapping[int, None], left_ms: int) -> Mapping[int, T | KafkaError]:
        return {node_id: await ask(await connections.to(node_id), left_ms) for node_id in pending}

    return attempt


def by_resource(connections: Connections, ask: Ask[ConfigResource, V, T]) -> Attempt[ConfigResource, V, T]:
    """Ask a broker about itself, and any broker about everything else."""

    async def attempt(
        pending: Mapping[ConfigResource, V], left_ms: int
    ) -> Mapping[ConfigResource, T | KafkaError]:
        outcomes: dict[ConfigResource, T | KafkaError] = {}
        for node_id in _distinct(map(_named_broker, pending)):
            part = {each: pending[each] for each in pending if _named_broker(each) == node_id}
            connection = await (connections.any() if node_id is None else connections.to(node_id))
            outcomes.update(await ask(connection, part, left_ms))
        return outcomes

    return attempt


def _leader(topic: TopicInfo | KafkaError | None, wanted: TopicPartition) -> int | KafkaError:
    if isinstance(topic, KafkaError):
        return topic
    found = [each for each in topic.partitions if each.index == wanted.partition] if topic else []
    if not found:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {wanted}")
    if found[0].leader is None:
        return KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE, f"the partition {wanted} has no leader at the moment"
        )
    return found[0].leader


def _named_broker(resource: ConfigResource) -> int | None:
    """The broker that must be asked; None if any will do (a name that is no number is for the broker to refuse)."""
    is_broker = resource.type == ResourceType.BROKER and resource.name.isascii() and resource.name.isdigit()
    return int(resource.name) if is_broker else None


def _distinct(values: Iterable[T]) -> Iterable[T]:
    return dict.fromkeys(values)
