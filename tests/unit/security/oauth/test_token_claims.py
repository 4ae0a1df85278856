"""Claims of tokens: times, issuer, audience, scopes, and the user (OPS-5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.identity_provider import AUDIENCE, ISSUER, claims_of

from ottla.config import OauthBearerConfig
from ottla.security.oauth.token_claims import login_of
from ottla.security.sasl.exchange import AuthenticationError, Login

NOW_S = 1_000_000
NOW_MS = NOW_S * 1000
CONFIG = OauthBearerConfig(
    expected_audience=("other", AUDIENCE),
    expected_issuer=ISSUER,
    clock_skew_seconds=30,
)


def login(config: OauthBearerConfig = CONFIG, **claims: Any) -> Login:
    return login_of(claims_of(now_s=NOW_S, **claims), config, NOW_MS)


def test_the_user_is_the_subject_until_the_token_expires() -> None:
    assert login() == Login("alice", NOW_MS + 300_000)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", AUDIENCE]},
        {"nbf": NOW_S + 30},
        {"exp": NOW_S - 29},
        {"exp": NOW_S + 0.5},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"scope": ""},
    ],
)
def test_a_token_is_accepted(claims: dict[str, Any]) -> None:
    assert login(**claims).user == "alice"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW_S - 30}, "expired"),
        ({"exp": 0}, "expired"),
        ({"exp": None}, "without the claim exp"),
        ({"iat": None}, "without the claim iat"),
        ({"exp": "tomorrow"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": -1}, "exp is no time"),
        ({"exp": 1e400}, "exp is no time"),
        ({"exp": float("nan")}, "exp is no time"),
        ({"exp": 10**300}, "exp is no time"),
        ({"iat": []}, "iat is no time"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"nbf": {}}, "nbf is no time"),
        ({"iss": None}, "issuer"),
        ({"iss": ISSUER + "/"}, "issuer"),
        ({"aud": None}, "audience"),
        ({"aud": "kafka2"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": [["kafka"]]}, "audience"),
        ({"aud": {"kafka": 1}}, "audience"),
        ({"sub": None}, "without the claim sub"),
        ({"sub": " "}, "without the claim sub"),
        ({"sub": 5}, "without the claim sub"),
        ({"sub": "a" * 1025}, "more than 1024"),
        ({"scope": 5}, "no list of scopes"),
        ({"scope": [""]}, "no list of scopes"),
        ({"scope": ["a", 1]}, "no list of scopes"),
    ],
)
def test_a_token_is_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(AuthenticationError, match=why):
        login(**claims)


def test_the_claims_for_user_and_scopes_can_have_other_names() -> None:
    config = OauthBearerConfig(
        sub_claim_name="azp", scope_claim_name="scp", required_scopes=("read", "write")
    )
    assert login(config, azp="billing", scp="write read more").user == "billing"
    for scopes in ("read", ["write"], None):
        with pytest.raises(AuthenticationError, match="without a scope"):
            login(config, azp="billing", scp=scopes)


def test_without_settings_any_issuer_and_audience_is_accepted() -> None:
    assert login(OauthBearerConfig(), iss=None, aud=None).user == "alice"
