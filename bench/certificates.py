"""One certificate for all brokers of a benchmark: signed by itself, so that clients trust it by itself."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Files(NamedTuple):
    """Where the certificate is, alone and together with its key (P-256, PKCS #8), as Kafka reads it."""

    certificate: Path
    store: Path


def self_signed(directory: Path) -> Files:
    """A certificate for this machine, which counts for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now, hosts = datetime.now(UTC), [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([*hosts, x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    certificate = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    directory.mkdir(parents=True, exist_ok=True)
    files = Files(directory / "broker.pem", directory / "broker-store.pem")
    files.store.touch(mode=0o600)
    files.store.write_bytes(private + certificate)
    files.certificate.write_bytes(certificate)
    return files
