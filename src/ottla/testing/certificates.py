"""The certificates of a broker with TLS in a test: an authority of its own, in a directory that goes with it.

They are made with the package cryptography (`pip install 'ottla[security]'`), in some milliseconds.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final

from ottla.runtime.secret_file import write_secret_file

_LIFETIME: Final = timedelta(days=30)
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class Certificates:
    """One authority, and one certificate for all brokers. They are made when they are first asked for."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._making = Lock()

    @property
    def authority(self) -> Path:
        """The certificate that clients have to trust."""
        return self._made() / "authority.pem"

    def settings(self) -> dict[str, object]:
        """The settings of a broker."""
        directory = self._made()
        return {
            "ottla.ssl.certificate.file": str(directory / "broker.pem"),
            "ottla.ssl.key.file": str(directory / "broker.key"),
            "ssl.truststore.location": str(directory / "authority.pem"),
        }

    def _made(self) -> Path:
        with self._making:  # the brokers of a cluster start at the same time
            if self._directory is None:
                self._directory = self._make()
            return self._directory

    def _make(self) -> Path:
        from ottla.runtime.certificate_authority import Authority

        now = datetime.now(UTC)
        authority = Authority.founded("ottla.testing", now, _LIFETIME)
        broker = authority.broker("broker", _HOSTS, now, _LIFETIME)
        directory = Path(tempfile.mkdtemp(prefix="ottla-certificates-"))
        weakref.finalize(self, shutil.rmtree, str(directory), ignore_errors=True)
        (directory / "authority.pem").write_text(authority.issued.certificate)
        (directory / "broker.pem").write_text(broker.certificate)
        write_secret_file(directory / "broker.key", broker.key)
        return directory
