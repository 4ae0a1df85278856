"""A client's login, as a conversation that neither reads nor writes: the asyncio connection and the blocking one
both drive it.

A login that is refused is a KafkaError whose code is not retriable: a password that is wrong now is wrong in a
second, too.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla.runtime.randomness import jitter, new_nonce
from ottla.security.sasl.exchange import AuthenticationError, ClientExchange
from ottla.security.sasl.mechanisms import password_exchange
from ottla.security.sasl.oauthbearer import OauthBearerClient
from ottla.security.settings import Security
from ottla.wire.versions import OfferedVersions

# As Kafka's clients: a session is renewed when this much of its time is over, not by all clients at once.
_RENEWED_AFTER: Final = (0.85, 0.95)
# The version of the handshake after which tokens travel in SaslAuthenticate.
_HANDSHAKE_VERSION: Final = 1


class Question(NamedTuple):
    """A request of a login, and the version to send it in."""

    request: Any
    version: int


Conversation: TypeAlias = Generator[Question, Any, int]


def login(peer: str, security: Security, offered: OfferedVersions, token: str | None = None) -> Conversation:
    """Log in; by OAUTHBEARER with this `token`.

    Yields the questions, is sent the responses, returns how long the login counts in milliseconds; 0 is
    without end.

    Raises KafkaError with SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM or ILLEGAL_SASL_STATE.
    """
    mechanism = str(security.sasl_mechanism)
    offered.common(ApiKey.SASL_HANDSHAKE, at_least=_HANDSHAKE_VERSION)
    version = offered.common(ApiKey.SASL_AUTHENTICATE)
    _check_handshake(peer, mechanism, (yield Question(SaslHandshakeRequest(mechanism), _HANDSHAKE_VERSION)))
    try:
        exchange = _exchange(security, token)
        message: bytes | None = exchange.first()
        while message is not None:
            response: SaslAuthenticateResponse = yield Question(SaslAuthenticateRequest(message), version)
            _check_answer(peer, security, response)
            message = exchange.respond(bytes(response.auth_bytes))
    except AuthenticationError as error:
        raise KafkaError(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"The login to {peer} by {mechanism} failed: {error}."
        ) from None
    return response.session_lifetime_ms


def renewal_s(lifetime_ms: int) -> float:
    """After how many seconds to log in again on a connection whose login counts for `lifetime_ms`."""
    return lifetime_ms / 1000 * jitter(*_RENEWED_AFTER)


def _exchange(security: Security, token: str | None) -> ClientExchange:
    if token is not None:
        return OauthBearerClient(token)
    assert security.username is not None
    assert security.password is not None
    return password_exchange(
        str(security.sasl_mechanism),
        security.username,
        security.password,
        new_nonce(),
        is_token=security.is_delegation_token,
    )


def _check_handshake(peer: str, mechanism: str, response: SaslHandshakeResponse) -> None:
    code = ErrorCode(response.error_code)
    if code is ErrorCode.NONE:
        return
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(response.mechanisms)
        raise KafkaError(code, f"{peer} does not accept logins by {mechanism}; it accepts: {enabled}.")
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        raise KafkaError(
            code,
            f"The listener at {peer} has no logins: connect without SASL, or to the port of a listener with SASL.",
        )
    raise KafkaError(code, f"{peer} refused to begin a login by {mechanism}.")


def _check_answer(peer: str, security: Security, response: SaslAuthenticateResponse) -> None:
    code = ErrorCode(response.error_code)
    if code is ErrorCode.NONE:
        return
    who = "" if security.username is None else f" of user {security.username!r}"
    said = response.error_message or code.name
    raise KafkaError(code, f"{peer} refused the login{who} by {security.sasl_mechanism}: {said}")
