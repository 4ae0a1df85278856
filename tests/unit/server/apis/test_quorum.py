"""Envelopes: who may speak for somebody else, on a broker without an authoriser."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.config import BrokerConfig
from ottla.controller.commands import OnBehalfOf
from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import SIZE_BYTES, RequestHeader, write_request
from ottla.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.security.principal import Principal
from ottla.security.principal_data import written_principal
from ottla.security.quota.mutations import Asker
from ottla.server.apis.quorum import envelope
from ottla.server.gate.session import Session

CONFIG = BrokerConfig.from_properties(
    {
        "listeners": "CLIENTS://localhost:9092,NODES://localhost:9093,QUORUM://localhost:9094",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,QUORUM:PLAINTEXT",
        "inter.broker.listener.name": "NODES",
        "controller.listener.names": "quorum",
    }
)


class Controller:
    """A quorum that does everything, and remembers for whom."""

    def __init__(self) -> None:
        self.done: list[tuple[type, Asker]] = []

    async def decide(self, command: Any, version: int, asker: Asker) -> Any:
        self.done.append((type(command), asker))
        return CreateDelegationTokenResponse() if isinstance(command, OnBehalfOf) else CreateTopicsResponse()


def sent(request: Any, key: ApiKey, listener: str) -> tuple[int, list[tuple[type, Asker]]]:
    """The answer to an envelope of alice's that came in through a listener, and what was done for whom."""
    frame, controller = bytearray(), Controller()
    write_request(RequestHeader(key, 3, 0, "shop"), request, frame)
    who = written_principal(Principal("User", "alice"))
    asked = EnvelopeRequest(request_data=bytes(frame[SIZE_BYTES:]), request_principal=who)
    session = Session(listener, "10.0.0.7", 4711, client_id="forger")
    services = SimpleNamespace(config=CONFIG, rights=None, quorum=controller)
    context = SimpleNamespace(services=services, session=session)
    answer = asyncio.run(envelope(cast(Any, context), asked))
    return answer.error_code, controller.done


@pytest.mark.parametrize("listener", ["NODES", "QUORUM"])
def test_on_the_listeners_of_nodes_an_envelope_speaks_for_the_client_in_it(listener: str) -> None:
    error, done = sent(CreateDelegationTokenRequest(), ApiKey.CREATE_DELEGATION_TOKEN, listener)
    assert (error, done) == (0, [(OnBehalfOf, Asker("alice", "shop"))])


def test_on_a_listener_of_clients_an_envelope_is_a_request_of_its_sender() -> None:
    error, done = sent(CreateTopicsRequest(), ApiKey.CREATE_TOPICS, "CLIENTS")
    assert (error, done) == (0, [(CreateTopicsRequest, Asker("ANONYMOUS", "forger"))])


def test_on_a_listener_of_clients_no_envelope_asks_for_a_token() -> None:
    error, done = sent(CreateDelegationTokenRequest(), ApiKey.CREATE_DELEGATION_TOKEN, "CLIENTS")
    assert (error, done) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
