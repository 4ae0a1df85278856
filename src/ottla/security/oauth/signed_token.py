"""The claims of a token whose signature is right (RFC 7515, compact form).

The key comes from the key set of the settings and from nowhere else: keys, certificates and addresses of keys
inside the token are not looked at. The algorithm must be one of the key's own, so that `none` and HMAC cannot
occur. No part of a token is repeated in a message, but for the name of its algorithm.
"""

from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry, deserialize_compact

from ottla.security.oauth.json_text import base64url_bytes, json_object
from ottla.security.oauth.key_set import ALGORITHMS, KeySet
from ottla.security.sasl.exchange import AuthenticationError

# Tokens with the groups of a large company have some 20 KiB.
MOST_TOKEN_CHARACTERS: Final = 64 << 10


class _Signatures(JWSRegistry):
    """The library's limits are too small for headers with certificates in them; the token as a whole has one."""

    max_header_length = MOST_TOKEN_CHARACTERS
    max_payload_length = MOST_TOKEN_CHARACTERS


# Header parameters that nobody knows are ignored, as the RFC asks, unless the token calls them critical.
_SIGNATURES: Final = _Signatures(algorithms=ALGORITHMS, strict_check_header=False)


def verified_claims(token: str, keys: KeySet) -> dict[str, Any]:
    """What a token says. Raises AuthenticationError, and UnknownKeyError for a key that is not in the set."""
    if len(token) > MOST_TOKEN_CHARACTERS:
        raise AuthenticationError(f"a token of more than {MOST_TOKEN_CHARACTERS} characters")
    parts = token.split(".")
    if len(parts) != 3:
        raise AuthenticationError(f"a token of {len(parts)} parts instead of 3")
    header = _readable("header", parts[0])
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise AuthenticationError(f"a token with algorithm {algorithm!r}, which is not accepted")
    if not isinstance(key_id, str | None):
        raise AuthenticationError("a token whose key id is no text")
    if "crit" in header:
        raise AuthenticationError("a token with critical extensions, which are not known here")
    key = keys.find(key_id, algorithm)
    try:
        deserialize_compact(token, key.public, registry=_SIGNATURES)
    except (JoseError, ValueError, TypeError):
        raise AuthenticationError("a token with a wrong signature") from None
    return _readable("payload", parts[1])


def _readable(name: str, part: str) -> dict[str, Any]:
    try:
        return json_object(base64url_bytes(part))
    except ValueError:
        raise AuthenticationError(f"a token whose {name} cannot be read") from None
