"""What a connection needs to speak TLS; OpenSSL is loaded by the first connection that does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.config import ConfigError
from ottla.model import Address
from ottla.security.settings import Security
from ottla.wire.failures import CannotConnectError

if TYPE_CHECKING:
    from ottla.runtime.tls_context import SSLContext

CLOSED_IN_HANDSHAKE: Final = (
    "it closed the connection during the TLS handshake: it may not speak TLS (protocol PLAINTEXT), or ask for a "
    "client certificate"
)


def tls_context(address: Address, security: Security) -> SSLContext:
    """OpenSSL's context for these settings. CannotConnectError, in one sentence, if its files cannot be used."""
    from ottla.runtime.tls_context import client_context

    try:
        return client_context(security)
    except ConfigError as error:
        raise CannotConnectError(f"could not reach {address}: {error}") from error


def tls_options(address: Address, security: Security) -> dict[str, Any]:
    """The arguments of `loop.create_connection` for TLS. The caller limits the time of the handshake."""
    return {"ssl": tls_context(address, security), "server_hostname": address.host}
