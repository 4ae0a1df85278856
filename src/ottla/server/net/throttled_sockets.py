"""Connections of addresses that make too many of them: kept for a while, unread, and then closed (KIP-612).

A client whose connection is closed at once makes the next one at once; one that waits for its answer makes fewer.
"""

import asyncio
from typing import Final

from ottla.runtime.network import Socket
from ottla.runtime.ordered_set import OrderedSet

# A storm must not take all descriptors: beyond this number connections are closed at once.
_MOST_SOCKETS: Final = 1000


class ThrottledSockets:
    """The connections that wait for their end."""

    def __init__(self) -> None:
        self._waiting: OrderedSet[Socket] = OrderedSet()

    def close_later(self, sock: Socket, delay_ms: int) -> None:
        """Close a connection after a delay."""
        if len(self._waiting) >= _MOST_SOCKETS:
            sock.close()
            return
        self._waiting.add(sock)
        asyncio.get_running_loop().call_later(delay_ms / 1000, self._close, sock)

    def close(self) -> None:
        """Close all of them now."""
        for sock in tuple(self._waiting):
            self._close(sock)

    def _close(self, sock: Socket) -> None:
        if sock in self._waiting:
            self._waiting.discard(sock)
            sock.close()
