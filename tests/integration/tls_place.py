"""A broker with TLS for tests, in the test's process, and peers that speak TLS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.integration.in_process import BrokerThread, broker_thread
from tests.integration.peer import Peer
from tests.tls_authority import Authority

from ottla.localcluster.ports import HOST
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.runtime.tls_context import client_context
from ottla.security.settings import Security

METADATA: Final = (ApiKey.METADATA, 9, MetadataRequest(topics=[]))
LISTENERS: Final = f"PLAINTEXT://{HOST}:0,SSL://{HOST}:0"


class Place:
    """A broker with TLS, and who can reach it."""

    def __init__(self, authority: Authority, broker: BrokerThread) -> None:
        self.authority = authority
        self.broker = broker
        self.alice = authority.issue("alice")
        self.port = tls_port(broker)
        self.address = f"{HOST}:{self.port}"
        self.security = authority.security(self.alice)


def tls_port(broker: BrokerThread) -> int:
    return broker.call(lambda: broker.broker.listeners.port_of("SSL"))


def tls_settings(authority: Authority, **more: str) -> dict[str, str]:
    return {
        "listeners": LISTENERS,
        "ssl.truststore.location": str(authority.ca_file),
        **authority.issue("broker").broker_settings(),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


class TlsPeer(Peer):
    """A peer that speaks TLS."""

    def __init__(self, port: int, security: Security, **options: Any) -> None:
        super().__init__(port, **options)
        self.socket = client_context(security).wrap_socket(self.socket, server_hostname=HOST)


@contextmanager
def place_with_tls(directory: Path, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[Place]:
    """A broker that asks clients for a certificate, and takes those without one."""
    authority = Authority(directory / "certificates")
    settings = {**tls_settings(authority, ssl_client_auth="requested"), **more}
    with broker_thread(directory / "data", settings) as broker:
        yield Place(authority, broker)
