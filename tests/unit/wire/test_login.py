"""A client's login against the server's, without a socket between them (OPS-5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.fake_broker import all_versions

from ottla.config import SaslConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla.security.sasl.credentials import Credentials
from ottla.security.sasl.exchange import AuthenticationError
from ottla.security.settings import Security
from ottla.server.gate.login import Login, Logins
from ottla.wire.login import login, renewal_s
from ottla.wire.versions import OfferedVersions

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OFFERED = OfferedVersions("broker", all_versions())
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


def security(user: str, password: str, mechanism: Any) -> Security:
    return Security(protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, username=user, password=password)


async def conversation(client: Security, server: Login) -> int:
    """The lifetime of the session, once both are satisfied."""
    steps = login("broker", client, OFFERED)
    question = next(steps)
    try:
        while True:
            response: Any
            if isinstance(question.request, SaslHandshakeRequest):
                error = server.choose(question.request.mechanism, raw=False)
                response = SaslHandshakeResponse(error, list(server.config.enabled_mechanisms))
            else:
                response = await _authenticated(server, question.request)
            question = steps.send(response)
    except StopIteration as over:
        assert server.is_done
        return int(over.value)


async def _authenticated(server: Login, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    try:
        reply = await server.respond(bytes(request.auth_bytes))
    except AuthenticationError:
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "No.")
    return SaslAuthenticateResponse(auth_bytes=reply.token, session_lifetime_ms=reply.lifetime_ms)


def log_in(client: Security, users: dict[str, str], config: SaslConfig) -> int:
    async def talk() -> int:
        logins = Logins(config, Credentials(users, dict, b"random"), lambda: 0, lambda: "server")
        return await conversation(client, logins.begin("127.0.0.1", "SASL"))

    return asyncio.run(talk())


@settings(max_examples=40, deadline=None)
@given(user=names, password=names, other=names, mechanism=st.sampled_from(MECHANISMS))
def test_any_user_with_any_password_logs_in_and_with_another_does_not(
    user: str, password: str, other: str, mechanism: str
) -> None:
    config = SaslConfig(enabled_mechanisms=MECHANISMS, max_reauth_ms=7_000)
    assert log_in(security(user, password, mechanism), {user: password}, config) == 7_000
    if other != password:
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
            log_in(security(user, other, mechanism), {user: password}, config)


def answered(client: Security, *responses: Any) -> None:
    steps = login("broker", client, OFFERED)
    next(steps)
    for response in responses:
        steps.send(response)


ALICE = security("alice", "secret", "SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (SaslHandshakeResponse(33, ["PLAIN"]), "does not accept logins by SCRAM-SHA-256; it accepts: PLAIN"),
        (SaslHandshakeResponse(34), "has no logins: connect without SASL"),
        (SaslHandshakeResponse(-1), "refused to begin a login by SCRAM-SHA-256"),
    ],
)
def test_a_refused_handshake_says_what_to_do(response: SaslHandshakeResponse, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        answered(ALICE, response)
    assert refused.value.code == response.error_code
    assert not refused.value.code.retriable


def test_a_server_that_does_not_know_the_password_either_is_not_trusted() -> None:
    with pytest.raises(KafkaError, match="the server's nonce does not begin with the client's"):
        answered(
            ALICE, SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"r=x,s=c2FsdA==,i=4096")
        )


def test_a_broker_too_old_for_logins_in_requests_is_refused_before_a_token_is_sent() -> None:
    old = OfferedVersions("broker", ApiVersionsResponse())
    with pytest.raises(KafkaError, match="does not serve SASL_HANDSHAKE"):
        next(login("broker", ALICE, old))


def test_a_session_is_renewed_when_most_of_its_time_is_over() -> None:
    for _ in range(100):
        assert 8.5 <= renewal_s(10_000) <= 9.5
