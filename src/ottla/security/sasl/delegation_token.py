"""A delegation token (KIP-48): a login that a user hands on, by SCRAM with the token's id and HMAC.

The metadata log has everything but the HMAC, which is made from the id by a secret of the brokers: who reads the log
cannot log in.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.security.principal import Principal


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token as the metadata has it. Times are milliseconds since 1970."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def belongs_to(self, principals: Iterable[Principal]) -> bool:
        """Whether one of these is its owner, asked for it, or may renew it."""
        return not {self.owner, self.requester, *self.renewers}.isdisjoint(principals)

    def has_expired(self, now_ms: int) -> bool:
        """Whether the token cannot be used any more."""
        return min(self.expires_ms, self.max_ms) < now_ms


# By their ids.
DelegationTokens = Mapping[str, DelegationToken]


def hmac_of(token_id: str, secret_key: str) -> bytes:
    """The secret half of a token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def password_of(token_hmac: bytes) -> str:
    """What a client logs in with, as password."""
    return b64encode(token_hmac).decode()


class UsableTokens:
    """The tokens that clients can log in with. `in_log` are those of the metadata log, None while not known."""

    def __init__(
        self,
        secret_key: str | None,
        in_log: Callable[[], DelegationTokens | None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._secret_key = secret_key
        self._in_log = in_log
        self._wall_ms = wall_ms

    @property
    def are_known(self) -> bool:
        """Whether the metadata log has been read, or there are no tokens at all."""
        return self._secret_key is None or self._in_log() is not None

    def find(self, token_id: str) -> tuple[DelegationToken, str] | None:
        """A token that has not expired, and the password that goes with it."""
        token = (self._in_log() or {}).get(token_id)
        if self._secret_key is None or token is None or token.has_expired(self._wall_ms()):
            return None
        return token, password_of(hmac_of(token_id, self._secret_key))
