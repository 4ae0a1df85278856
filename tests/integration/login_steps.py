"""The steps of a login, one by one, and users to log in as."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.peer import Peer

import ottla
import ottla.blocking
import ottla.testing
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.model import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.runtime.clock import monotonic_ms
from ottla.security.settings import Security
from ottla.testing import EmbeddedBroker

USERS = {"alice": "Sesame-öffne-dich=,1", "bob": "Another-Secret-2"}
WRONG = "Wrong-Password-3"
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
METADATA = (ApiKey.METADATA, 9, MetadataRequest(topics=[]))


def secured(username: str, password: str, mechanism: Any = "SCRAM-SHA-256") -> Security:
    return Security(protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, username=username, password=password)


async def ask(broker: EmbeddedBroker, security: Security) -> list[str]:
    async with ottla.Admin(broker.bootstrap, security=security) as admin:
        return [topic.name for topic in await admin.list_topics()]


def handshake(peer: Peer, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return peer.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))


def authenticate(peer: Peer, token: bytes, version: int = 2) -> Any:
    return peer.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(token))


def sessions_are_later_by(monkeypatch: pytest.MonkeyPatch, elapsed_ms: int) -> None:
    """From now on, the sessions of brokers in this process find themselves so much older."""
    monkeypatch.setattr("ottla.server.gate.session.monotonic_ms", lambda: monotonic_ms() + elapsed_ms)


def plain_token(user: str) -> bytes:
    return f"\0{user}\0{USERS[user]}".encode()


def log_in(peer: Peer, user: str = "alice", version: int = 2) -> Any:
    assert handshake(peer).error_code == 0
    response = authenticate(peer, plain_token(user), version)
    assert response.error_code == 0
    return response


def blocking_connection(broker: EmbeddedBroker, security: Security) -> BlockingConnection:
    return BlockingConnection(
        Address("127.0.0.1", broker.port),
        client_id="spark",
        timeout_ms=10_000,
        connect_timeout_ms=10_000,
        security=security,
    )
