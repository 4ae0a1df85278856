"""DIR/security: an authority, the certificates that it signed, an administrator, and the settings that name them.

    authority.pem, authority.key   the certificate authority; clients need the first, nobody but it the second
    broker.pem, broker.key         the certificate of the brokers
    admin.pem, admin.key           a certificate of the administrator, for listeners that ask for one
    users.properties               the administrator's password, for brokers
    broker.properties              the settings of a broker
    client.properties              how the administrator's client reaches the cluster
    broker-2.properties            settings of broker 2 alone, if somebody wrote such a file

Only the owner of the directory can look into it, and each file with a secret is readable for the owner alone.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.config import ConfigError, parse_properties
from ottla.config.properties import render_properties
from ottla.localcluster.plan.security_settings import (
    ADMINISTRATOR,
    AUTHORITY,
    BROKER,
    BROKER_PROPERTIES,
    CLIENT_PROPERTIES,
    USERS,
    broker_properties_text,
    certificate_file,
    client_properties_text,
    key_file,
)
from ottla.runtime.secret_file import read_secret_file, write_secret_file
from ottla.security.settings import Security

if TYPE_CHECKING:
    from ottla.runtime.certificate_authority import Authority, Issued

DIRECTORY: Final = "security"
DEFAULT_DAYS: Final = 365
MOST_DAYS: Final = 3650
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_AUTHORITY_DAYS: Final = MOST_DAYS
_PASSWORD_BYTES: Final = 24
_BOOTSTRAP: Final = re.compile(r"(?m)^bootstrap\.servers=.*$")
_STEM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class SecurityFiles:
    """The security of the cluster whose data is in a directory. ConfigError, in one sentence, for what cannot be."""

    def __init__(self, data: Path) -> None:
        self.directory = data.absolute() / DIRECTORY

    @property
    def broker_properties(self) -> Path:
        return self.directory / BROKER_PROPERTIES

    def own_properties(self, node_id: int) -> Path:
        """Settings of one broker alone, such as a certificate of its own; there need not be any."""
        return self.directory / f"{BROKER}-{node_id}.properties"

    @property
    def client_properties(self) -> Path:
        return self.directory / CLIENT_PROPERTIES

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return certificate_file(self.directory, AUTHORITY)

    @property
    def exist(self) -> bool:
        return self.directory.exists()

    @property
    def security(self) -> Security:
        """How the administrator reaches the cluster."""
        try:
            return Security.from_properties(parse_properties(read_secret_file(str(self.client_properties))))
        except OSError as error:
            raise ConfigError(
                f"{self.client_properties} cannot be used: {error.strerror or error}."
            ) from error
        except ValueError as error:
            raise ConfigError(f"{self.client_properties} cannot be used: {error}.") from error

    def make(
        self, hosts: Sequence[str] = (), days: int = DEFAULT_DAYS, bootstrap: str = DEFAULT_BOOTSTRAP
    ) -> list[Path]:
        """Make everything, for brokers that are reached by these hosts or on this machine; returns the files."""
        if self.exist:
            raise ConfigError(
                f"{self.directory} exists, and is not overwritten: clients trust the authority in it. For new "
                "certificates of the same authority: ottla security renew"
            )
        from ottla.runtime.certificate_authority import Authority

        now, lifetime = datetime.now(UTC), timedelta(days=days)
        authority = Authority.founded("Ottla authority", now, timedelta(days=_AUTHORITY_DAYS))
        names = tuple(dict.fromkeys((*hosts, *LOCAL_HOSTS)))
        broker = authority.broker(BROKER, names, now, lifetime)
        administrator = authority.client(ADMINISTRATOR, now, lifetime)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        # Whoever finds the directory finds all of it.
        new = self.directory.with_name(f"{DIRECTORY}.{secrets.token_hex(4)}.new")
        new.mkdir(mode=0o700)
        try:
            _write(new, AUTHORITY, authority.issued)
            _write(new, BROKER, broker)
            _write(new, ADMINISTRATOR, administrator)
            self._write_settings(new, bootstrap, secrets.token_urlsafe(_PASSWORD_BYTES))
            new.rename(self.directory)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return sorted(self.directory.iterdir())

    def issue(self, stem: str, *, hosts: Sequence[str] = (), days: int = DEFAULT_DAYS) -> list[Path]:
        """Sign one more certificate: with hosts for a broker, without for a client, whose name it carries."""
        if _STEM.fullmatch(stem) is None:
            raise ConfigError(
                f"'{stem}' cannot be the name of a file: letters, digits, dots, dashes and underscores can."
            )
        files = [certificate_file(self.directory, stem), key_file(self.directory, stem)]
        if there := next((each for each in files if each.exists()), None):
            raise ConfigError(f"{there} exists, and is not overwritten: ottla security renew")
        authority, now, lifetime = self._authority(), datetime.now(UTC), timedelta(days=days)
        issued = (
            authority.broker(BROKER, hosts, now, lifetime) if hosts else authority.client(stem, now, lifetime)
        )
        _write(self.directory, stem, issued)
        return files

    def renew(self, hosts: Sequence[str] = (), days: int = DEFAULT_DAYS) -> list[Path]:
        """Sign new certificates in place of all those of the authority, for the same names; returns the files.

        Brokers notice the new files, and use them without a restart. `hosts` are added to the brokers' names.
        """
        from ottla.runtime.certificate_authority import hosts_in, name_in

        authority, now, lifetime = self._authority(), datetime.now(UTC), timedelta(days=days)
        written = []
        for file in sorted(self.directory.glob("*.pem")):
            key = key_file(self.directory, file.stem)
            if file.stem == AUTHORITY or not key.exists():
                continue
            old = file.read_text(encoding="utf-8")
            if named := hosts_in(old):
                names = tuple(dict.fromkeys((*named, *hosts)))
                issued = authority.broker(name_in(old), names, now, lifetime)
            else:
                issued = authority.client(name_in(old), now, lifetime)
            _write(self.directory, file.stem, issued)
            written += [file, key]
        return written

    def hosts(self) -> tuple[str, ...]:
        """The hosts that the certificate of the brokers names."""
        from ottla.runtime.certificate_authority import hosts_in

        return hosts_in(_read(certificate_file(self.directory, BROKER)))

    def lead_client_to(self, bootstrap: str) -> None:
        """Have client.properties name these brokers; the rest of the file stays as it is."""
        text = read_secret_file(str(self.client_properties))
        line = render_properties({"bootstrap.servers": bootstrap}).rstrip("\n")
        changed = _BOOTSTRAP.sub(line.replace("\\", r"\\"), text)
        if changed != text:
            write_secret_file(self.client_properties, changed)

    def _authority(self) -> Authority:
        from ottla.runtime.certificate_authority import Authority, Issued

        if not self.exist:
            raise ConfigError(f"There is no {self.directory}: make it with ottla security init")
        certificate, key = (_read(file(self.directory, AUTHORITY)) for file in (certificate_file, key_file))
        return Authority(Issued(certificate, key))

    def _write_settings(self, new: Path, bootstrap: str, password: str) -> None:
        """Write the files of settings to the new directory. The paths in them are those that they will have."""
        write_secret_file(new / USERS, render_properties({ADMINISTRATOR: password}))
        (new / BROKER_PROPERTIES).write_text(broker_properties_text(self.directory), encoding="utf-8")
        client = client_properties_text(self.directory, bootstrap, password)
        write_secret_file(new / CLIENT_PROPERTIES, client)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error


def _write(directory: Path, stem: str, issued: Issued) -> None:
    """The key first: a broker that sees the new certificate finds the new key."""
    write_secret_file(key_file(directory, stem), issued.key)
    file = certificate_file(directory, stem)
    new = file.with_name(f"{file.name}.new")
    new.write_text(issued.certificate, encoding="utf-8")
    new.replace(file)
