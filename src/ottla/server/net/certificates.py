"""The certificate of a broker's TLS listeners: loaded at the start, and again whenever its files change.

A broker does not start with certificates that it cannot use. While it runs, new ones that cannot be used are
logged, and the old ones stay in use. The log says in time that a certificate expires.
"""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.config import ConfigError, TlsConfig
from ottla.runtime.network import Socket
from ottla.runtime.pem_files import Identity, read_identity, stamp_of
from ottla.runtime.tls_context import SSLContext, server_context
from ottla.runtime.tls_socket import READ_BYTES, TlsSocket
from ottla.security.own_certificates import own_certificates
from ottla.security.principal import ANONYMOUS, Principal
from ottla.security.tls.certificate import EXPIRES_SOON, Certificate
from ottla.security.tls.distinguished_name import subject_name
from ottla.security.tls.principal_mapping import MappingError, PrincipalMapping

logger = logging.getLogger(__name__)

_WARN_EVERY: Final = timedelta(days=1)


class Certificates:
    """The TLS of listeners with the same settings. Raises ConfigError, in one sentence, if it cannot be used."""

    def __init__(self, tls: TlsConfig, now_s: float) -> None:
        self._tls = tls
        self._security = own_certificates(tls)
        try:
            self._mapping = PrincipalMapping(tls.principal_mapping_rules)
        except MappingError as error:
            raise ConfigError(f"ssl.principal.mapping.rules cannot be used: {error}.") from error
        self._staging = memoryview(bytearray(READ_BYTES))
        self._stamp = stamp_of(self._security)
        self._warned_at: datetime | None = None
        self._load(now_s)

    def wrapped(self, sock: Socket, protocol: str) -> TlsSocket:
        """TLS over an accepted connection, with the certificate of now. As in Kafka, only clients of SSL are asked
        for a certificate: those of SASL_SSL log in.
        """
        context = self._context if protocol == "SSL" else self._context_of_logins
        return TlsSocket(sock, context, self._staging)

    def principal(self, certificate: bytes | None) -> Principal:
        """Whom a client's certificate is about. Raises ValueError if that is nobody here."""
        if certificate is None:
            return ANONYMOUS
        subject = subject_name(Certificate.from_der(certificate))
        return Principal("User", self._mapping.name_of(subject))

    def check(self, now_s: float) -> None:
        """Load the files again if they changed; log that the certificate expires. Called every few seconds."""
        stamp = stamp_of(self._security)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._load(now_s)
            except ConfigError as error:
                logger.error("the new certificates are not used, the old ones stay: %s", error)
            else:
                logger.info(
                    "new certificates are in use, until %s", self._identity.certificate.not_after.date()
                )
        self._warn_of_expiry(now_s)

    def reload(self, now_s: float, *, only_checks: bool = False) -> None:
        """Load the files now, changed or not, or only see whether they could be. Raises ConfigError if they cannot be
        used; then the old certificates stay.
        """
        stamp = stamp_of(self._security)
        if only_checks:
            self._loaded(now_s)
            return
        self._load(now_s)
        self._stamp = stamp
        logger.info("certificates are loaded again, until %s", self._identity.certificate.not_after.date())

    def _load(self, now_s: float) -> None:
        identity, (self._context, self._context_of_logins) = self._loaded(now_s)
        self._identity = identity
        self._warned_at = None
        if identity.is_readable_by_all:
            logger.warning(
                "the %s holds a private key, and every user of this machine can read it: chmod 600",
                identity.key.place,
            )

    def _loaded(self, now_s: float) -> tuple[Identity, list[SSLContext]]:
        """The certificate in the files, and the contexts of listeners without logins and with."""
        identity = read_identity(self._security)
        if identity is None:
            raise ConfigError(
                "A listener with TLS needs a certificate: set ottla.ssl.certificate.file and ottla.ssl.key.file, or "
                "ssl.keystore.location."
            )
        _refuse_expired(identity, now_s)
        for_logins = replace(self._tls, client_auth="none")
        contexts = [server_context(self._security, tls, identity) for tls in (self._tls, for_logins)]
        return identity, contexts

    def _warn_of_expiry(self, now_s: float) -> None:
        now, not_after = _at(now_s), self._identity.certificate.not_after
        if not_after - now > EXPIRES_SOON:
            return
        if self._warned_at is not None and now - self._warned_at < _WARN_EVERY:
            return
        self._warned_at = now
        if not_after <= now:
            logger.error(
                "the certificate in the %s has expired: clients cannot connect", self._identity.chain.place
            )
        else:
            logger.warning(
                "the certificate of this broker expires in %d days, on %s: replace the %s",
                (not_after - now).days,
                not_after.date(),
                self._identity.chain.place,
            )


def _refuse_expired(identity: Identity, now_s: float) -> None:
    certificate, now = identity.certificate, _at(now_s)
    if certificate.not_after <= now:
        raise ConfigError(
            f"The {identity.chain.place} holds a certificate that expired on {certificate.not_after.date()}: clients would "
            "not accept it."
        )
    if certificate.not_before > now:
        raise ConfigError(
            f"The {identity.chain.place} holds a certificate that is not valid before {certificate.not_before}: check the "
            "clock of this machine."
        )


def _at(now_s: float) -> datetime:
    return datetime.fromtimestamp(now_s, UTC)
