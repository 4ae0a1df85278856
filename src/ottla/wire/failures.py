"""The exceptions of a connection, with an event loop or without one."""

from __future__ import annotations

from ottla.model import Address
from ottla.security.settings import Security


class CannotConnectError(ConnectionError):
    """No connection could be made; nothing was sent."""


class NobodyListensError(CannotConnectError):
    """The connection was refused: the machine answers, but no process listens. The process may have died."""


class ConnectionLostError(ConnectionError):
    """The connection ended. Requests without a response may have been carried out, or not."""


def check_served(address: Address, security: Security) -> None:
    """Raise CannotConnectError for a security protocol that this client does not speak."""
    if security.sasl_mechanism == "OAUTHBEARER":
        raise CannotConnectError(f"could not reach {address}: OAUTHBEARER is not supported")
