"""Which `Security` a caller's login becomes: callers act as themselves, so the cluster's ACLs and quotas decide.

A login replaces the login of the gateway's own client properties and keeps their TLS. The principal of a certificate
logs in with a token that the gateway has got for it (`certificate_logins`). Without a login a caller acts
with those properties as they are, unless the gateway demands a login: which it does, if it is not told otherwise,
where the properties have a login or a certificate of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.certificate_logins import CertificateLogins
from ottla.gateway.http.machine.credentials import Login, unauthorized
from ottla.security.settings import SaslMechanism, Security

_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Callers:
    """Turns logins into security settings."""

    def __init__(
        self, own: Security, settings: GatewayConfig, certificates: CertificateLogins | None = None
    ) -> None:
        self._own = own
        self.certificates = certificates
        self._requires_login = settings.requires_login
        if self._requires_login is None:
            self._requires_login = own.uses_sasl or own.has_certificate
        self._mechanism = settings.login_mechanism
        if self._mechanism is None and own.sasl_mechanism in _PASSWORD_MECHANISMS:
            self._mechanism = own.sasl_mechanism

    @property
    def takes_logins(self) -> bool:
        """Whether a login of a caller can be used."""
        return self._mechanism is not None or self._own.uses_sasl

    @property
    def requires_login(self) -> bool:
        """Whether callers without a login are refused."""
        return bool(self._requires_login)

    def security_of(self, login: Login | None) -> Security:
        """How this caller reaches the cluster. Raises HttpError(401)."""
        if login is None:
            if self._requires_login:
                raise unauthorized("this gateway demands a login: send an Authorization header")
            return self._own
        if login.principal is not None:
            return self._with_certificate(login.principal)
        if login.token is not None:
            return self._with_token(login.token)
        if self._mechanism is None:
            raise unauthorized(
                "this gateway takes no passwords: it was started without ottla.gateway.login.mechanism"
            )
        return self._with_password(login)

    def _with_certificate(self, principal: str) -> Security:
        assert self.certificates is not None, "nobody is asked for a certificate"
        token = self.certificates.token_of(principal)
        scrams = [
            each for each in (self._own.sasl_mechanism, self._mechanism) if each in _PASSWORD_MECHANISMS[1:]
        ]
        return replace(
            self._own,
            protocol="SASL_SSL" if self._own.uses_tls else "SASL_PLAINTEXT",
            sasl_mechanism=cast(SaslMechanism, scrams[0] if scrams else _PASSWORD_MECHANISMS[1]),
            username=token.token_id,
            password=token.password,
            token=None,
            is_delegation_token=True,
        )

    def _with_password(self, login: Login) -> Security:
        return replace(
            self._own,
            protocol="SASL_SSL" if self._own.uses_tls else "SASL_PLAINTEXT",
            sasl_mechanism=cast(SaslMechanism, self._mechanism),
            username=login.username,
            password=login.password,
            token=None,
        )

    def _with_token(self, token: str) -> Security:
        if not self._own.uses_sasl and self._mechanism is None:
            raise unauthorized("this gateway takes no tokens: its cluster has no logins (security.protocol)")
        return replace(
            self._own,
            protocol="SASL_SSL" if self._own.uses_tls else "SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            username=None,
            password=None,
            token=token,
        )
