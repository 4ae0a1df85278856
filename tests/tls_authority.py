"""Certificates for tests: an authority that signs what a test asks for, in a directory of its own.

Keys are on elliptic curves, which are made in a millisecond; those of RSA take a tenth of a second and more.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ottla.security.settings import Security

HOSTS = ("localhost", "127.0.0.1")
_DAY = timedelta(days=1)


class Issued(NamedTuple):
    """The files of one certificate."""

    certificate: Path
    key: Path

    def broker_settings(self) -> dict[str, str]:
        """The settings of a broker with this certificate."""
        return {"ottla.ssl.certificate.file": str(self.certificate), "ottla.ssl.key.file": str(self.key)}


class Authority:
    """Signs certificates. `ca_file` is its own."""

    def __init__(self, directory: Path, name: str = "Test Authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = subject(name)
        signed = _builder(self._name, self._name, self._key.public_key(), 3650 * _DAY, -_DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(_pem(signed.sign(self._key, hashes.SHA256())))

    def issue(
        self,
        name: str | x509.Name,
        *,
        hosts: Sequence[str] = HOSTS,
        lifetime: timedelta = 90 * _DAY,
        password: str | None = None,
        file: str | None = None,
    ) -> Issued:
        """A certificate of this subject. A file of the same name is replaced."""
        wanted = subject(name) if isinstance(name, str) else name
        key = ec.generate_private_key(ec.SECP256R1())
        begins = min(-_DAY, lifetime - _DAY)
        built = _builder(wanted, self._name, key.public_key(), lifetime, begins)
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), False)
        stem = file or (name if isinstance(name, str) else "named")
        issued = Issued(self._directory / f"{stem}.pem", self._directory / f"{stem}.key")
        issued.key.touch(mode=0o600)
        issued.key.write_bytes(_key_pem(key, password))
        issued.certificate.write_bytes(_pem(built.sign(self._key, hashes.SHA256())))
        return issued

    def security(self, issued: Issued | None = None) -> Security:
        """The settings of a client that trusts this authority."""
        if issued is None:
            return Security(protocol="SSL", ca_file=self.ca_file)
        return Security(
            protocol="SSL", ca_file=self.ca_file, certificate_file=issued.certificate, key_file=issued.key
        )


def subject(name: str) -> x509.Name:
    """A subject with this common name, of an organisation."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "CZ"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Ottla"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta, begins: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + lifetime)
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    locked: serialization.KeySerializationEncryption = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password.encode())
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
