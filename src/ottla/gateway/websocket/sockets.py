"""All open WebSockets of this gateway: their number has a limit, and a stop tells each of them."""

from __future__ import annotations

import asyncio

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.message import Request
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.http.web_socket import WebSocket
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.gateway.websocket.conversation import Conversation, Translate

_TRY_LATER = 1013
_PATHS = {
    "/ws": "A WebSocket: subscribe, ack, produce and more, in JSON messages.",
    "/consume": "The same WebSocket under the name that consumers expect.",
}


class Sockets:
    """Serves the routes of WebSockets."""

    def __init__(
        self, pool: ClientPool, settings: GatewayConfig, decoder: ValueDecoder, translate: Translate
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._decoder = decoder
        self._translate = translate
        self._open: set[Conversation] = set()

    def __len__(self) -> int:
        return len(self._open)

    def routes(self) -> tuple[Route, ...]:
        return tuple(
            Route(
                "GET",
                path,
                self._serve,
                summary,
                "websocket",
                status=101,
                problems=(403, 426),
                is_socket=True,
            )
            for path, summary in _PATHS.items()
        )

    async def close(self) -> None:
        """The gateway stops."""
        if self._open:
            await asyncio.gather(*(each.stop() for each in list(self._open)))

    async def _serve(self, request: Request, socket: WebSocket) -> None:
        limit = self._settings.max_sockets
        if len(self._open) >= limit:
            await socket.close(_TRY_LATER, f"{limit} WebSockets are open (ottla.gateway.max.sockets)")
            return
        conversation = Conversation(
            socket, self._pool, self._settings, self._decoder, self._translate, request.login
        )
        self._open.add(conversation)
        try:
            await conversation.run()
        finally:
            self._open.discard(conversation)
