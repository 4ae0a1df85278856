"""What can become of a connection, with an event loop or without one."""

from __future__ import annotations


class CannotConnectError(ConnectionError):
    """No connection could be made; nothing was sent."""


class NobodyListensError(CannotConnectError):
    """The connection was refused: the machine is there, and no process listens. It may have died."""


class ConnectionLostError(ConnectionError):
    """The connection ended. What had been sent may have been carried out, or not."""
