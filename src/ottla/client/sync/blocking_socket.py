"""A connected socket that blocks, with or without TLS, for one thread that waits for large responses.

Both kinds raise BlockingIOError when the other side is silent for longer than the limit.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any, Final, Protocol

from ottla.model import Address
from ottla.security.settings import Security
from ottla.wire.failures import CannotConnectError
from ottla.wire.socket_errors import reason
from ottla.wire.tls import CLOSED_IN_HANDSHAKE, tls_context

_TIMEVAL: Final = Struct("@ll")


class BlockingSocket(Protocol):
    """A connected socket."""

    def limit(self, timeout_ms: int) -> None:
        """Raise BlockingIOError when a wait for bytes takes longer."""

    def sendall(self, data: Any, /) -> None:
        """Send all of it."""

    def receive(self, room: memoryview) -> None:
        """Fill the room. ConnectionResetError if the other side closes before."""

    def close(self) -> None:
        """Close at once."""


def connected(address: Address, timeout_ms: int, security: Security) -> BlockingSocket:
    """A socket that is connected, after the handshake if there is TLS. Raises CannotConnectError."""
    context = tls_context(address, security) if security.uses_tls else None
    made: socket.socket | None = None
    try:
        made = socket.create_connection((address.host, address.port), timeout_ms / 1000)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return PlainSocket(made)
        return TlsSocket(context.wrap_socket(made, server_hostname=address.host))
    except (OSError, UnicodeError) as error:
        if made is not None:
            made.close()
        why = reason(error)
        if context is not None and isinstance(error, ConnectionResetError):
            why = f"{CLOSED_IN_HANDSHAKE} ({why})"
        raise CannotConnectError(f"could not reach {address}: {why}") from error


class PlainSocket:
    """TCP. The kernel watches the time and joins the pieces of a response: a socket with a timeout of Python's
    never blocks, and would return for every piece.
    """

    __slots__ = ("_socket", "close", "sendall")

    def __init__(self, made: socket.socket) -> None:
        made.settimeout(None)
        self._socket = made
        self.sendall = made.sendall
        self.close = made.close

    def limit(self, timeout_ms: int) -> None:
        seconds, rest_ms = divmod(timeout_ms, 1000)
        limit = _TIMEVAL.pack(seconds, rest_ms * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def receive(self, room: memoryview) -> None:
        size, received = len(room), 0
        while received < size:
            got = self._socket.recv_into(room[received:], size - received, socket.MSG_WAITALL)
            if not got:
                raise ConnectionResetError("it hung up")
            received += got


class TlsSocket:
    """TLS over TCP. OpenSSL takes no flags and does not heed the kernel's time limits; Python's limits hold for
    each record.
    """

    __slots__ = ("_socket", "close")

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self.close = made.close

    def limit(self, timeout_ms: int) -> None:
        self._socket.settimeout(timeout_ms / 1000)

    def sendall(self, data: Any, /) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise BlockingIOError from None

    def receive(self, room: memoryview) -> None:
        received = 0
        try:
            while received < len(room):
                got = self._socket.recv_into(room[received:])
                if not got:
                    raise ConnectionResetError("it hung up")
                received += got
        except TimeoutError:
            raise BlockingIOError from None
