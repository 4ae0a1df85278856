"""How each Python client is told the security protocol of a listener, and the authority to trust."""

from __future__ import annotations

from typing import Any

from ottla.runtime.tls_context import client_context
from ottla.security.settings import Security


def protocol_of_librdkafka(security: Security) -> dict[str, Any]:
    trusted = {"ssl.ca.location": security.ca_file} if security.uses_tls else {}
    return {"security.protocol": security.protocol, **trusted}


def protocol_of_aiokafka(security: Security) -> dict[str, Any]:
    trusted = {"ssl_context": client_context(security)} if security.uses_tls else {}
    return {"security_protocol": security.protocol, **trusted}


def protocol_of_kafka_python(security: Security) -> dict[str, Any]:
    trusted = {"ssl_cafile": security.ca_file} if security.uses_tls else {}
    return {"security_protocol": security.protocol, **trusted}
