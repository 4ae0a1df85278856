"""The settings of TLS: the broker's certificate, whom it trusts, and what it demands of clients.

Certificates and keys are in PEM form: in files, or as text in the settings. Kafka's Java key stores are refused
with the command that turns one into PEM.
"""

from typing import Final

from ottla.config.setting import ConfigError, ConfigType, Form, family, setting

PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_PEM: Final = "PEM"
_EXPORT: Final = {
    "ssl.keystore.type": "openssl pkcs12 -in store.p12 -nodes -out broker.pem",
    "ssl.truststore.type": "keytool -list -rfc -keystore store.jks > trusted.pem",
}
_STORE_TYPE: Final = Form(r"[A-Za-z0-9]+", "PEM")


@family
class TlsConfig:
    """The TLS of one broker."""

    keystore_location: str | None = setting(
        "ssl.keystore.location",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the broker's private key and its certificate chain. It is read again when it changes.",
    )
    keystore_type: str = setting(
        "ssl.keystore.type",
        _PEM,
        form=_STORE_TYPE,
        doc="The form of ssl.keystore.location. Only PEM is read; Java's key stores can be exported to it.",
    )
    certificate_chain: str | None = setting(
        "ssl.keystore.certificate.chain",
        None,
        type=ConfigType.STRING,
        sensitive=True,
        doc="The broker's certificate chain as PEM text, instead of a file; ssl.keystore.key is its key.",
    )
    key: str | None = setting(
        "ssl.keystore.key",
        None,
        type=ConfigType.STRING,
        sensitive=True,
        doc="The broker's private key as PEM text, for ssl.keystore.certificate.chain.",
    )
    key_password: str | None = setting(
        "ssl.key.password",
        None,
        type=ConfigType.STRING,
        sensitive=True,
        doc="The password of the private key, if it is encrypted.",
    )
    certificate_file: str | None = setting(
        "ottla.ssl.certificate.file",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the broker's certificate chain, where the key is in a file of its own, as most tools of "
        "today write them; Kafka wants both in ssl.keystore.location. It is read again when it changes.",
    )
    key_file: str | None = setting(
        "ottla.ssl.key.file",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the private key for ottla.ssl.certificate.file; not set: the key is in that file.",
    )
    key_password_file: str | None = setting(
        "ottla.ssl.key.password.file",
        None,
        type=ConfigType.STRING,
        doc="A file whose first line is the password of the private key, so that the settings hold no secret.",
    )
    truststore_location: str | None = setting(
        "ssl.truststore.location",
        None,
        type=ConfigType.STRING,
        doc="A PEM file with the certificates of the authorities that the broker trusts: for the certificates of clients "
        "and of other brokers. It is read again when it changes.",
    )
    truststore_type: str = setting(
        "ssl.truststore.type",
        _PEM,
        form=_STORE_TYPE,
        doc="The form of ssl.truststore.location. Only PEM is read; Java's key stores can be exported to it.",
    )
    truststore_certificates: str | None = setting(
        "ssl.truststore.certificates",
        None,
        type=ConfigType.STRING,
        sensitive=True,
        doc="The certificates of ssl.truststore.location as PEM text, instead of a file.",
    )
    client_auth: str = setting(
        "ssl.client.auth",
        "none",
        choices=("none", "requested", "required"),
        doc="Whether clients of an SSL listener are asked for a certificate, or must have one; those of SASL_SSL log in "
        "instead. A client's principal is the subject of its certificate, by ssl.principal.mapping.rules; without a "
        "certificate, ANONYMOUS.",
    )
    enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols",
        PROTOCOLS,
        choices=PROTOCOLS,
        doc="The versions of TLS that the broker speaks.",
    )
    protocol: str = setting(
        "ssl.protocol",
        PROTOCOLS[-1],
        choices=("TLS", *PROTOCOLS),
        doc="The newest version of TLS that the broker speaks; TLS is the newest that there is.",
    )
    cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        type=ConfigType.LIST,
        doc="The cipher suites of TLS 1.2, by their standard names or OpenSSL's; not set: OpenSSL's choice. Those of "
        "TLS 1.3 cannot be chosen.",
    )
    principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        doc="How the subject of a client's certificate becomes the name of its principal: DEFAULT, or rules such as "
        "RULE:^CN=(.*?),.*$/$1/L, with commas between. The first that fits is taken.",
    )
    endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        choices=("https", ""),
        doc="Whether the certificate of another broker must name the host by which it is reached: https, or empty for no "
        "check.",
    )
    handshake_timeout_ms: int = setting(
        "ottla.ssl.handshake.timeout.ms",
        10_000,
        at_least=1,
        type=ConfigType.LONG,
        doc="A connection whose TLS handshake is not complete after this long is closed. Kafka closes it when it was idle "
        "for connections.max.idle.ms, which lets idle peers hold connections for ten minutes.",
    )

    @property
    def has_certificate(self) -> bool:
        """Whether the broker has a certificate of its own."""
        return any((self.keystore_location, self.certificate_file, self.certificate_chain))

    @property
    def has_trust(self) -> bool:
        """Whether the settings say whom to trust."""
        return any((self.truststore_location, self.truststore_certificates))

    def refuse_contradictions(self) -> None:
        """Raise ConfigError if the settings, each fine by itself, cannot be used together."""
        self._refuse_stores()
        self._refuse_keys()
        if self.truststore_location and self.truststore_certificates:
            raise ConfigError(
                "Only one of ssl.truststore.location and ssl.truststore.certificates can say whom to trust."
            )
        if self.client_auth != "none" and not self.has_trust:
            raise ConfigError(
                f"ssl.client.auth={self.client_auth} needs ssl.truststore.location: a PEM file with the authorities "
                "whose client certificates count."
            )
        if not self.enabled_protocols or self.protocol < min(self.enabled_protocols):
            raise ConfigError(
                "ssl.enabled.protocols and ssl.protocol leave no version of TLS: name TLSv1.3 in both."
            )

    def _refuse_stores(self) -> None:
        for name, kind in (
            ("ssl.keystore.type", self.keystore_type),
            ("ssl.truststore.type", self.truststore_type),
        ):
            if kind.upper() != _PEM:
                raise ConfigError(
                    f"{name} cannot be {kind}: only PEM is read. Export the store, for example with "
                    f"`{_EXPORT[name]}`."
                )

    def _refuse_keys(self) -> None:
        given = {
            "ssl.keystore.location": self.keystore_location,
            "ottla.ssl.certificate.file": self.certificate_file,
            "ssl.keystore.certificate.chain": self.certificate_chain,
        }
        named = [name for name, value in given.items() if value]
        if len(named) > 1:
            raise ConfigError(f"Only one of {' and '.join(named)} can be the broker's certificate.")
        if bool(self.certificate_chain) != bool(self.key):
            raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key must be set together.")
        if self.key_file and not self.certificate_file:
            raise ConfigError("ottla.ssl.key.file needs ottla.ssl.certificate.file.")
        if self.key_password and self.key_password_file:
            raise ConfigError("Only one of ssl.key.password and ottla.ssl.key.password.file can be set.")
