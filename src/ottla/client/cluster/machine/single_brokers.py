"""One question to any broker, to each of several, or to the broker that a resource names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.retries import Attempt, Inquiry
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


def by_any(
    request_of: Callable[[Mapping[K, V], int], Any],
    outcomes_of: Callable[[Any, Mapping[K, V]], Mapping[K, T | KafkaError]],
) -> Attempt[K, V, T]:
    """Ask any broker about all items.

    The arguments are `request_of(items, milliseconds left)` and `outcomes_of(response, items)`.
    """

    def attempt(pending: Mapping[K, V], left_ms: int) -> Steps[Mapping[K, T | KafkaError]]:
        response = yield Ask(None, request_of(pending, left_ms), left_ms)
        return outcomes_of(response, pending)

    return attempt


def one_answer(
    request_of: Callable[[int], Any], outcome_of: Callable[[Any], T | KafkaError]
) -> Inquiry[str, None, T]:
    """An inquiry to any broker with one outcome, under the key ""."""
    attempt: Attempt[str, None, T] = by_any(
        lambda _, left_ms: request_of(left_ms), lambda response, _: {"": outcome_of(response)}
    )
    return Inquiry({"": None}, attempt)


def by_node(request: Any, outcome_of: Callable[[Any], T | KafkaError]) -> Attempt[int, None, T]:
    """Ask each of several brokers the same."""

    def attempt(pending: Mapping[int, None], left_ms: int) -> Steps[Mapping[int, T | KafkaError]]:
        outcomes: dict[int, T | KafkaError] = {}
        for node_id in pending:
            outcomes[node_id] = outcome_of((yield Ask(node_id, request, left_ms)))
        return outcomes

    return attempt


def by_resource(
    request_of: Callable[[Mapping[ConfigResource, V]], Any],
    outcomes_of: Callable[[Any], Mapping[ConfigResource, T | KafkaError]],
) -> Attempt[ConfigResource, V, T]:
    """Ask a broker about itself, and any broker about everything else."""

    def attempt(
        pending: Mapping[ConfigResource, V], left_ms: int
    ) -> Steps[Mapping[ConfigResource, T | KafkaError]]:
        outcomes: dict[ConfigResource, T | KafkaError] = {}
        for node_id in dict.fromkeys(map(_named_broker, pending)):
            part = {each: pending[each] for each in pending if _named_broker(each) == node_id}
            outcomes.update(outcomes_of((yield Ask(node_id, request_of(part), left_ms))))
        return outcomes

    return attempt


def _named_broker(resource: ConfigResource) -> int | None:
    """The broker that must be asked about a resource; None if any will do.

    A broker resource whose name is no number goes to any broker, which refuses it.
    """
    is_broker = resource.type == ResourceType.BROKER and resource.name.isascii() and resource.name.isdigit()
    return int(resource.name) if is_broker else None
