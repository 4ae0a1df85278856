"""Where the token of a login comes from: a text, a function, a file, a token endpoint (OPS-5)."""

from __future__ import annotations

import asyncio
import pickle
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider

from ottla.errors import KafkaError
from ottla.model import Address
from ottla.security.settings import Security
from ottla.security.token_endpoint import TokenEndpoint
from ottla.wire.failures import CannotConnectError
from ottla.wire.oauth_tokens import fresh_token, fresh_token_now

BROKER = Address("broker", 9092)


def secured(token: Any) -> Security:
    return Security(protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token=token)


def both(token: Any) -> list[str | None]:
    """The token by both ways to connect."""
    security = secured(token)
    return [fresh_token_now(BROKER, security), asyncio.run(fresh_token(BROKER, security, 30_000))]


async def coroutine_function() -> str:
    await asyncio.sleep(0)
    return "of-async"


def test_a_token_is_a_text_or_what_a_function_returns() -> None:
    assert both("a.b.c") == ["a.b.c", "a.b.c"]
    assert both(lambda: "fresh") == ["fresh", "fresh"]
    assert both(coroutine_function) == ["of-async", "of-async"]


def test_a_function_is_asked_for_every_login() -> None:
    tokens = iter(["one", "two"])
    assert both(lambda: next(tokens)) == ["one", "two"]


@pytest.mark.parametrize("token", [lambda: None, lambda: b"bytes", lambda: 1 / 0])
def test_a_function_that_returns_no_token_is_an_error_without_its_words(token: Any) -> None:
    calls: list[Callable[[], str]] = [
        lambda: fresh_token_now(BROKER, secured(token)),
        lambda: asyncio.run(fresh_token(BROKER, secured(token), 30_000)),
    ]
    for call in calls:
        with pytest.raises(KafkaError, match="There is no token for the login at broker:9092") as refused:
            call()
        assert "division" not in str(refused.value)


def test_a_function_that_takes_too_long_is_not_waited_for() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return "late"

    with pytest.raises(CannotConnectError, match="no token within 10 ms"):
        asyncio.run(fresh_token(BROKER, secured(never), 10))


def test_a_token_in_a_file_is_read_for_every_login(tmp_path: Path) -> None:
    file = tmp_path / "token with spaces"
    file.write_text("first\n")
    endpoint = TokenEndpoint(file.as_uri())
    assert both(endpoint) == ["first", "first"]
    file.write_text("second")
    assert both(endpoint) == ["second", "second"]
    file.unlink()
    with pytest.raises(CannotConnectError, match="No such file"):
        both(endpoint)


def endpoint_of(provider: IdentityProvider, **more: Any) -> TokenEndpoint:
    return TokenEndpoint(provider.token_url, CLIENT_ID, CLIENT_SECRET, **more)


def test_an_endpoint_is_asked_once_while_its_token_is_fresh() -> None:
    with identity_provider() as provider:
        endpoint = endpoint_of(provider, scope="kafka read")
        first, second = both(endpoint)
        assert first == second
        ((_, authorization, body),) = provider.asked
        who = f"{quote_plus(CLIENT_ID)}:{quote_plus(CLIENT_SECRET)}"
        assert authorization == f"Basic {b64encode(who.encode()).decode()}"
        assert body == b"grant_type=client_credentials&scope=kafka+read"
        copy = pickle.loads(pickle.dumps(secured(endpoint)))
        assert copy == secured(endpoint)
        assert str(first).encode() not in pickle.dumps(secured(endpoint))
        fresh_token_now(BROKER, copy)
        assert provider.requests("/token") == 2


def test_a_token_of_unknown_life_is_not_kept() -> None:
    with identity_provider() as provider:
        provider.answer_tokens(200, b'{"access_token": "t"}')
        assert both(endpoint_of(provider)) == ["t", "t"]
        assert provider.requests("/token") == 2


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (
            401,
            b'{"error": "invalid_client"}',
            KafkaError,
            r"refused it \(invalid_client\): it answered with status 401",
        ),
        (400, b"<html>secret</html>", KafkaError, "refused it: it answered with status 400"),
        (302, b"", KafkaError, "status 302"),
        (503, b"", CannotConnectError, "status 503"),
        (200, b"", KafkaError, "not JSON"),
        (200, b'{"access_token": 5}', KafkaError, "no access_token"),
        (200, b" " * (2 << 20), CannotConnectError, "more than"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_an_error_without_a_secret(
    status: int, body: bytes, error: type[Exception], said: str
) -> None:
    with identity_provider() as provider:
        provider.answer_tokens(status, body)
        with pytest.raises(error, match=said) as refused:
            both(endpoint_of(provider))
        assert "ecret" not in str(refused.value)


def test_an_endpoint_that_nobody_serves_can_be_tried_again() -> None:
    with identity_provider() as provider:
        endpoint = TokenEndpoint(provider.token_url + "?key=hidden", CLIENT_ID, CLIENT_SECRET)
    with pytest.raises(CannotConnectError, match="it cannot be reached") as refused:
        both(endpoint)
    assert "hidden" not in str(refused.value)
