"""A broker's own certificate and the authorities that it trusts, as the security settings of a client."""

from ottla.config import TlsConfig
from ottla.security.settings import Security


def own_certificates(tls: TlsConfig) -> Security:
    """The settings with which a broker reaches other brokers by TLS; its listeners use the same files."""
    return Security(
        protocol="SSL",
        ca_file=tls.truststore_location or None,
        ca_pem=tls.truststore_certificates or None,
        certificate_file=tls.keystore_location or tls.certificate_file or None,
        certificate_pem=tls.certificate_chain or None,
        key_file=tls.key_file or None,
        key_pem=tls.key or None,
        key_password=(tls.key_password or None) if tls.has_certificate else None,
        key_password_file=(tls.key_password_file or None) if tls.has_certificate else None,
        check_hostname=tls.endpoint_identification_algorithm == "https",
    )
