"""A conversation with a cluster, as a machine without input or output.

    conversation = Conversation(known, steps, now_ms)
    while (want := conversation.wants) is not None:
        ...carry out `want`...
        conversation.heard(response, now_ms)        # or conversation.failed(error, now_ms)
    return conversation.result

Rules
- Steps name brokers by node id, or leave the choice open. The conversation turns each `Ask` into a `Send` to
  one address: an unknown node is looked up in the cluster's metadata first; where any broker will do,
  addresses are tried in the order in which `KnownCluster` prefers them.
- An address that cannot be connected to is passed over only where any broker will do, and only if nothing was
  sent.
- A failure that the steps do not handle ends the conversation: `heard` or `failed` raises it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.requests.metadata import ClusterMetadata, cluster_metadata, metadata_request
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.wire.failures import CannotConnectError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to one broker; `node_id` None means any. The steps are sent the response.

    `at_least` and `at_most` bound the version. Without a request the broker is only connected to. Without
    `timeout_ms` the driver's own timeout applies.
    """

    node_id: int | None
    request: Any
    timeout_ms: int | None = None
    at_least: int = 0
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; the steps are sent the time in milliseconds after that."""

    wait_ms: int


class Now:
    """The steps are sent the present time in milliseconds. The driver never sees this."""


NOW: Final = Now()

Steps: TypeAlias = Generator[Ask | Pause | Now, Any, T]


@dataclass(frozen=True, slots=True)
class Send:
    """A driver's task: connect to `address` if necessary, send the request, wait for the response."""

    address: Address
    ask: Ask


class Conversation(Generic[T]):
    """Runs `steps`; `wants` is the next task for the driver.

    When `wants` is None, `result` is the return value of the steps.
    """

    def __init__(self, known: KnownCluster, steps: Steps[T], now_ms: int) -> None:
        self._steps = _addressed(known, steps)
        self.wants: Send | Pause | None = None
        self.result: T
        self._go_on(None, now_ms)

    def heard(self, response: Any, now_ms: int) -> None:
        """The response to the `Send` that was wanted; anything after a `Pause`."""
        self._go_on(now_ms if isinstance(self.wants, Pause) else response, now_ms)

    def failed(self, failure: Exception, now_ms: int) -> None:
        """There will be no response, because of a ConnectionError, a TimeoutError or a KafkaError."""
        try:
            self._want(self._steps.throw(failure), now_ms)
        except StopIteration as over:
            self._end(over.value)

    def _go_on(self, answer: Any, now_ms: int) -> None:
        try:
            self._want(self._steps.send(answer), now_ms)
        except StopIteration as over:
            self._end(over.value)

    def _want(self, want: Send | Pause | Now, now_ms: int) -> None:
        while isinstance(want, Now):
            want = self._steps.send(now_ms)
        self.wants = want

    def _end(self, result: T) -> None:
        self.wants = None
        self.result = result


def asked(ask: Ask) -> Steps[Any]:
    """The steps of a single question: its response."""
    return (yield ask)


def refreshed(
    known: KnownCluster,
    topics: list[str] | None,
    timeout_ms: int | None = None,
    *,
    may_create: bool = False,
) -> Steps[ClusterMetadata]:
    """Metadata of the named topics, of all (None) or of none; the brokers in it are remembered."""
    response = yield Ask(None, metadata_request(topics, may_create=may_create), timeout_ms)
    metadata = cluster_metadata(response)
    known.learn_brokers(metadata.brokers)
    return metadata


def located(known: KnownCluster, node_id: int, timeout_ms: int | None = None) -> Steps[Address]:
    """The address of a broker. Raises KafkaError(BROKER_NOT_AVAILABLE) if the cluster has no such broker."""
    address = known.address_of(node_id)
    if address is None:
        yield from refreshed(known, [], timeout_ms)
        address = known.address_of(node_id)
    if address is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {node_id} in the cluster")
    return address


# ---- from brokers to addresses

_Addressed: TypeAlias = Generator[Send | Pause | Now, Any, T]


def _addressed(known: KnownCluster, steps: Steps[T]) -> _Addressed[T]:
    """The same steps with an address for each broker."""
    try:
        want = next(steps)
        while True:
            try:
                answer = (yield from _routed(known, want)) if isinstance(want, Ask) else (yield want)
            except (ConnectionError, TimeoutError, KafkaError) as failure:
                want = steps.throw(failure)
            else:
                want = steps.send(answer)
    except StopIteration as over:
        result: T = over.value
        return result


def _routed(known: KnownCluster, ask: Ask) -> _Addressed[Any]:
    if ask.node_id is not None:
        address = yield from _addressed(known, located(known, ask.node_id, ask.timeout_ms))
        return (yield from _sent(known, address, ask))
    failures: list[str] = []
    for address in known.preferred_addresses():
        try:
            response = yield from _sent(known, address, ask)
        except CannotConnectError as failure:
            failures.append(str(failure))
        else:
            known.answered_for_all(address)
            return response
    raise CannotConnectError(known.unreachable(failures))


def _sent(known: KnownCluster, address: Address, ask: Ask) -> _Addressed[Any]:
    """Send to one address, and remember whether an answer came from there."""
    try:
        response = yield Send(address, ask)
    except (CannotConnectError, TimeoutError):
        known.did_not_answer(address)
        raise
    except ConnectionError:
        known.disconnected(address)
        raise
    known.answered(address)
    return response
