"""The exceptions of a connection, with an event loop or without one."""

from __future__ import annotations


class CannotConnectError(ConnectionError):
    """No connection could be made; nothing was sent."""


class NobodyListensError(CannotConnectError):
    """The connection was refused: the machine answers, but no process listens. The process may have died."""


class ConnectionLostError(ConnectionError):
    """The connection ended. Requests without a response may have been carried out, or not."""
