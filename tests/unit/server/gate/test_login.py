"""The login of a session, and what all logins of a broker share (OPS-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.identity_provider import claims_of, key_file, unsecured

from ottla.config import OauthBearerConfig, SaslConfig
from ottla.errors import ErrorCode
from ottla.runtime.runtime import Runtime
from ottla.security.principal import ANONYMOUS, Principal
from ottla.security.sasl.credentials import Credentials, ScramUsers
from ottla.security.sasl.exchange import AuthenticationError
from ottla.security.sasl.exchange import Login as ProvenLogin
from ottla.security.sasl.oauthbearer import OauthBearerClient
from ottla.server.gate.login import LoginRefusedError, Logins
from ottla.server.gate.session import Session
from ottla.server.gate.signing_keys import SigningKeys

ALICE = b"\0alice\0secret"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def new_logins(in_log: Callable[[], ScramUsers | None] = dict, **config: Any) -> Logins:
    given = {"enabled_mechanisms": ("PLAIN",), "failed_authentication_delay_ms": 0, **config}
    users = {"alice": "secret", "bob": "other"}
    return Logins(SaslConfig(**given), Credentials(users, in_log, b"random"), lambda: 1_000, lambda: "nonce")


def new_session(logins: Logins) -> Session:
    return Session("SASL", "127.0.0.1", 1, login=logins.begin("127.0.0.1", "SASL"))


def test_a_session_is_a_strangers_until_its_login_succeeds() -> None:
    async def test() -> None:
        session = new_session(new_logins())
        assert session.login is not None
        assert (session.must_log_in, session.principal) == (True, ANONYMOUS)
        assert session.login.choose("PLAIN", raw=False) is ErrorCode.NONE
        assert await session.authenticate(ALICE) == (b"", "alice", 0, False)
        assert (session.must_log_in, session.principal) == (False, Principal("User", "alice"))
        assert session.authenticated_until_ms is None

    run(test)


def test_a_session_without_logins_is_never_asked_for_one() -> None:
    assert not Session("PLAINTEXT", "127.0.0.1", 1).must_log_in


def test_a_login_that_has_expired_is_needed_again_and_keeps_the_principal() -> None:
    async def test() -> None:
        session = new_session(new_logins(max_reauth_ms=60_000))
        assert session.login is not None
        session.login.choose("PLAIN", raw=False)
        assert (await session.authenticate(ALICE)).lifetime_ms == 60_000
        assert not session.must_log_in
        session.authenticated_as(session.principal, until_ms=0)
        assert session.must_log_in
        session.login.choose("PLAIN", raw=False)
        with pytest.raises(AuthenticationError, match="as another user"):
            await session.authenticate(b"\0bob\0other")

    run(test)


def test_a_handshake_in_the_middle_or_for_another_mechanism_is_an_error() -> None:
    async def test() -> None:
        login = new_logins().begin("127.0.0.1", "SASL")
        assert login.choose("GSSAPI", raw=False) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert login.choose("PLAIN", raw=True) is ErrorCode.NONE
        assert login.takes_raw_tokens
        assert login.choose("PLAIN", raw=False) is ErrorCode.ILLEGAL_SASL_STATE

    run(test)


@pytest.mark.parametrize(
    ("most_ms", "expires_ms", "lifetime_ms"),
    [(0, None, 0), (500, None, 500), (0, 1_200, 200), (500, 1_200, 200), (100, 1_200, 100), (0, 900, 1)],
)
def test_a_login_counts_until_its_credential_or_the_limit_ends(
    most_ms: int, expires_ms: int | None, lifetime_ms: int
) -> None:
    async def test() -> None:
        logins = new_logins(max_reauth_ms=most_ms)
        assert logins.lifetime_ms(ProvenLogin("alice", expires_ms)) == lifetime_ms

    run(test)


def test_a_user_that_is_not_in_the_settings_waits_for_the_metadata() -> None:
    async def test() -> None:
        loaded: list[ScramUsers] = []
        logins = new_logins(lambda: loaded[0] if loaded else None)
        known, unknown = (logins.begin("127.0.0.1", "SASL") for _ in range(2))
        known.choose("PLAIN", raw=False)
        assert (await known.respond(ALICE)).user == "alice"
        unknown.choose("PLAIN", raw=False)
        waiting = asyncio.ensure_future(unknown.respond(b"\0carol\0secret"))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        loaded.append({})
        logins.users_are_loaded()
        with pytest.raises(AuthenticationError, match="'carol' is unknown"):
            await waiting

    run(test)


def test_clients_that_have_not_logged_in_are_counted_by_address_and_in_all() -> None:
    async def test() -> None:
        logins = new_logins(max_unauthenticated_connections=3, max_unauthenticated_connections_per_ip=2)
        first, second = logins.begin("a", "SASL"), logins.begin("a", "SASL")
        assert "per.ip" in str(logins.refusal("a"))
        assert logins.refusal("b") is None
        logins.begin("b", "SASL")
        assert "3 clients have not logged in" in str(logins.refusal("c"))
        first.close()
        first.close()
        assert logins.refusal("a") is None
        second.choose("PLAIN", raw=False)
        await second.respond(ALICE)
        second.close()
        assert logins.refusal("c") is None

    run(test)


def test_failures_are_one_line_in_an_interval_and_long_names_are_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        logins = new_logins()
        login = logins.begin("127.0.0.1", "SASL")
        for _ in range(1_000):
            with pytest.raises(LoginRefusedError):
                await login.refuse("x" * 10_000)
        assert logins.failed.total == 1_000

    run(test)
    assert 1 <= len(caplog.messages) <= 30  # one a second
    assert all(len(message) < 400 for message in caplog.messages)


def test_a_refused_token_counts_and_is_logged_before_its_client_says_that_it_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        keys = SigningKeys(OauthBearerConfig(jwks_url=key_file(tmp_path)), Runtime())
        config = SaslConfig(enabled_mechanisms=("OAUTHBEARER",), failed_authentication_delay_ms=0)
        logins = Logins(config, Credentials({}, dict, b""), lambda: 1_000, lambda: "nonce", keys)
        logins.start()
        session = new_session(logins)
        assert session.login is not None
        session.login.choose("OAUTHBEARER", raw=False)
        token = OauthBearerClient(unsecured(claims_of())).first()
        assert (await session.authenticate(token)).token == b'{"status":"invalid_token"}'
        assert logins.failed.total == 1
        with pytest.raises(AuthenticationError):
            await session.authenticate(b"\x01")
        with pytest.raises(LoginRefusedError):
            await session.login.refuse("the end")
        assert logins.failed.total == 1
        logins.stop()

    run(test)
    assert "a token with algorithm 'none', which is not accepted" in caplog.text
