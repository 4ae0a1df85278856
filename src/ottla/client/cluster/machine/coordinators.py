"""One question to the coordinator of each group, or of each transactional id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import AskNode
from ottla.client.cluster.machine.retries import Attempt
from ottla.client.requests.coordinators import (
    CoordinatorType,
    find_coordinators_request,
    found_coordinators,
)
from ottla.errors import ErrorCode, KafkaError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# The broker does not coordinate the key, or not any more.
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def by_coordinator(
    known: KnownCluster,
    key_of: Callable[[K], str],
    ask: AskNode[K, V, T],
    kind: CoordinatorType = CoordinatorType.GROUP,
) -> Attempt[K, V, T]:
    """Ask the coordinator of the key that each item belongs to: a group, or a transactional id.

    A remembered coordinator that does not answer, or answers that it is none, is forgotten.
    """

    def attempt(pending: Mapping[K, V], left_ms: int) -> Steps[Mapping[K, T | KafkaError]]:
        keys = dict.fromkeys(map(key_of, pending))
        coordinators = yield from find_coordinators(known, keys, left_ms, kind)
        outcomes: dict[K, T | KafkaError] = {}
        parts: dict[int, dict[K, V]] = {}
        for each, item in pending.items():
            coordinator = coordinators[key_of(each)]
            if isinstance(coordinator, KafkaError):
                outcomes[each] = coordinator
            else:
                parts.setdefault(coordinator, {})[each] = item
        for node_id, part in parts.items():
            try:
                answers = yield from _asked(node_id, part, left_ms, ask)
            except BaseException:
                _forget(known, map(key_of, part), kind)
                raise
            if any(isinstance(each, KafkaError) and each.code in _MOVED for each in answers.values()):
                _forget(known, map(key_of, part), kind)
            outcomes.update(answers)
        return outcomes

    return attempt


def find_coordinators(
    known: KnownCluster,
    keys: Collection[str],
    timeout_ms: int,
    kind: CoordinatorType = CoordinatorType.GROUP,
) -> Steps[dict[str, int | KafkaError]]:
    """The node id of each key's coordinator: the remembered one, else the one that any broker names."""
    found: dict[str, int | KafkaError] = {}
    for key in keys:
        if (remembered := known.coordinator_of(key, kind)) is not None:
            found[key] = remembered
    # Brokers before Kafka 3.0 answer for the first key only: the others are asked for one by one.
    while unknown := [key for key in keys if key not in found]:
        response = yield Ask(None, find_coordinators_request(unknown, kind), timeout_ms)
        answers = found_coordinators(response, unknown)
        if not answers.keys() & set(unknown):
            missing = KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker's answer left out a coordinator"
            )
            return found | dict.fromkeys(unknown, missing)
        found |= answers
        for key, node_id in answers.items():
            if isinstance(node_id, KafkaError):
                known.ask_another()
            else:
                known.learn_coordinator(key, node_id, kind)
    return found


def _asked(
    node_id: int, part: Mapping[K, V], left_ms: int, ask: AskNode[K, V, T]
) -> Steps[Mapping[K, T | KafkaError]]:
    try:
        return (yield from ask(node_id, part, left_ms))
    except KafkaError as error:
        if error.code != ErrorCode.BROKER_NOT_AVAILABLE:
            raise
        # The coordinator has left the cluster, and not every broker knows yet who takes its place.
        return dict.fromkeys(part, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))


def _forget(known: KnownCluster, keys: Iterable[str], kind: CoordinatorType) -> None:
    for key in set(keys):
        known.forget_coordinator(key, kind)
