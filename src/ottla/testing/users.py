"""The users of a secured broker in a test, with their passwords in a file for the broker.

Besides the users of the test there is one more, with a password that nobody knows: as that user brokers log in to
each other, and the test's own questions are asked. It may do everything, whatever rights the test gives others.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Final

from ottla.client.calls import arguments
from ottla.config.properties import render_properties
from ottla.security.settings import PLAINTEXT, SaslMechanism, Security, SecurityProtocol
from ottla.testing.certificates import Certificates

OWN_USER: Final = "ottla.testing"
_MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
_SUPER_USERS: Final = "super.users"


class Users:
    """Users and passwords, and TLS if it is wanted. Without any, the broker is open."""

    def __init__(self, users: Mapping[str, str] | None, *, tls: bool = False) -> None:
        self._certificates = Certificates() if arguments.flag("tls", tls) else None
        self._passwords = {} if users is None else arguments.by_name("users", users, arguments.name_of)
        if OWN_USER in self._passwords:
            raise ValueError(f"the user {OWN_USER} is the broker's own: choose another name")
        self._own_password = token_hex(16)
        self._directory: Path | None = None
        self._making = Lock()

    @property
    def protocol(self) -> str:
        """The security protocol of the listener."""
        if self._certificates is not None:
            return "SASL_SSL" if self._passwords else "SSL"
        return "SASL_PLAINTEXT" if self._passwords else "PLAINTEXT"

    @property
    def own_security(self) -> Security:
        """How the test's own questions reach the broker."""
        if not self._passwords:
            return PLAINTEXT
        return _security(OWN_USER, self._own_password, "SCRAM-SHA-256")

    def security(self, user: str | None, mechanism: SaslMechanism) -> Security:
        """How a client of a user reaches the broker; without users, how any client does."""
        if user is None and not self._passwords:
            return self._over_tls(PLAINTEXT)
        if user is None or user not in self._passwords:
            raise ValueError(f"there is no user {user!r}: the broker was given {sorted(self._passwords)}")
        return self._over_tls(_security(user, self._passwords[user], mechanism))

    def _over_tls(self, security: Security) -> Security:
        if self._certificates is None:
            return security
        protocol: SecurityProtocol = "SASL_SSL" if security.uses_sasl else "SSL"
        return replace(security, protocol=protocol, ca_file=str(self._certificates.authority))

    def settings(self, given: Mapping[str, object]) -> dict[str, object]:
        """The broker's settings, to be added to those that the test gave."""
        certificates = {} if self._certificates is None else self._certificates.settings()
        if not self._passwords:
            return {**certificates, **given} if certificates else {}
        own = f"User:{OWN_USER}"
        return {
            **certificates,
            "sasl.enabled.mechanisms": _MECHANISMS,
            "ottla.sasl.users.file": str(self._file()),
            "ottla.sasl.inter.broker.username": OWN_USER,
            **given,
            _SUPER_USERS: f"{given[_SUPER_USERS]};{own}" if given.get(_SUPER_USERS) else own,
        }

    def _file(self) -> Path:
        """The file with all passwords. The brokers of a cluster start at the same time, each in its own thread."""
        with self._making:
            return self._made_file()

    def _made_file(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="ottla-users-"))
            weakref.finalize(self, shutil.rmtree, str(self._directory), ignore_errors=True)
        file = self._directory / "users.properties"
        if not file.exists():
            users = {**self._passwords, OWN_USER: self._own_password}
            file.touch(mode=0o600)
            file.write_text(render_properties(users), encoding="utf-8")
        return file


def _security(user: str, password: str, mechanism: SaslMechanism) -> Security:
    return Security(protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, username=user, password=password)
