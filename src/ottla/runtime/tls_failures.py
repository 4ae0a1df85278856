"""Why TLS failed, as a person would say it: what OpenSSL calls by names of its own."""

from __future__ import annotations

import ssl
from typing import Final

# By OpenSSL's names, as the side sees it that asks: "could not reach …: …".
_ASKING: Final = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS: use protocol PLAINTEXT, or the port of a listener with SSL",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a client certificate: give certificate_file and key_file",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the client certificate: its authority must be in the broker's "
    "ssl.truststore.location",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client certificate has expired: give a new one",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept the client certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the client certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refused the TLS handshake: it may ask for a client certificate "
    "(certificate_file), or other versions or ciphers of TLS",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks other versions of TLS only; this client speaks 1.2 and 1.3",
    "UNSUPPORTED_PROTOCOL": "it speaks other versions of TLS only; this client speaks 1.2 and 1.3",
}
# As the side sees it that was asked: "the TLS handshake failed: …".
_ASKED: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this broker's certificate has expired",
    "NO_SHARED_CIPHER": "it shares no cipher suite with this broker (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS in ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no version of TLS in ssl.enabled.protocols",
    "WRONG_VERSION_NUMBER": "its bytes are not TLS",
    "HTTP_REQUEST": "it looks like HTTP",
}
_HOST_MISMATCH: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED


def why_asking_failed(error: ssl.SSLError) -> str:
    """Why a connection that this side opened has no TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error)
    if isinstance(error, ssl.SSLEOFError):
        return "it closed the connection during the TLS handshake: it may not speak TLS (protocol PLAINTEXT)"
    return _ASKING.get(error.reason or "") or f"TLS failed: {_plain(error)}"


def why_asked_failed(error: ssl.SSLError) -> str:
    """Why a connection that this side accepted has no TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "it went away in the middle"
    return _ASKED.get(error.reason or "") or _plain(error)


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _HOST_MISMATCH:
        return (
            f"its certificate is for another host ({error.verify_message.rstrip('.')}): connect by a name in the "
            "certificate, or give check_hostname=False"
        )
    if error.verify_code == _EXPIRED:
        return "a certificate of it has expired: the broker needs a new one"
    return f"its certificate is not trusted ({error.verify_message}): give the authority's certificate as ca_file"


def _plain(error: ssl.SSLError) -> str:
    """OpenSSL's words without the place in its source."""
    if error.reason:
        return error.reason.replace("_", " ").lower()
    return (error.strerror or str(error)).partition(" (_ssl.c")[0].lower()
