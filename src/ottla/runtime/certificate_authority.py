"""A certificate authority for clusters that have none: it signs the certificates of brokers and clients.

Keys are on the elliptic curve P-256: they are made in a millisecond, and handshakes with them take a tenth of
the time of RSA. The standard library verifies certificates and makes none, so this module, and no other,
needs the package cryptography. Import it where a certificate is made.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ottla.config import ConfigError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise ConfigError(
        "Certificates are made with the package cryptography, which is not installed: pip install 'ottla[security]'."
    ) from error

ORGANISATION: Final = "Ottla"
# The clocks of machines differ: a certificate that was made a moment ago must be valid on all of them.
_EARLIER: Final = timedelta(hours=1)
_LONGEST_NAME: Final = 64  # of a common name, by X.520


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key, both in PEM form."""

    certificate: str
    key: str = field(repr=False)


class Authority:
    """Signs certificates. `issued` is its own."""

    def __init__(self, issued: Issued) -> None:
        """Raises ConfigError if these are not the certificate and the key of an authority."""
        try:
            self._certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
            key = serialization.load_pem_private_key(issued.key.encode(), None)
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"The certificate or the key of the authority cannot be used: {error}."
            ) from error
        if (
            not isinstance(key, ec.EllipticCurvePrivateKey)
            or key.public_key() != self._certificate.public_key()
        ):
            raise ConfigError("The key of the authority is not that of its certificate.")
        self.issued = issued
        self._key = key

    @staticmethod
    def founded(name: str, now: datetime, lifetime: timedelta) -> Authority:
        """A new authority. It signs for brokers and clients, not for other authorities."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name), _subject(name), key, now, now + lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        return Authority(_issued(builder.sign(key, hashes.SHA256()), key))

    @property
    def not_after(self) -> datetime:
        """When the authority's own certificate expires."""
        return self._certificate.not_valid_after_utc

    def broker(self, name: str, hosts: Sequence[str], now: datetime, lifetime: timedelta) -> Issued:
        """A certificate for a broker: it names the hosts by which the broker is reached, and counts at both
        ends of a connection.
        """
        if not hosts:
            raise ConfigError("The certificate of a broker must name a host: give --host.")
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(name, hosts, usages, now, lifetime)

    def client(self, name: str, now: datetime, lifetime: timedelta) -> Issued:
        """A certificate for a client, whose principal it names."""
        return self._issue(name, (), [ExtendedKeyUsageOID.CLIENT_AUTH], now, lifetime)

    def _issue(
        self,
        name: str,
        hosts: Sequence[str],
        usages: Sequence[x509.ObjectIdentifier],
        now: datetime,
        lifetime: timedelta,
    ) -> Issued:
        if self.not_after <= now:
            raise ConfigError(f"The authority's own certificate expired on {self.not_after.date()}.")
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(now + lifetime, self.not_after)
        builder = _builder(_subject(name), self._certificate.subject, key, now, until)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        return _issued(builder.sign(self._key, hashes.SHA256()), key)


def hosts_in(certificate: str) -> tuple[str, ...]:
    """The hosts that a certificate in PEM form names; none for a client's."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.encode())
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    except ValueError as error:
        raise ConfigError(f"The certificate cannot be read: {error}.") from error
    return tuple(str(each.value) for each in names)


def name_in(certificate: str) -> str:
    """The common name in the subject of a certificate in PEM form."""
    try:
        subject = x509.load_pem_x509_certificate(certificate.encode()).subject
        return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    except (ValueError, IndexError) as error:
        raise ConfigError(f"The certificate cannot be read: {error}.") from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(name: str) -> x509.Name:
    if not 0 < len(name) <= _LONGEST_NAME:
        raise ConfigError(
            f"The name in a certificate must have 1 to {_LONGEST_NAME} characters, not {len(name)}."
        )
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigError(
            f"{name!r} is no name of a host: write names of other alphabets as xn--…."
        ) from error


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(certificate.public_bytes(pem).decode(), secret.decode())
