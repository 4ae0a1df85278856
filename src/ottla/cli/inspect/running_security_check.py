"""What of a running broker is open to others than it should be, as far as a client can see it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from ottla.cli.inspect.security_check import check_expiry, check_settings
from ottla.client.admin.checks.findings import Examination
from ottla.client.requests.configs import ResourceType
from ottla.config import BrokerConfig, ConfigError
from ottla.model import Address
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.security.tls.certificate import CertificateError, certificates_in
from ottla.wire.connection import Connection

CHECKS_RIGHTS: Final = "checks_rights"  # the fact that a broker has an authorizer
_LOOK_S: Final = 5.0
_AUTHORIZER: Final = "authorizer.class.name"
# The settings that say what is open. Those that name files of the broker's machine are left out.
_NAMES: Final = (
    "listeners",
    "listener.security.protocol.map",
    "sasl.enabled.mechanisms",
    _AUTHORIZER,
    "super.users",
    "allow.everyone.if.no.acl.found",
)


async def check_running_settings(connection: Connection, node_id: int, report: Examination) -> None:
    """Examine the settings that a broker tells."""
    resource = DescribeConfigsResource(ResourceType.BROKER, str(node_id), list(_NAMES))
    response: DescribeConfigsResponse = await connection.ask(DescribeConfigsRequest(resources=[resource]))
    values = {
        entry.name: entry.value
        for result in response.results
        for entry in result.configs
        if entry.name in _NAMES and entry.value is not None
    }
    config = _config(values)
    if config is not None and "listeners" in values:
        check_settings(config, f"broker {node_id}", report)
        report.facts[CHECKS_RIGHTS] = config.authorisation.is_enabled


def _config(values: Mapping[str, str]) -> BrokerConfig | None:
    """The settings of a broker, of Ottla or of Apache Kafka, whose other values are left out; None if its listeners
    cannot be understood.
    """
    config = BrokerConfig()
    for name, value in values.items():
        try:
            config = config.overridden({name: value})
        except ConfigError:
            if name == _AUTHORIZER:
                config = config.overridden({name: "acl"})  # another authorizer checks rights as well
    try:
        return config if config.node.bound_listeners else None
    except ConfigError:
        return None


async def check_certificate(address: Address, node_id: int, report: Examination) -> None:
    """Examine the certificate that a broker shows at an address over TLS."""
    place = f"broker {node_id}"
    try:
        pem = await asyncio.to_thread(
            ssl.get_server_certificate, (address.host, address.port), timeout=_LOOK_S
        )
        check_expiry(certificates_in(pem)[0], place, report)
    except (OSError, CertificateError) as error:
        why = f"its certificate could not be looked at: {error}"
        report.note(place, why, "Nothing, if clients can connect.")
