"""Certificates and keys in PEM form, from files or from settings, with a sentence for everything that can be wrong.

OpenSSL says of most mistakes only that something is wrong with some PEM. So the texts are read here first, and
OpenSSL gets them when they look right.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from ottla.config import ConfigError
from ottla.security.settings import Security
from ottla.security.tls.certificate import Certificate, CertificateError, certificates_in

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \1-----")
_LINE_CHARACTERS: Final = 64
_KEY: Final = re.compile(r"-----BEGIN ([A-Z]+ )*PRIVATE KEY-----")
_ENCRYPTED: Final = re.compile(r"-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED")
_BINARY_FORMS: Final = (b"\xfe\xed\xfe\xed", b"\x30\x82")
# Larger than any bundle of authorities.
_MOST_BYTES: Final = 16 << 20

Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Pem:
    """A text in PEM form, and what to call the place that it comes from."""

    text: str = field(repr=False)
    place: str
    path: str | None = None

    @contextlib.contextmanager
    def as_file(self) -> Iterator[str]:
        """The path of a file with this text, for OpenSSL, which reads only files."""
        if self.path is not None:
            yield self.path
            return
        with _private_file(self.text.encode()) as path:
            yield path


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate chain with its key."""

    chain: Pem
    key: Pem
    password: str | None = field(repr=False)
    certificate: Certificate

    @property
    def is_readable_by_all(self) -> bool:
        """Whether every user of this machine can read the key."""
        path = self.key.path
        return path is not None and bool(os.stat(path).st_mode & stat.S_IROTH)


def stamp_of(security: Security) -> Stamp:
    """The state of all files of these settings: it differs when one of them was replaced or written."""
    files = (security.ca_file, security.certificate_file, security.key_file, security.key_password_file)
    return tuple(_stamp(str(path)) for path in files if path is not None)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_identity(security: Security) -> Identity | None:
    """The certificate and the key of these settings; None if there is none. Raises ConfigError."""
    chain = _pem("certificate", security.certificate_file, security.certificate_pem)
    if chain is None:
        return None
    key = _pem("key", security.key_file, security.key_pem) or chain
    if _KEY.search(key.text) is None:
        raise ConfigError(f"The {key.place} holds no private key in PEM form (-----BEGIN PRIVATE KEY-----).")
    password = _password(security)
    if _ENCRYPTED.search(key.text) is not None and not password:
        raise ConfigError(
            f"The private key in the {key.place} is encrypted: set its password (ssl.key.password)."
        )
    return Identity(chain, key, password, _certificates(chain)[0])


def read_trusted(security: Security) -> Pem | None:
    """The authorities that these settings trust; None for those of the system. Raises ConfigError."""
    trusted = _pem("truststore", security.ca_file, security.ca_pem)
    if trusted is not None:
        _certificates(trusted)
    return trusted


def _certificates(pem: Pem) -> list[Certificate]:
    try:
        return certificates_in(pem.text)
    except CertificateError as error:
        raise ConfigError(f"The {pem.place} cannot be used: {error}.") from error


def _pem(what: str, path: str | PurePath | None, text: str | None) -> Pem | None:
    if path is not None:
        return Pem(_read(str(path)), f"file {path}", str(path))
    if text is not None:
        return Pem(_rewrapped(text), f"{what} in the settings")
    return None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigError(
            f"The file {path} cannot be read: {(error.strerror or str(error)).lower()}."
        ) from error
    if data.startswith(_BINARY_FORMS):
        raise ConfigError(
            f"The file {path} is binary (a Java key store, PKCS12 or DER), not PEM: export it, for example with "
            f"`openssl pkcs12 -in {path} -nodes -out broker.pem`."
        )
    return data.decode("utf-8", "replace")


def _password(security: Security) -> str | None:
    if security.key_password_file is None:
        return security.key_password
    lines = _read(str(security.key_password_file)).splitlines()
    return lines[0] if lines else ""


def _rewrapped(text: str) -> str:
    """PEM as OpenSSL reads it: a text in a properties file has spaces where a file has ends of lines."""

    def block(found: re.Match[str]) -> str:
        kind, body = found[1], found[2]
        if ":" in body:  # the older form of encrypted keys, whose headers stand on lines of their own
            return found[0]
        plain = "".join(body.split())
        lines = [plain[at : at + _LINE_CHARACTERS] for at in range(0, len(plain), _LINE_CHARACTERS)]
        return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))

    return _BLOCK.sub(block, text)


@contextlib.contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """A file that no other user can read, in memory where the system has such files."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
