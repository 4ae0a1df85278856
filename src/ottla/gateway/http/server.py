"""The listener: its connections, their limit, and the graceful stop."""

from __future__ import annotations

import asyncio
import ssl

from ottla.config.gateway import GatewayConfig
from ottla.gateway.http.connection import HttpConnection
from ottla.gateway.http.dispatch import Dispatch


class HttpServer:
    """Accepts connections until it is stopped."""

    def __init__(self, dispatch: Dispatch, settings: GatewayConfig) -> None:
        self._dispatch = dispatch
        self._settings = settings
        self._server: asyncio.Server | None = None
        self._connections: set[HttpConnection] = set()
        # A connection that is gone may still have work: the end of a subscription commits, and leaves its group.
        self._work: set[asyncio.Task[None]] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self.is_stopping = False

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen, and return the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        is_tls = context is not None
        self._server = await loop.create_server(
            lambda: HttpConnection(self, self._dispatch, self._settings, is_tls=is_tls),
            host or None,
            port,
            ssl=context,
            ssl_handshake_timeout=self._settings.head_timeout_ms / 1000 if is_tls else None,
            backlog=1024,
        )
        return int(self._server.sockets[0].getsockname()[1])

    def joined(self, connection: HttpConnection) -> bool:
        """A connection came. Returns whether there is a place for it."""
        self._connections.add(connection)
        self._is_empty.clear()
        return not self.is_stopping and len(self._connections) <= self._settings.max_connections

    def works(self, task: asyncio.Task[None]) -> None:
        """A connection's work; a stop waits for it, also after the connection is gone."""
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def left(self, connection: HttpConnection) -> None:
        """A connection is gone, and its socket closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def stop_accepting(self) -> None:
        """From now on answers end their connections, and no new connection is accepted."""
        self.is_stopping = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close_if_idle()

    async def stop(self, timeout_ms: float) -> None:
        """Wait for the requests under way, and end the connections that are left after `timeout_ms`."""
        self.stop_accepting()
        if self._work:
            await asyncio.wait(set(self._work), timeout=timeout_ms / 1000)
        for connection in list(self._connections):
            connection.abort()
        while self._work:
            await asyncio.wait(set(self._work))
        await self._is_empty.wait()
