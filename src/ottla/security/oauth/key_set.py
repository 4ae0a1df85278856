"""The keys that tokens are signed with, from a JSON Web Key Set (RFC 7517).

Only public RSA keys and keys on the curves of NIST are taken. A shared secret (`oct`) is never a key here: whoever
could check with it could also sign, and a token that is "signed" with a public key as such a secret is the oldest
attack on JSON Web Tokens. Keys that cannot be used are left out, as providers publish keys for other purposes, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from ottla.security.oauth.json_text import base64url_bytes, json_object
from ottla.security.sasl.exchange import AuthenticationError, UnknownKeyError

_RSA: Final = ("RS256", "RS384", "RS512")
_BY_CURVE: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
ALGORITHMS: Final = (*_RSA, *(name for names in _BY_CURVE.values() for name in names))
# The parameters of public keys: a private one in the set is not taken over.
_RSA_PARAMETERS: Final = ("kty", "n", "e")
_EC_PARAMETERS: Final = ("kty", "crv", "x", "y")
# Shorter ones are not considered safe (RFC 7518, section 3.3). Longer ones would make a login expensive.
_LEAST_RSA_BITS: Final = 2048
_MOST_RSA_BITS: Final = 16384


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key, its id, and the algorithms that it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    public: RSAKey | ECKey


class KeySet:
    """The usable keys of a set."""

    def __init__(self, keys: Iterable[SigningKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> SigningKey:
        """The key that a token names; without a name, the only one for its algorithm.

        Raises UnknownKeyError, or AuthenticationError if the token cannot be signed with any key.
        """
        named = [key for key in self._keys if key_id is None or key.key_id == key_id]
        if not named:
            raise UnknownKeyError
        fitting = [key for key in named if algorithm in key.algorithms]
        if not fitting:
            raise AuthenticationError(f"a token with algorithm {algorithm}, which its key is not for")
        if len(fitting) > 1:
            raise AuthenticationError("a token that does not say which of several keys it is signed with")
        return fitting[0]


def read_key_set(data: bytes) -> KeySet:
    """The usable keys in the text of a key set. ValueError, in words, if there is none."""
    listed = json_object(data).get("keys")
    if not isinstance(listed, list):
        raise ValueError("it is no JSON Web Key Set: there is no list of keys in it")
    keys = KeySet(key for each in listed if (key := _signing_key(each)) is not None)
    if not len(keys):
        raise ValueError("it has no RSA or EC key for signatures")
    return keys


def _signing_key(entry: Any) -> SigningKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    key_id = entry.get("kid")
    if not isinstance(key_id, str | None):
        return None
    try:
        found = _rsa_key(entry) if entry.get("kty") == "RSA" else _ec_key(entry)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if found is None:
        return None
    public, algorithms = found
    meant = entry.get("alg")
    fitting = algorithms if meant is None else tuple(name for name in algorithms if name == meant)
    return SigningKey(key_id, fitting, public) if fitting else None


def _rsa_key(entry: dict[str, Any]) -> tuple[RSAKey, tuple[str, ...]] | None:
    bits = int.from_bytes(base64url_bytes(entry["n"])).bit_length()
    if not _LEAST_RSA_BITS <= bits <= _MOST_RSA_BITS:
        return None
    return RSAKey.import_key({name: entry[name] for name in _RSA_PARAMETERS}), _RSA


def _ec_key(entry: dict[str, Any]) -> tuple[ECKey, tuple[str, ...]] | None:
    if entry.get("kty") != "EC" or entry.get("crv") not in _BY_CURVE:
        return None
    return ECKey.import_key({name: entry[name] for name in _EC_PARAMETERS}), _BY_CURVE[entry["crv"]]
