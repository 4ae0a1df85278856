"""Delegation tokens as credentials: which can be used, and the password that goes with each (OPS-5)."""

from __future__ import annotations

import pytest

from ottla.security.principal import Principal
from ottla.security.sasl.credentials import Credentials, UsersNotLoadedError
from ottla.security.sasl.delegation_token import (
    DelegationToken,
    DelegationTokens,
    UsableTokens,
    hmac_of,
    password_of,
)
from ottla.security.sasl.exchange import Login
from ottla.security.sasl.scram import ScramMechanism, has_password

SHA_256, SECRET = ScramMechanism.SCRAM_SHA_256, "The-Secret"
ALICE = Principal("User", "alice")
TOKEN = DelegationToken("id-1", ALICE, ALICE, (), issued_ms=0, max_ms=2_000, expires_ms=1_000)
PASSWORD = password_of(hmac_of("id-1", SECRET))


def credentials(
    now_ms: int = 500,
    in_log: DelegationTokens | None = None,
    secret: str | None = SECRET,
    *,
    known: bool = True,
) -> Credentials:
    tokens = ({TOKEN.token_id: TOKEN} if in_log is None else in_log) if known else None
    return Credentials(
        {"id-1": "of-a-user"}, dict, b"random", UsableTokens(secret, lambda: tokens, lambda: now_ms)
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_is_a_login_of_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    credential, login = credentials().of_token(mechanism, "id-1")
    assert login == Login("alice", 1_000, is_token=True)
    assert has_password(mechanism, credential, PASSWORD)
    assert not has_password(mechanism, credential, "of-a-user")


def test_a_user_of_the_same_name_has_another_password() -> None:
    assert not has_password(SHA_256, credentials().credential(SHA_256, "id-1"), PASSWORD)


@pytest.mark.parametrize(
    "given",
    [credentials(1_001), credentials(in_log={}), credentials(secret=None), Credentials({}, dict, b"random")],
)
def test_a_token_that_cannot_be_used_has_a_credential_that_no_password_fits(given: Credentials) -> None:
    credential, login = given.of_token(SHA_256, "id-1")
    assert not has_password(SHA_256, credential, PASSWORD)
    assert not login.is_token


def test_tokens_wait_for_the_metadata() -> None:
    with pytest.raises(UsersNotLoadedError):
        credentials(known=False).of_token(SHA_256, "id-1")


def test_with_another_secret_a_token_is_void() -> None:
    credential, _ = credentials(secret="Another").of_token(SHA_256, "id-1")
    assert not has_password(SHA_256, credential, PASSWORD)
