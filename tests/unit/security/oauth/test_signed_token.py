"""Signatures of tokens: what is accepted, and the attacks that are not (OPS-5)."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.identity_provider import claims_of, ec_key, key_set, rsa_key, signed, unsecured

from ottla.security.oauth.key_set import read_key_set
from ottla.security.oauth.signed_token import MOST_TOKEN_CHARACTERS, verified_claims
from ottla.security.sasl.exchange import AuthenticationError, UnknownKeyError

P384, P521 = ec_key("ec-384", "P-384"), ec_key("ec-521", "P-521")
KEYS = read_key_set(key_set(rsa_key(), ec_key(), P384, P521))
CLAIMS = claims_of(now_s=1_000)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        *((rsa_key(), name) for name in ("RS256", "RS384", "RS512")),
        (ec_key(), "ES256"),
        (P384, "ES384"),
        (P521, "ES512"),
    ],
)
def test_a_signed_token_says_its_claims(key: object, algorithm: str) -> None:
    assert verified_claims(signed(CLAIMS, key, algorithm), KEYS) == CLAIMS


def test_header_parameters_that_nobody_knows_are_ignored() -> None:
    token = signed(
        CLAIMS, typ="at+jwt", nonce="1", x5c=["A" * 4000], jwk=rsa_key("evil").as_dict(private=False)
    )
    assert verified_claims(token, KEYS) == CLAIMS


def confused() -> str:
    """A token with an HMAC whose secret is the public key."""
    token = unsecured(CLAIMS, "HS256", kid="rsa-1")
    secret = rsa_key().as_pem(private=False)
    signature = hmac.digest(secret, token[:-1].encode(), "sha256")
    return unsecured(CLAIMS, "HS256", _base64(signature), kid="rsa-1")


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _as_token(header: bytes) -> str:
    """Any bytes as the header of a token."""
    return f"{_base64(header)}.e30.e30"


def tampered() -> str:
    header, _, signature = signed(CLAIMS).split(".")
    return ".".join((header, _base64(json.dumps({**CLAIMS, "sub": "admin"}).encode()), signature))


@pytest.mark.parametrize(
    "token",
    [
        unsecured(CLAIMS),
        unsecured(CLAIMS, "None", kid="rsa-1"),
        unsecured(CLAIMS, None),
        unsecured(CLAIMS, ["RS256"], kid="rsa-1"),
        confused(),
        signed(CLAIMS, algorithm="PS256"),
        signed(CLAIMS, rsa_key("other"), kid="rsa-1"),
        signed(CLAIMS, rsa_key("other"), kid="rsa-1", jwk=rsa_key("other").as_dict(private=False)),
        signed(CLAIMS, crit=["exp"], exp=1),
        signed(CLAIMS, crit=["b64"], b64=True),
        tampered(),
        signed(CLAIMS)[:-4],
        signed(CLAIMS).rpartition(".")[0] + ".",
        signed(CLAIMS) + "A" * 2000,
        signed(b"[]"),
        signed(b"\xff"),
        signed(b'{"a":' * 9000),
        unsecured(CLAIMS, "ES256", "AAAA", kid="ec-1"),
        unsecured(CLAIMS, "RS256", "AAAA", kid=5),
        "",
        "..",
        "a.b",
        "a.b.c.d",
        "e30.e30.e30",
        "A" * 1000,
        "e30=.e30.e30",
        _base64(b'{"alg":"RS256","n":' + b"9" * 5000 + b"}") + ".e30.",
    ],
)
def test_every_other_token_is_refused(token: str) -> None:
    with pytest.raises(AuthenticationError) as refused:
        verified_claims(token, KEYS)
    assert len(str(refused.value)) < 100


def test_a_huge_token_is_refused_before_it_is_read() -> None:
    with pytest.raises(AuthenticationError, match="more than"):
        verified_claims("A" * (MOST_TOKEN_CHARACTERS + 1), KEYS)
    large = signed({**CLAIMS, "groups": ["g" * 100] * 400})
    assert verified_claims(large, KEYS)["sub"] == "alice"


def test_a_token_with_a_key_of_another_set_asks_for_newer_keys() -> None:
    with pytest.raises(UnknownKeyError):
        verified_claims(signed(CLAIMS, rsa_key("rsa-2")), KEYS)


@given(
    st.one_of(
        st.text("eyJ0.-_AQ=", max_size=200), st.binary(max_size=100).map(_as_token), st.text(max_size=50)
    )
)
def test_no_text_is_anything_but_refused(token: str) -> None:
    with pytest.raises((AuthenticationError, UnknownKeyError)):
        verified_claims(token, KEYS)
