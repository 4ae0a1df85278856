"""OpenSSL's contexts: for a listener from a broker's settings, for a client from its `Security`.

Only this module makes them. TLS 1.2 and 1.3 are spoken, older versions never; renegotiation and compression are
off. A client's context is kept for as long as its files are the same: making one reads files and, with the
system's authorities, hundreds of certificates.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
from ssl import SSLContext as SSLContext
from typing import Final

from ottla.config import ConfigError, TlsConfig
from ottla.runtime.pem_files import Identity, Stamp, read_identity, read_trusted, stamp_of
from ottla.security.settings import Security

logger = logging.getLogger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# The names of TLS 1.3's suites, which Python cannot choose, and those of TLS 1.2 differ in this word.
_OLDER_SUITE: Final = "_WITH_"
# A process has as many kinds of connections as it has clusters and identities; tests have more.
_MOST_CONTEXTS: Final = 64

_contexts: dict[Security, tuple[Stamp, ssl.SSLContext]] = {}
_making = threading.Lock()


def client_context(security: Security) -> ssl.SSLContext:
    """The context of a client's connections. Raises ConfigError, in one sentence, if its files cannot be used.

    If files changed and cannot be used now, the context that there was is used on.
    """
    with _making:
        stamp = stamp_of(security)
        known = _contexts.get(security)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            made = _client_context(security)
        except ConfigError as error:
            if known is None:
                raise
            logger.error("changed certificates are not used: %s", error)
            made = known[1]
        if len(_contexts) >= _MOST_CONTEXTS:
            _contexts.pop(next(iter(_contexts)))
        _contexts[security] = stamp, made
        return made


def server_context(security: Security, tls: TlsConfig, identity: Identity) -> ssl.SSLContext:
    """The context of a listener: the broker's certificate, and what it demands of clients. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    versions = [
        _VERSIONS[name]
        for name in tls.enabled_protocols
        if tls.protocol in ("TLS", name) or name < tls.protocol
    ]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    _choose_suites(context, tls.cipher_suites)
    _load_identity(context, identity)
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    _load_trusted(context, security)
    return context


def _client_context(security: Security) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    identity = read_identity(security)
    if identity is not None:
        _load_identity(context, identity)
    if not _load_trusted(context, security):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _load_trusted(context: ssl.SSLContext, security: Security) -> bool:
    trusted = read_trusted(security)
    if trusted is None:
        return False
    try:
        context.load_verify_locations(cadata=trusted.text)
    except ssl.SSLError as error:
        raise ConfigError(f"The {trusted.place} cannot be used: {_words(error)}.") from error
    return True


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    was_asked = False

    def password() -> str:
        nonlocal was_asked
        was_asked = True
        return identity.password or ""

    try:
        with identity.chain.as_file() as chain, identity.key.as_file() as key:
            context.load_cert_chain(chain, key, password)
    except ssl.SSLError as error:
        chain_place, key_place = identity.chain.place, identity.key.place
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"The {key_place} holds another private key than that of the certificate in the {chain_place}."
        elif was_asked:
            why = f"The password of the private key is wrong: the {key_place} cannot be decrypted with it."
        else:
            why = f"The {chain_place} and its key cannot be used: {_words(error)}."
        raise ConfigError(why) from error
    except OSError as error:
        raise ConfigError(f"The {identity.chain.place} cannot be read: {error.strerror}.") from error


def _choose_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    newer = [name for name in names if name.startswith("TLS_") and _OLDER_SUITE not in name]
    if newer:
        raise ConfigError(
            f"ssl.cipher.suites cannot name {newer[0]}: the suites of TLS 1.3 cannot be chosen; leave it out."
        )
    if not names:
        return
    try:
        context.set_ciphers(":".join(map(_openssl_name, names)))
    except ssl.SSLError as error:
        raise ConfigError(
            f"ssl.cipher.suites has no suite that OpenSSL knows: {', '.join(names)} ({ssl.OPENSSL_VERSION})."
        ) from error


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384."""
    exchange, is_standard, cipher = suite.removeprefix("TLS_").partition(_OLDER_SUITE)
    if not is_standard:
        return suite
    cipher = re.sub(r"(AES|CAMELLIA)_(\d+)", r"\1\2", cipher).replace("_CBC", "")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
