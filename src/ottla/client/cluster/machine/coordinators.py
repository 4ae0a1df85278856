"""One question to the coordinator of each group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import AskNode
from ottla.client.cluster.machine.retries import Attempt
from ottla.client.requests.coordinators import find_coordinators_request, found_coordinators
from ottla.errors import ErrorCode, KafkaError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# The broker does not coordinate the group, or not any more.
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def by_coordinator(
    known: KnownCluster, group_of: Callable[[K], str], ask: AskNode[K, V, T]
) -> Attempt[K, V, T]:
    """Ask the coordinator of the group that each item belongs to.

    A remembered coordinator that does not answer, or answers that it is none, is forgotten.
    """

    def attempt(pending: Mapping[K, V], left_ms: int) -> Steps[Mapping[K, T | KafkaError]]:
        groups = dict.fromkeys(map(group_of, pending))
        coordinators = yield from find_coordinators(known, groups, left_ms)
        outcomes: dict[K, T | KafkaError] = {}
        parts: dict[int, dict[K, V]] = {}
        for each, item in pending.items():
            coordinator = coordinators[group_of(each)]
            if isinstance(coordinator, KafkaError):
                outcomes[each] = coordinator
            else:
                parts.setdefault(coordinator, {})[each] = item
        for node_id, part in parts.items():
            answers = yield from _asked(known, node_id, part, left_ms, group_of, ask)
            outcomes.update(answers)
        return outcomes

    return attempt


def find_coordinators(
    known: KnownCluster, groups: Collection[str], timeout_ms: int
) -> Steps[dict[str, int | KafkaError]]:
    """The node id of each group's coordinator: the remembered one, else the one that any broker names."""
    found: dict[str, int | KafkaError] = {}
    for group in groups:
        if (remembered := known.coordinator_of(group)) is not None:
            found[group] = remembered
    # Brokers before Kafka 3.0 answer for the first group only: the others are asked for one by one.
    while unknown := [group for group in groups if group not in found]:
        response = yield Ask(None, find_coordinators_request(unknown), timeout_ms)
        answers = found_coordinators(response, unknown)
        if not answers.keys() & set(unknown):
            missing = KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker's answer left out a coordinator"
            )
            return found | dict.fromkeys(unknown, missing)
        found |= answers
        for group, node_id in answers.items():
            if not isinstance(node_id, KafkaError):
                known.learn_coordinator(group, node_id)
    return found


def _asked(
    known: KnownCluster,
    node_id: int,
    part: Mapping[K, V],
    left_ms: int,
    group_of: Callable[[K], str],
    ask: AskNode[K, V, T],
) -> Steps[Mapping[K, T | KafkaError]]:
    has_moved = True
    try:
        answers = yield from ask(node_id, part, left_ms)
        has_moved = any(isinstance(each, KafkaError) and each.code in _MOVED for each in answers.values())
        return answers
    except KafkaError as error:
        if error.code != ErrorCode.BROKER_NOT_AVAILABLE:
            raise
        return dict.fromkeys(part, error)  # the coordinator has left the cluster
    finally:
        for group in set(map(group_of, part)) if has_moved else ():
            known.forget_coordinator(group)
