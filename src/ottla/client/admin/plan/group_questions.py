"""Groups, their members, and the deletion of committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import AskNode
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.cluster.machine.single_brokers import by_node
from ottla.client.requests.group_offsets import delete_offsets_request, deleted_offsets
from ottla.client.requests.groups import (
    SEVERAL_MEMBERS_SINCE,
    GroupDescription,
    GroupListing,
    deleted_groups,
    described_groups,
    list_groups_request,
    listed_groups,
    remove_members_request,
    removed_members,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from ottla.protocol.messages.groups import MemberIdentity

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


def list_groups(node_ids: Iterable[int], states: Iterable[str]) -> Inquiry[int, None, list[GroupListing]]:
    """The groups that each broker coordinates."""
    return Inquiry(dict.fromkeys(node_ids), by_node(list_groups_request(states), listed_groups))


def describe_groups(known: KnownCluster, names: Iterable[str]) -> Inquiry[str, None, GroupDescription]:
    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, GroupDescription | KafkaError]]:
        response = yield Ask(coordinator, DescribeGroupsRequest(groups=list(part)), left_ms)
        return described_groups(response, coordinator)

    return _by_group(known, dict.fromkeys(names), _itself, ask)


def delete_groups(known: KnownCluster, names: Iterable[str]) -> Inquiry[str, None, None]:
    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, KafkaError | None]]:
        request = DeleteGroupsRequest(groups_names=list(part))
        return deleted_groups((yield Ask(coordinator, request, left_ms)))

    return _by_group(known, dict.fromkeys(names), _itself, ask, is_repeatable=False)


def remove_members(
    known: KnownCluster, group_id: str, members: Mapping[str, MemberIdentity], reason: str
) -> Inquiry[str, MemberIdentity, None]:
    why = f"removed by an administrator{f': {reason}' if reason else ''}"

    def ask(
        coordinator: int, part: Mapping[str, MemberIdentity], left_ms: int
    ) -> Steps[Mapping[str, KafkaError | None]]:
        request = remove_members_request(group_id, part, why)
        try:
            response = yield Ask(coordinator, request, left_ms, at_least=SEVERAL_MEMBERS_SINCE)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            needs = f"{error.message}: removing members needs v3 (Kafka 2.4)"
            raise KafkaError(error.code, needs) from error
        return removed_members(response, group_id, part)

    return _by_group(known, members, lambda _: group_id, ask, is_repeatable=False)


def delete_group_offsets(
    known: KnownCluster, group_id: str, partitions: Iterable[TopicPartition]
) -> Inquiry[TopicPartition, None, None]:
    def ask(
        coordinator: int, part: Mapping[TopicPartition, None], left_ms: int
    ) -> Steps[Mapping[TopicPartition, KafkaError | None]]:
        response = yield Ask(coordinator, delete_offsets_request(group_id, part), left_ms)
        return deleted_offsets(response, part)

    return _by_group(known, dict.fromkeys(partitions), lambda _: group_id, ask)


def _by_group(
    known: KnownCluster,
    items: Mapping[K, V],
    group_of: Callable[[K], str],
    ask: AskNode[K, V, T],
    *,
    is_repeatable: bool = True,
) -> Inquiry[K, V, T]:
    return Inquiry(items, by_coordinator(known, group_of, ask), is_repeatable)


def _itself(group_id: str) -> str:
    return group_id
