"""The security settings of a client: which protocol it speaks, whom it trusts, and who it is.

A `Security` that exists is consistent: combinations that cannot work, or that would leave a given secret
unused, are refused when it is made. Its `repr` shows no secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, Literal, get_args

from ottla.security.properties import security_arguments
from ottla.security.token_endpoint import TokenEndpoint

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
# A token, or where one comes from.
TokenSource = str | Callable[[], str] | Callable[[], Awaitable[str]] | TokenEndpoint
PROTOCOLS: Final[tuple[str, ...]] = get_args(SecurityProtocol)
MECHANISMS: Final[tuple[str, ...]] = get_args(SaslMechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a client reaches a secured cluster.

        Security(protocol="SASL_SSL", ca_file="ca.pem", sasl_mechanism="SCRAM-SHA-512",
                 username="alice", password=os.environ["PASSWORD"])

    - `protocol`: the security protocol of the brokers' listener.
    - `ca_file`: certificates (PEM) of the authorities that the client trusts; without it, the system's.
    - `certificate_file`, `key_file`, `key_password`: the client's own certificate chain and key (PEM), for
      listeners that ask for one. Without `key_file`, the key is in `certificate_file`. `key_password_file` is
      a file whose first line is the password. Files are read again when they change.
    - `ca_pem`, `certificate_pem`, `key_pem`: the same as PEM text, instead of files.
    - `check_hostname`: whether the broker's certificate must name the host that the client connected to.
    - `sasl_mechanism`: how the client logs in. PLAIN and SCRAM need `username` and `password`; OAUTHBEARER
      needs `token`: a text, a function that returns one (`async` or not; it is asked for every login), or a
      `TokenEndpoint`.
    - `is_delegation_token`: `username` and `password` are the id and the HMAC (in base64) of a delegation token;
      with SCRAM.
    """

    protocol: SecurityProtocol = "PLAINTEXT"
    ca_file: str | PurePath | None = None
    certificate_file: str | PurePath | None = None
    key_file: str | PurePath | None = None
    key_password: str | None = field(default=None, repr=False)
    key_password_file: str | PurePath | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    sasl_mechanism: SaslMechanism | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: TokenSource | None = field(default=None, repr=False)
    is_delegation_token: bool = False

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {self.protocol!r}")
        self._check_tls()
        self._check_sasl()

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> Security:
        """The settings that Kafka's clients have in a properties file (`security.protocol`, `ssl.*`,
        `sasl.*`). Other properties are left alone; a security property that has no effect here is a
        ValueError.
        """
        return Security(**security_arguments(properties))

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in with SASL."""
        return self.protocol.startswith("SASL")

    @property
    def has_certificate(self) -> bool:
        """Whether the client shows a certificate of its own."""
        return self.certificate_file is not None or self.certificate_pem is not None

    def _check_tls(self) -> None:
        names = ("ca_file", "ca_pem", "certificate_file", "certificate_pem", "key_file", "key_pem")
        given = [name for name in names if getattr(self, name) is not None]
        if given and not self.uses_tls:
            raise ValueError(
                f"{given[0]} has no use with protocol={self.protocol!r}: it needs SSL or SASL_SSL"
            )
        for name in ("ca", "certificate", "key"):
            if f"{name}_file" in given and f"{name}_pem" in given:
                raise ValueError(f"{name}_file and {name}_pem cannot both be given: they say the same")
        self._check_key(given)

    def _check_key(self, given: list[str]) -> None:
        if self.key_password is not None and self.key_password_file is not None:
            raise ValueError("key_password and key_password_file cannot both be given")
        if self.has_certificate:
            return
        for name in ("key_file", "key_pem"):
            if name in given:
                raise ValueError(
                    f"{name} needs certificate_file: a key proves nothing without its certificate"
                )
        for name in ("key_password", "key_password_file"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} needs certificate_file: there is no key that it could open")

    def _check_sasl(self) -> None:
        names = ("sasl_mechanism", "username", "password", "token")
        given = [name for name in names if getattr(self, name) is not None]
        if not self.uses_sasl:
            if given:
                raise ValueError(
                    f"{given[0]} has no use with protocol={self.protocol!r}: it needs SASL_PLAINTEXT or SASL_SSL"
                )
            return
        if self.sasl_mechanism is None:
            raise ValueError(
                f"protocol={self.protocol!r} needs sasl_mechanism: one of {', '.join(MECHANISMS)}"
            )
        if self.sasl_mechanism not in MECHANISMS:
            raise ValueError(
                f"sasl_mechanism must be one of {', '.join(MECHANISMS)}, not {self.sasl_mechanism!r}"
            )
        self._check_credentials(given)

    def _check_credentials(self, given: list[str]) -> None:
        needed = {"token"} if self.sasl_mechanism == "OAUTHBEARER" else {"username", "password"}
        missing = sorted(needed.difference(given))
        if missing:
            raise ValueError(f"sasl_mechanism={self.sasl_mechanism!r} needs {' and '.join(missing)}")
        unused = sorted({"token", "username", "password"}.difference(needed).intersection(given))
        if unused:
            raise ValueError(f"{unused[0]} has no use with sasl_mechanism={self.sasl_mechanism!r}")
        if self.is_delegation_token and not str(self.sasl_mechanism).startswith("SCRAM"):
            raise ValueError(f"is_delegation_token needs SCRAM, not sasl_mechanism={self.sasl_mechanism!r}")
        if not (self.token is None or isinstance(self.token, str | TokenEndpoint) or callable(self.token)):
            raise ValueError(
                f"token must be a text, a function or a TokenEndpoint, not {type(self.token).__name__}"
            )


# A cluster on a network that is trusted.
PLAINTEXT: Final = Security()
