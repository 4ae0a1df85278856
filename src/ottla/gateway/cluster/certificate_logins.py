"""Callers that show a certificate, as logins of the cluster: by delegation tokens (KIP-48, KIP-373).

TLS ends at the gateway, so the cluster never sees a caller's certificate. The gateway asks for a token whose owner is
the principal of the certificate, and the caller's clients log in with it: the cluster takes them for that principal, and
its access control lists and quotas decide. For this the gateway's own user needs the right to create tokens for these
users, and no other.

A token is renewed when half of its life is over, and ended when nobody has used it for long, or the gateway stops.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from ottla.client.admin.admin import Admin
from ottla.client.requests.delegation_tokens import DelegationToken
from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.http.machine.credentials import unauthorized
from ottla.gateway.http.machine.http_error import HttpError
from ottla.runtime.clock import monotonic_ms
from ottla.security.settings import Security

logger = logging.getLogger(__name__)

CLIENT_ID = "ottla-gateway-certificates"
_STOP_TIMEOUT_S = 10.0
_REFUSED = frozenset(
    {
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
    }
)


@dataclass(slots=True)
class _Held:
    """A token, when it was issued or renewed, and when it was used last."""

    token: DelegationToken
    renewed_ms: int
    used_ms: int

    @property
    def is_half_over(self) -> bool:
        life_ms = self.token.expires_ms - self.token.issued_ms
        return monotonic_ms() - self.renewed_ms > life_ms / 2

    def used(self) -> None:
        self.used_ms = monotonic_ms()

    def renewed(self) -> None:
        self.renewed_ms = monotonic_ms()


class CertificateLogins:
    """The tokens of the callers with certificates: at most `most`, for as long as they are used."""

    def __init__(self, bootstrap: str, own: Security, *, timeout_ms: int, idle_ms: int, most: int) -> None:
        self._bootstrap = bootstrap
        self._own = own
        self._timeout_ms = timeout_ms
        self._idle_ms = idle_ms
        self._most = most
        self._held: dict[str, _Held] = {}
        self._working = asyncio.Lock()
        self._admin: Admin | None = None

    def token_of(self, principal: str) -> DelegationToken:
        """The token of a principal that `admit` was called for. Raises HttpError(503) if it is gone."""
        held = self._held.get(principal)
        if held is None:
            raise HttpError(503, "the login of this certificate has ended: send the request again")
        return held.token

    async def admit(self, principal: str) -> None:
        """Have a token for a principal. Raises HttpError(401), ConnectionError and KafkaError."""
        held = self._held.get(principal)
        if held is None:
            async with self._working:
                held = self._held.get(principal) or await self._new(principal)
        held.used()

    async def sweep(self, in_use: set[str]) -> None:
        """Renew the tokens that are half over, and end those that nobody uses."""
        before_ms = monotonic_ms() - self._idle_ms
        async with self._working:
            for principal, held in list(self._held.items()):
                if (principal not in in_use and held.used_ms < before_ms) or (
                    held.is_half_over and not await self._renew(held) and principal not in in_use
                ):
                    await self._end(principal)

    async def close(self) -> None:
        """End all tokens."""
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S), self._working:
                for principal in list(self._held):
                    await self._end(principal)
        except TimeoutError:
            logger.warning("tokens of %d callers were not ended: they expire", len(self._held))
        if self._admin is not None:
            await self._admin.close()

    async def _new(self, principal: str) -> _Held:
        if len(self._held) >= self._most:
            await self._end(min(self._held, key=lambda each: self._held[each].used_ms))
        try:
            token = await (await self._client()).create_token(owner=principal)
        except KafkaError as error:
            if error.code not in _REFUSED:
                raise
            logger.warning("the gateway may not act for %s: %s", principal, error)
            raise unauthorized(
                f"the certificate is {principal}'s, and the cluster gives this gateway no token for that user "
                f"({error.code.name})"
            ) from error
        now_ms = monotonic_ms()
        held = self._held[principal] = _Held(token, now_ms, now_ms)
        return held

    async def _renew(self, held: _Held) -> bool:
        """Whether the token lives longer now: not beyond its longest life."""
        try:
            expires_ms = await (await self._client()).renew_token(held.token)
        except (KafkaError, OSError) as error:
            logger.warning("the token of %s is not renewed: %s", held.token.owner, error)
            return False
        if expires_ms >= held.token.max_ms:
            return False
        held.renewed()
        return True

    async def _end(self, principal: str) -> None:
        held = self._held.pop(principal)
        try:
            await (await self._client()).expire_token(held.token)
        except (KafkaError, OSError) as error:
            logger.debug("the token of %s is not ended: %s", principal, error)

    async def _client(self) -> Admin:
        if self._admin is None:
            admin = Admin(
                self._bootstrap, client_id=CLIENT_ID, timeout_ms=self._timeout_ms, security=self._own
            )
            self._admin = await admin.__aenter__()
        return self._admin
