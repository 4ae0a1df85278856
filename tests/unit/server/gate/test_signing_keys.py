"""The keys of an identity provider: read in time, kept when they cannot be read, and tokens checked by them (OPS-5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.identity_provider import claims_of, ec_key, identity_provider, key_file, key_set, rsa_key, signed
from tests.integration.awaiting import until

from ottla.config import ConfigError, OauthBearerConfig
from ottla.runtime.runtime import Runtime
from ottla.security.sasl.exchange import AuthenticationError, UnknownKeyError
from ottla.server.gate import signing_keys
from ottla.server.gate.signing_keys import SigningKeys

OLD, NEW = rsa_key(), rsa_key("rsa-2")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test(), 30)

    asyncio.run(limited())


@contextmanager
def started(url: str, **config: Any) -> Iterator[SigningKeys]:
    keys = SigningKeys(OauthBearerConfig(jwks_url=url, **config), Runtime())
    keys.start()
    try:
        yield keys
    finally:
        keys.stop()


async def user_of(keys: SigningKeys, token: str) -> str:
    """As a login asks: again, after the keys were read again."""
    while True:
        try:
            return keys.check(token).user
        except UnknownKeyError:
            await keys.read_again()


def test_a_token_that_comes_before_the_keys_waits_for_them(tmp_path: Path) -> None:
    async def test() -> None:
        with started(key_file(tmp_path)) as keys:
            assert await user_of(keys, signed(claims_of("alice"))) == "alice"
            assert await user_of(keys, signed(claims_of("bob"), ec_key(), "ES256")) == "bob"

    run(test)


def test_a_new_key_is_looked_for_when_a_token_has_it_and_not_by_every_token() -> None:
    async def test() -> None:
        with identity_provider() as provider, started(provider.keys_url, retry_backoff_max_ms=1) as keys:
            assert await user_of(keys, signed(claims_of())) == "alice"
            provider.publish(200, key_set(OLD, NEW))
            assert await user_of(keys, signed(claims_of("carol"), NEW)) == "carol"

        with identity_provider() as provider, started(provider.keys_url) as keys:
            for _ in range(50):
                with pytest.raises(AuthenticationError, match="key that is not known"):
                    await user_of(keys, signed(claims_of(), NEW))
            assert provider.requests("/keys") == 1

    run(test)


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (302, b""), (200, b"<html>"), (200, b'{"keys": []}'), (200, b" " * (2 << 20)), (404, b"x")],
)
def test_keys_stay_in_use_while_they_cannot_be_read_again_and_the_log_says_so_once(
    status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        config = {"jwks_refresh_ms": 1, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5}
        with identity_provider() as provider, started(provider.keys_url, **config) as keys:
            await user_of(keys, signed(claims_of()))
            good = provider.keys[1]
            provider.publish(status, body)
            before = provider.requests("/keys")
            await until(lambda: provider.requests("/keys") >= before + 4)
            assert await user_of(keys, signed(claims_of())) == "alice"
            provider.publish(200, good)
            await until(lambda: "could be read again" in caplog.text)

    run(test)
    assert [record.levelname for record in caplog.records if "signing_keys" in record.name] == [
        "ERROR",
        "INFO",
    ]
    assert "the old ones stay in use until they can" in caplog.text


def test_without_any_keys_tokens_are_refused_until_there_are_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        url = (tmp_path / "keys.json").as_uri()
        with started(url, retry_backoff_ms=1, retry_backoff_max_ms=60_000) as keys:
            with pytest.raises(AuthenticationError, match="no keys could be read"):
                await user_of(keys, signed(claims_of()))
            key_file(tmp_path)
            while True:
                try:
                    assert await user_of(keys, signed(claims_of())) == "alice"
                    return
                except AuthenticationError:
                    await asyncio.sleep(0.002)

    run(test)
    assert "no client can log in by OAUTHBEARER until they can: No such file" in caplog.text


def test_a_broker_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigError, match=r"pip install 'ottla\[oauth\]'"):
        signing_keys.SigningKeys(OauthBearerConfig(jwks_url="file:///keys"), Runtime())
