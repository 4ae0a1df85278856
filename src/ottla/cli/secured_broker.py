"""`ottla serve --secure`: a broker with the settings of DIR/security, which is made if it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ottla.cli.broker_settings import read_settings_file
from ottla.config import ConfigError, Listener, LogConfig
from ottla.model import Address

_LISTENER: Final = "SASL_SSL"


class SecuredBroker:
    """The security of one broker, which needs no listener for others. ConfigError if it cannot be had."""

    def __init__(self, data: str | None, host: str | None) -> None:
        # Imported here: most brokers are started without it.
        from ottla.localcluster.security_files import SecurityFiles

        self._files = SecurityFiles(Path(data or LogConfig().directory))
        try:
            if not self._files.exist:
                self._files.make([host] if host else [])
        except OSError as error:
            raise ConfigError(
                f"{self._files.directory} cannot be made: {error.strerror or error}."
            ) from error

    @property
    def settings(self) -> dict[str, str]:
        """Those of broker.properties, for a broker that is alone."""
        return {
            **read_settings_file(str(self._files.broker_properties)),
            "listeners": f"{_LISTENER}://localhost:9092",
            "inter.broker.listener.name": _LISTENER,
        }

    def gateway_options(self) -> tuple[str, ...]:
        """How a gateway beside the broker is started: with the broker's certificate, for callers that log in.

        Its own client is the administrator's, by which it reads `_schemas`; callers act as themselves.
        """
        settings = self.settings
        files = {
            "certificate.file": settings["ottla.ssl.certificate.file"],
            "key.file": settings["ottla.ssl.key.file"],
            "login.required": "true",
        }
        given = [f"ottla.gateway.{name}={value}" for name, value in files.items()]
        return (
            "--config",
            str(self._files.client_properties),
            *(word for each in given for word in ("--set", each)),
        )

    def next_line(self, listener: Listener) -> str:
        """Lead the administrator's client to the broker, and say how to use it."""
        self._files.lead_client_to(str(Address(listener.host, listener.port)))
        return f"Try: ottla topics list --config {self._files.client_properties}"
