"""Asking again: which failures pass by themselves, and when to give up.

A request names several items (topics, partitions, groups), and each item has its own outcome. An `Inquiry` is
repeated for the items whose error passes by itself, until every outcome is final or the time is up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from ottla.client.cluster.machine.conversation import NOW, Pause, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.failures import CannotConnectError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# A caller that asks for a topic that does not exist hears it at once. The protocol calls these errors
# retriable only because metadata may lag behind a creation.
_ABSENT: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# The broker did nothing, so even a request that must not be carried out twice may be sent again.
_NOTHING_DONE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)

Attempt: TypeAlias = Callable[[Mapping[K, V], int], Steps[Mapping[K, T | KafkaError]]]


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[K, V, T]):
    """Items to ask about, and `attempt(items, milliseconds left)`, which asks about all of them once.

    An inquiry is repeatable if carrying out its requests twice does no harm.
    """

    items: Mapping[K, V]
    attempt: Attempt[K, V, T]
    is_repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an inquiry is repeated.

    `backoff_ms(failures)` is the pause after that many failures in a row. With `fails_fast`, a cluster of
    which no broker has ever answered is not waited for: its address may be wrong.
    """

    timeout_ms: int
    backoff_ms: Callable[[int], int]
    fails_fast: bool = False


def settled(
    known: KnownCluster, inquiry: Inquiry[K, V, T], patience: Patience
) -> Steps[dict[K, T | KafkaError]]:
    """The outcome of every item. Without items nothing is asked.

    If the inquiry is not repeatable, a connection that is lost while the response is awaited is raised at
    once: the request may have been carried out.
    """
    if not inquiry.items:
        return {}
    now_ms: int = yield NOW
    deadline_ms, pending = now_ms + patience.timeout_ms, dict(inquiry.items)
    outcomes: dict[K, T | KafkaError] = {}
    for failures in itertools.count(1):
        failure: Exception | None = None
        try:
            outcomes.update((yield from inquiry.attempt(pending, max(1, deadline_ms - now_ms))))
            pending = {
                key: item
                for key, item in pending.items()
                if passes(outcomes.get(key), is_repeatable=inquiry.is_repeatable)
            }
        except (ConnectionError, TimeoutError) as error:
            if _is_final(error, known, inquiry, patience):
                raise
            failure = error
        now_ms, wait_ms = (yield NOW), patience.backoff_ms(failures)
        if pending and now_ms + wait_ms < deadline_ms:
            now_ms = yield Pause(wait_ms)
        elif failure:
            raise failure
        else:
            break
    return {key: outcomes[key] if key in outcomes else _left_out(key) for key in inquiry.items}


def passes(outcome: object, *, is_repeatable: bool) -> bool:
    """Whether an outcome is an error that passes by itself, after which the request may be sent again."""
    if not isinstance(outcome, KafkaError):
        return False
    if is_repeatable:
        return outcome.code.retriable and outcome.code not in _ABSENT
    return outcome.code in _NOTHING_DONE


def _is_final(failure: Exception, known: KnownCluster, inquiry: Inquiry[K, V, T], patience: Patience) -> bool:
    if isinstance(failure, CannotConnectError):
        return patience.fails_fast and not known.has_answered
    return not inquiry.is_repeatable


def _left_out(key: object) -> KafkaError:
    """The outcome of an item that no response has named."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer left out {key}")
