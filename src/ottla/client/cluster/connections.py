"""A client's connections: one per broker, opened when first needed, opened again when lost.

The bootstrap addresses are only the way in. Once a broker has answered Metadata, the cluster's own list of brokers
counts, and the bootstrap addresses are the way back in when all of those are gone.

A broker answers the requests of a connection one after the other, so whoever must not wait behind a long poll or a parked
join needs connections of its own: `sibling` has those, and shares what is known of the cluster.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ottla.client.requests.metadata import BrokerInfo, ClusterMetadata, cluster_metadata, metadata_request
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.wire.connection import CannotConnectError, Connection

# One address of several that swallows our packets should not use up all the time there is for the others.
CONNECT_TIMEOUT_MS = 10_000


class Connections:
    """Connections to the brokers of one cluster."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str,
        timeout_ms: int,
        brokers: dict[int, BrokerInfo] | None = None,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._brokers = {} if brokers is None else brokers
        self._open: dict[Address, Connection] = {}
        # Those who were asked for metadata last and did not answer: others are asked first.
        self._silent: set[Address] = set()
        # One for each address: a broker that does not answer must not keep us from the others.
        self._opening: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    def sibling(self) -> Connections:
        """Other connections to the same cluster; both learn when one of them hears of a broker."""
        return Connections(
            self._bootstrap, client_id=self._client_id, timeout_ms=self._timeout_ms, brokers=self._brokers
        )

    async def any(self) -> Connection:
        """A connection to some broker: one that is open, else the first that can be opened."""
        for connection in self._open.values():
            if connection.is_open:
                return connection
        return await self._first_reachable(
            (*(broker.address for broker in self._brokers.values()), *self._bootstrap)
        )

    async def to(self, node_id: int) -> Connection:
        """A connection to one broker. Raises KafkaError(BROKER_NOT_AVAILABLE) if the cluster has no such broker."""
        if node_id not in self._brokers:
            await self.refresh([])
        if node_id not in self._brokers:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {node_id} in the cluster")
        return await self._connection(self._brokers[node_id].address)

    async def refresh(
        self, topics: list[str] | None, timeout_ms: int | None = None, *, may_create: bool = False
    ) -> ClusterMetadata:
        """Ask some broker for metadata (of the named topics, or of all), and remember the brokers it names."""
        connection = await self.any()
        request = metadata_request(topics, may_create=may_create)
        try:
            response: Any = await connection.ask(request, timeout_ms=timeout_ms)
        except TimeoutError:
            self._silent.add(connection.address)
            await connection.close()
            raise
        self._silent.discard(connection.address)
        metadata = cluster_metadata(response)
        self._brokers.clear()
        self._brokers.update((broker.node_id, broker) for broker in metadata.brokers)
        return metadata

    def learn(self, broker: BrokerInfo) -> None:
        """A broker's answer named another one (KIP-951): it can be asked before the next refresh."""
        self._brokers[broker.node_id] = broker

    def is_open_to(self, node_id: int) -> bool:
        """Whether a request to this broker would go out at once."""
        broker = self._brokers.get(node_id)
        connection = None if broker is None else self._open.get(broker.address)
        return connection is not None and connection.is_open

    def node_of(self, connection: Connection) -> int:
        """The number of the broker that a connection leads to; -1 if it is no longer in the cluster."""
        address = connection.address
        found = (broker.node_id for broker in self._brokers.values() if broker.address == address)
        return next(found, -1)

    async def close(self) -> None:
        """Close all of them; none is opened again by itself."""
        connections, self._open = list(self._open.values()), {}
        for connection in connections:
            await connection.close()

    async def _connection(self, address: Address) -> Connection:
        async with self._opening[address]:
            connection = self._open.get(address)
            if connection is None or not connection.is_open:
                if connection is not None:
                    await connection.close()
                self._open[address] = connection = await Connection.open(
                    address.host,
                    address.port,
                    client_id=self._client_id,
                    timeout_ms=min(self._timeout_ms, CONNECT_TIMEOUT_MS),
                )
            return connection

    async def _first_reachable(self, addresses: Iterable[Address]) -> Connection:
        failures: list[str] = []
        for address in sorted(dict.fromkeys(addresses), key=self._silent.__contains__):
            try:
                return await self._connection(address)
            except (ConnectionError, TimeoutError) as error:
                failures.append(str(error))
        hint = "Is the broker running? Start one with: ottla serve"
        raise CannotConnectError(f"{'; '.join(failures)}. {hint}")


@asynccontextmanager
async def hanging_up(connection: Connection) -> AsyncIterator[None]:
    """Close the connection if a request in the block is not answered in time: nothing that comes behind it would be, either."""
    try:
        yield
    except TimeoutError:
        await connection.close()
        raise
