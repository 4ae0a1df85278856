"""Who a caller is that shows a certificate: the principal of its subject, as a broker would take it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ottla.config import ConfigError
from ottla.gateway.http.machine.credentials import Login, unauthorized
from ottla.security.tls.certificate import Certificate
from ottla.security.tls.distinguished_name import subject_name
from ottla.security.tls.principal_mapping import MappingError, PrincipalMapping

# The login of a certificate in DER. Raises HttpError(401).
LoginOf = Callable[[bytes], Login]

_REMEMBERED = 1_000


def certificate_logins(mapping_rules: str) -> LoginOf:
    """Reads certificates by the rules of `ssl.principal.mapping.rules`. Raises ConfigError."""
    try:
        mapping = PrincipalMapping(mapping_rules)
    except MappingError as error:
        raise ConfigError(f"ottla.gateway.client.principal.rules cannot be used: {error}.") from error

    @lru_cache(_REMEMBERED)
    def login_of(certificate: bytes) -> Login:
        try:
            name = mapping.name_of(subject_name(Certificate.from_der(certificate)))
        except ValueError as error:
            raise unauthorized(f"the certificate names no user: {error}") from error
        return Login(principal=f"User:{name}")

    return login_of
