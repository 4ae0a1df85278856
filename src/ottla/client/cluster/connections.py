"""A client's connections: one per broker, opened when first needed, opened again when lost.

This is the asyncio driver of the client core: `converse` carries out the steps of `cluster.machine`.

A broker answers the requests of a connection in order, so a caller that must not wait for a long poll or a
parked JoinGroup needs connections of its own: `sibling` has those, and shares the knowledge of the cluster.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ottla.client.calls import arguments
from ottla.client.cluster.backoff import backoff_ms
from ottla.client.cluster.machine.conversation import (
    Ask,
    Conversation,
    Pause,
    Send,
    Steps,
    asked,
    located,
)
from ottla.client.cluster.machine.known_cluster import CONNECT_TIMEOUT_MS, KnownCluster
from ottla.client.cluster.machine.retries import Inquiry, Patience, settled
from ottla.client.cluster.notices import Notices
from ottla.client.requests.metadata import BrokerInfo
from ottla.errors import KafkaError
from ottla.model import Address
from ottla.protocol.declaration import declaration_of
from ottla.runtime.clock import monotonic_ms
from ottla.security.settings import PLAINTEXT, Security
from ottla.wire.connection import CannotConnectError, Connection
from ottla.wire.failures import ConnectionLostError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Connections:
    """Connections to the brokers of one cluster."""

    def __init__(
        self,
        known: KnownCluster,
        *,
        client_id: str,
        timeout_ms: int,
        security: Security = PLAINTEXT,
        notices: Notices | None = None,
    ) -> None:
        self.known = known
        self.notices = notices or Notices(client_id)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        self._open: dict[Address, Connection] = {}
        # One lock for each address: a broker that does not answer must not delay connections to the others.
        self._opening: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    def sibling(self) -> Connections:
        """Other connections to the same cluster, with the same knowledge of its brokers."""
        return Connections(
            self.known,
            client_id=self._client_id,
            timeout_ms=self._timeout_ms,
            security=self._security,
            notices=self.notices,
        )

    async def settle(self, inquiry: Inquiry[K, V, T], timeout_ms: int) -> dict[K, T | KafkaError]:
        """The outcome of every item of an inquiry, which is repeated for up to `timeout_ms`."""
        return await self.converse(settled(self.known, inquiry, Patience(timeout_ms, backoff_ms)))

    async def converse(self, steps: Steps[T]) -> T:
        """Carry out steps of `cluster.machine`. Raises ConnectionError, TimeoutError and KafkaError."""
        conversation = Conversation(self.known, steps, monotonic_ms())
        while (want := conversation.wants) is not None:
            try:
                response = await self._carry_out(want)
            except (ConnectionError, TimeoutError, KafkaError) as failure:
                conversation.failed(failure, monotonic_ms())
            else:
                conversation.heard(response, monotonic_ms())
        return conversation.result

    async def reach(self) -> None:
        """Connect to some broker. Raises CannotConnectError if none can be reached."""
        await self.converse(asked(Ask(None, None)))

    async def to(self, node_id: int) -> Connection:
        """A connection to one broker.

        Raises KafkaError(BROKER_NOT_AVAILABLE) if the cluster has no such broker.
        """
        address = self.known.address_of(node_id)
        if address is None:
            address = await self.converse(located(self.known, node_id))
        return await self._connection(address)

    def learn(self, broker: BrokerInfo) -> None:
        """A broker's response named another one (KIP-951): that one can be asked before the next refresh."""
        self.known.learn_broker(broker)

    def is_open_to(self, node_id: int) -> bool:
        """Whether a request to this broker would go out at once."""
        address = self.known.address_of(node_id)
        connection = None if address is None else self._open.get(address)
        return connection is not None and connection.is_open

    def node_of(self, connection: Connection) -> int:
        """The node id of the broker that a connection leads to; -1 if it is no longer in the cluster."""
        return self.known.node_of(connection.address)

    async def close(self) -> None:
        """Close all connections; none is opened again by itself."""
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            await connection.close()

    async def _carry_out(self, want: Send | Pause) -> Any:
        if isinstance(want, Pause):
            return await asyncio.sleep(want.wait_ms / 1000)
        connection, ask = await self._connection(want.address), want.ask
        if ask.request is None:
            return None
        api_key = declaration_of(type(ask.request)).key
        version = connection.common_version(api_key, at_least=ask.at_least, at_most=ask.at_most)
        async with hanging_up(connection):
            return await connection.ask(ask.request, version, timeout_ms=ask.timeout_ms)

    async def _connection(self, address: Address) -> Connection:
        async with self._opening[address]:
            connection = self._open.get(address)
            if connection is None or not connection.is_open:
                if connection is not None:
                    await connection.close()
                self._open[address] = connection = await self._opened(address)
            return connection

    async def _opened(self, address: Address) -> Connection:
        """Raises CannotConnectError also if the broker accepts and then falls silent: no request was sent."""
        try:
            connection = await Connection.open(
                address.host,
                address.port,
                client_id=self._client_id,
                timeout_ms=min(self._timeout_ms, CONNECT_TIMEOUT_MS),
                security=self._security,
                on_lost=lambda: self.known.disconnected(address),
            )
        except (ConnectionLostError, TimeoutError) as failure:
            raise CannotConnectError(str(failure)) from failure
        self.known.learn_features(connection.features)
        return connection


def connections_to(
    bootstrap_servers: str | Sequence[str],
    client_id: str,
    security: Security | None,
    timeout_ms: int,
    remembers_coordinators: bool = True,
) -> Connections:
    """The connections of a producer or consumer with these arguments, which are checked here."""
    addresses = arguments.addresses("bootstrap_servers", bootstrap_servers)
    return Connections(
        KnownCluster(addresses, remembers_coordinators=remembers_coordinators),
        client_id=arguments.text("client_id", client_id),
        timeout_ms=timeout_ms,
        security=arguments.security_of(security),
    )


@asynccontextmanager
async def hanging_up(connection: Connection) -> AsyncIterator[None]:
    """Close the connection if a request in the block is not answered in time.

    A broker answers in order, so no later request on this connection would be answered in time either.
    """
    try:
        yield
    except TimeoutError:
        await connection.close()
        raise
