"""The blocking driver of the client core: it carries out the steps of `cluster.machine` on sockets.

All work happens in the caller's thread. A connection to each broker is opened when first needed, and again
when it was lost or a response is still under way on it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from ottla.client.cluster.backoff import backoff_ms
from ottla.client.cluster.machine.conversation import Ask, Conversation, Pause, Send, Steps
from ottla.client.cluster.machine.known_cluster import CONNECT_TIMEOUT_MS, KnownCluster
from ottla.client.cluster.machine.retries import Inquiry, Patience, settled
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.errors import KafkaError
from ottla.model import Address
from ottla.protocol.declaration import declaration_of
from ottla.security.settings import PLAINTEXT, Security
from ottla.wire.failures import CannotConnectError, ConnectionLostError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class BlockingBrokers:
    """The brokers of one cluster. Used by one thread at a time.

    Leaders and coordinators are remembered until they fail: a question that repeats an earlier one costs one
    round trip.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str,
        timeout_ms: int,
        security: Security = PLAINTEXT,
    ) -> None:
        # No advice to start a broker: Spark's messages say what to check.
        self.known = KnownCluster(bootstrap, remembers_leaders=True, remembers_coordinators=True, advice="")
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        self._connections: dict[Address, BlockingConnection] = {}
        self._begun: tuple[Ask, BlockingConnection] | None = None

    def settle(self, inquiry: Inquiry[K, V, T]) -> dict[K, T | KafkaError]:
        """The outcome of every item of an inquiry, which is repeated for up to `timeout_ms`.

        A cluster of which no broker has ever answered is not waited for: its address may be wrong.
        """
        patience = Patience(self._timeout_ms, backoff_ms, fails_fast=True)
        return self.converse(settled(self.known, inquiry, patience))

    def converse(self, steps: Steps[T]) -> T:
        """Carry out steps of `cluster.machine`. Raises ConnectionError, TimeoutError and KafkaError."""
        conversation = Conversation(self.known, steps, _now_ms())
        while (want := conversation.wants) is not None:
            try:
                response = self._carry_out(want)
            except (ConnectionError, TimeoutError, KafkaError) as failure:
                conversation.failed(failure, _now_ms())
            else:
                conversation.heard(response, _now_ms())
        return conversation.result

    def lacking(self, feature: str) -> list[Address]:
        """The brokers that were asked so far, and do not announce a feature."""
        return [address for address, each in self._connections.items() if not each.supports(feature)]

    def begin(self, ask: Ask) -> None:
        """Send a request ahead: steps that yield this very `ask` next get its response.

        If the request cannot be sent now, it is sent when the steps yield it.
        """
        address = None if ask.node_id is None else self.known.address_of(ask.node_id)
        if address is not None:
            with contextlib.suppress(ConnectionError, TimeoutError, KafkaError):
                connection = self._connection(address)
                connection.begin(ask.request, _version(connection, ask), timeout_ms=ask.timeout_ms)
                self._begun = ask, connection

    def abandon(self) -> None:
        """Forget the request that was sent ahead.

        Its connection is closed: receiving the response costs more than a new connection.
        """
        if self._begun is not None:
            self._begun[1].close()
            self._begun = None

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _carry_out(self, want: Send | Pause) -> Any:
        if isinstance(want, Pause):
            return time.sleep(want.wait_ms / 1000)
        ask, begun = want.ask, self._begun
        if begun is not None and begun[0] is ask:
            self._begun = None
            return begun[1].finish()
        connection = self._connection(want.address)
        return connection.ask(ask.request, _version(connection, ask), timeout_ms=ask.timeout_ms)

    def _connection(self, address: Address) -> BlockingConnection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_idle:
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.close()
            self._connections[address] = connection = self._opened(address)
        return connection

    def _opened(self, address: Address) -> BlockingConnection:
        """Raises CannotConnectError also if the broker accepts and then falls silent: no request was sent."""
        try:
            connection = BlockingConnection(
                address,
                client_id=self._client_id,
                timeout_ms=self._timeout_ms,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                security=self._security,
            )
        except (ConnectionLostError, TimeoutError) as failure:
            raise CannotConnectError(str(failure)) from failure
        self.known.learn_features(connection.features)
        return connection


def _version(connection: BlockingConnection, ask: Ask) -> int:
    api_key = declaration_of(type(ask.request)).key
    return connection.common_version(api_key, at_least=ask.at_least, at_most=ask.at_most)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
