"""The other nodes, to be asked: one connection for each node and purpose, opened when it is first needed.

Rules
- A connection answers in order, so a request that may wait at the other side (a long poll) needs a purpose of
  its own, or others wait for it. A purpose is any word.
- Node-to-node requests go out in our newest version unless the caller names one: nothing is negotiated but
  the greeting.
- A node that cannot be reached is not tried again for a moment, which grows; requests in that time fail at
  once.
- After a request that was not answered in time the connection is given up: later ones would wait for it.
- Watchers are called when a connection dies or is refused, and not when it is merely silent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.errors import KafkaError
from ottla.model import Address
from ottla.protocol.apis import api_of
from ottla.protocol.declaration import declaration_of
from ottla.runtime.clock import monotonic_ms
from ottla.security.settings import PLAINTEXT, Security
from ottla.wire.connection import CannotConnectError, Connection, NobodyListensError
from ottla.wire.stream import ConnectionLostError

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.2  # a node that comes back should not be noticed much later

AddressOf = Callable[[int], Address | None]
Watcher = Callable[[int, str], None]


class Peers:
    """Asks other nodes. `address_of` finds a node's address; None if it is not known."""

    def __init__(self, node_id: int, address_of: AddressOf, security: Security = PLAINTEXT) -> None:
        self.client_id = f"broker-{node_id}"
        self._address_of = address_of
        self._security = security
        self._learned: dict[int, Address] = {}
        self._links: dict[tuple[int, str], _Link] = {}
        self._watchers: list[Watcher] = []
        self._is_closed = False
        self._heard_ms: dict[int, int] = {}

    def watch(self, watcher: Watcher) -> None:
        """Be told the id of a node whose connection died, or was refused, and what the connection was for."""
        self._watchers.append(watcher)

    def learn(self, node_id: int, address: Address) -> None:
        """A node says where it is; for nodes that are not known otherwise."""
        self._learned[node_id] = address

    def _find(self, node_id: int) -> Address | None:
        return self._address_of(node_id) or self._learned.get(node_id)

    async def ask(
        self,
        node_id: int,
        request: Any,
        *,
        purpose: str,
        timeout_ms: int,
        version: int | None = None,
        reuses_memory: bool = False,
    ) -> Any:
        """The answer of a node. With `reuses_memory` its records are there until the next question of this
        purpose.

        Raises CannotConnectError if nothing was sent, ConnectionLostError or TimeoutError if the request may
        have been carried out.
        """
        if version is None:
            version = newest_version(request)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        connection = await self._connected(node_id, purpose, timeout_ms)
        if reuses_memory:
            connection.reuse_memory()
        left_ms = max(int((deadline - loop.time()) * 1000), 1)
        try:
            answer = await connection.ask(request, version, timeout_ms=left_ms)
        except TimeoutError:
            await connection.close()
            raise
        self._heard_ms[node_id] = monotonic_ms()
        return answer

    def heard_ms(self, node_id: int) -> int | None:
        """When a node last answered, by the monotonic clock; None if it never did."""
        return self._heard_ms.get(node_id)

    async def is_listening(self, node_id: int, timeout_ms: int) -> bool:
        """Whether a connection to a node is taken, or at least not refused: silence says nothing."""
        address = self._find(node_id)
        if address is None:
            return True
        try:
            connection = await Connection.open(
                address.host,
                address.port,
                client_id=self.client_id,
                timeout_ms=timeout_ms,
                security=self._security,
            )
        except (NobodyListensError, ConnectionLostError):
            return False
        except (OSError, KafkaError):
            return True
        await connection.close()
        return True

    def is_connected(self, node_id: int) -> bool:
        """Whether there is a connection to a node now."""
        return any(link.is_open for (node, _), link in self._links.items() if node == node_id)

    def name_of(self, node_id: int) -> str:
        """A node as people know it."""
        address = self._find(node_id)
        return f"node {node_id}" if address is None else f"node {node_id} ({address})"

    async def close(self) -> None:
        """Close all connections; no further requests are sent."""
        self._is_closed = True
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def _connected(self, node_id: int, purpose: str, timeout_ms: int) -> Connection:
        address = self._find(node_id)
        if address is None or self._is_closed:
            raise CannotConnectError(f"the address of node {node_id} is not known")
        link = self._links.get((node_id, purpose))
        if link is None or link.address != address:
            if link is not None:
                await link.close()
            lost = partial(self._lost, node_id, purpose)
            link = _Link(address, self.client_id, self._security, lost)
            self._links[node_id, purpose] = link
        return await link.connected(timeout_ms)

    def _lost(self, node_id: int, purpose: str) -> None:
        for watcher in self._watchers:
            watcher(node_id, purpose)


class _Link:
    """One connection, opened again when it is gone."""

    def __init__(
        self, address: Address, client_id: str, security: Security, on_lost: Callable[[], None]
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._security = security
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._refusal: CannotConnectError | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._retry_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def connected(self, timeout_ms: int) -> Connection:
        """The connection; callers that ask while it is being opened wait for the same one."""
        connection = self._connection
        if connection is not None and connection.is_open:
            return connection
        loop = asyncio.get_running_loop()
        if self._opening is None:
            if self._refusal is not None and loop.time() < self._retry_at:
                raise CannotConnectError(str(self._refusal))
            self._opening = loop.create_task(self._open(timeout_ms))
            self._opening.add_done_callback(_look_at)
        opening = self._opening
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(opening)
        except TimeoutError:
            raise CannotConnectError(f"could not reach {self.address} within {timeout_ms} ms") from None

    async def close(self) -> None:
        """Close it, and what is being opened."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def _open(self, timeout_ms: int) -> Connection:
        try:
            self._connection = await Connection.open(
                self.address.host,
                self.address.port,
                client_id=self._client_id,
                timeout_ms=timeout_ms,
                security=self._security,
                on_lost=self._on_lost,
            )
        except (OSError, KafkaError) as error:
            # Also a connection that ended during the greeting: nothing but the greeting was sent.
            if isinstance(error, KafkaError) and str(error) != str(self._refusal):
                logger.error("this node cannot log in to another: %s", error)
            self._refuse(CannotConnectError(str(error)))
            if isinstance(error, NobodyListensError):
                self._on_lost()
            raise CannotConnectError(str(error)) from error
        finally:
            self._opening = None
        self._refusal, self._pause_s = None, _FIRST_PAUSE_S
        return self._connection

    def _refuse(self, refusal: CannotConnectError) -> None:
        self._refusal = refusal
        self._retry_at = asyncio.get_running_loop().time() + self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


def _look_at(opening: asyncio.Task[Connection]) -> None:
    """The caller that wanted the connection may have given up by now: retrieve the outcome, since nothing
    else does.
    """
    if not opening.cancelled():
        opening.exception()


def newest_version(request: Any) -> int:
    """The newest version that we speak of a request's API."""
    api = api_of(declaration_of(type(request)).key)
    assert api is not None, f"{type(request).__name__} is not an API of ours"
    return api.max_version
