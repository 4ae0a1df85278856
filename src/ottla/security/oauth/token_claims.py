"""Whether the claims of a token are about now, about this cluster, and about whom (RFC 7519, section 4.1).

As in Kafka, a token must say who it is about, when it was issued and when it expires.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from ottla.config import OauthBearerConfig
from ottla.security.sasl.exchange import AuthenticationError, Login

# As long as a user name can be that SCRAM brings in one request by default; ACLs and quotas repeat names.
_MOST_NAME_CHARACTERS: Final = 1024


def login_of(claims: Mapping[str, Any], config: OauthBearerConfig, now_ms: int) -> Login:
    """Who logs in with a token, and until when the token is valid. Raises AuthenticationError."""
    expires_ms = _checked_times(claims, config.clock_skew_seconds * 1000, now_ms)
    _check_issuer(claims, config)
    _check_audience(claims, config)
    _check_scopes(claims, config)
    user = claims.get(config.sub_claim_name)
    if not isinstance(user, str) or not user.strip():
        raise AuthenticationError(f"a token without the claim {config.sub_claim_name}")
    if len(user) > _MOST_NAME_CHARACTERS:
        raise AuthenticationError(f"a token for a user of more than {_MOST_NAME_CHARACTERS} characters")
    return Login(user, expires_ms)


def _checked_times(claims: Mapping[str, Any], skew_ms: int, now_ms: int) -> int:
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    begins_ms = _time_ms(claims, "nbf")
    if expires_ms is None or issued_ms is None:
        raise AuthenticationError(f"a token without the claim {'exp' if expires_ms is None else 'iat'}")
    if now_ms - skew_ms >= expires_ms:
        raise AuthenticationError("a token that has expired")
    if begins_ms is not None and begins_ms > now_ms + skew_ms:
        raise AuthenticationError("a token that is not valid yet")
    return expires_ms


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A century of ten thousand years fits, and the sum with any clock stays a number of Kafka's.
    if not is_number or not isfinite(value) or not 0 <= value < 10**12:
        raise AuthenticationError(f"a token whose claim {name} is no time")
    return int(value * 1000)


def _check_issuer(claims: Mapping[str, Any], config: OauthBearerConfig) -> None:
    if config.expected_issuer is not None and claims.get("iss") != config.expected_issuer:
        raise AuthenticationError("a token of another issuer than sasl.oauthbearer.expected.issuer")


def _check_audience(claims: Mapping[str, Any], config: OauthBearerConfig) -> None:
    if not config.expected_audience:
        return
    named = claims.get("aud")
    audience = named if isinstance(named, list) else [named]
    if not any(each in config.expected_audience for each in audience):
        raise AuthenticationError("a token for another audience than sasl.oauthbearer.expected.audience")


def _check_scopes(claims: Mapping[str, Any], config: OauthBearerConfig) -> None:
    name = config.scope_claim_name
    given = claims.get(name)
    scopes = given.split() if isinstance(given, str) else [] if given is None else given
    if not isinstance(scopes, list) or not all(isinstance(each, str) and each.strip() for each in scopes):
        raise AuthenticationError(f"a token whose claim {name} is no list of scopes")
    if not set(config.required_scopes) <= set(scopes):
        raise AuthenticationError("a token without a scope of ottla.sasl.oauthbearer.required.scopes")
