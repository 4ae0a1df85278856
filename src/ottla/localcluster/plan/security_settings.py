"""The settings of a secured cluster, as the files in DIR/security hold them.

Clients log in on the listener SASL_SSL. Brokers, and the quorum, use the listener SSL, which lets nobody in
without a certificate of the authority; a client with one may use that listener, too. Nobody but the
administrator and the brokers has any right until an access control list gives one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ottla.config.properties import render_properties

CLIENT_LISTENER: Final = "SASL_SSL"
BROKER_LISTENER: Final = "SSL"
ADMINISTRATOR: Final = "admin"
BROKER: Final = "broker"
MECHANISM: Final = "SCRAM-SHA-512"
BROKER_PROPERTIES: Final = "broker.properties"
CLIENT_PROPERTIES: Final = "client.properties"
USERS: Final = "users.properties"
AUTHORITY: Final = "authority"  # the stem of its two files

_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def certificate_file(directory: Path, stem: str) -> Path:
    return directory / f"{stem}.pem"


def key_file(directory: Path, stem: str) -> Path:
    return directory / f"{stem}.key"


def broker_properties(directory: Path, stem: str = BROKER) -> dict[str, str]:
    """The security settings of a broker whose certificate has this file name. All brokers have the same, but for
    their listeners.
    """
    return {
        "inter.broker.listener.name": BROKER_LISTENER,
        "ottla.ssl.certificate.file": str(certificate_file(directory, stem)),
        "ottla.ssl.key.file": str(key_file(directory, stem)),
        "ssl.truststore.location": str(certificate_file(directory, AUTHORITY)),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "ottla.sasl.users.file": str(directory / USERS),
        "authorizer.class.name": "acl",
        "super.users": f"User:{ADMINISTRATOR};User:{BROKER}",
    }


def client_properties(directory: Path, bootstrap: str, password: str) -> dict[str, str]:
    """How the administrator reaches the cluster, for `--config` and for Kafka's own tools."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": CLIENT_LISTENER,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate_file(directory, AUTHORITY)),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{_LOGIN_MODULE} required username="{ADMINISTRATOR}" password="{password}";',
    }


def broker_properties_text(directory: Path) -> str:
    """The file of a broker's settings."""
    return (
        "# The security of a broker, for ottla serve --config. Listeners are each broker's own:\n"
        f"# listeners={CLIENT_LISTENER}://HOST:9092,{BROKER_LISTENER}://HOST:9093\n"
        + render_properties(broker_properties(directory))
    )


def client_properties_text(directory: Path, bootstrap: str, password: str) -> str:
    """The file of the administrator's client."""
    return (
        "# How the administrator reaches the cluster: for --config, OTTLA_CONFIG, and Kafka's --command-config.\n"
        + render_properties(client_properties(directory, bootstrap, password))
    )
