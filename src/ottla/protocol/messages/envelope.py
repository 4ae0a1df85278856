"""Envelope (key 58), version 0: a client's request that a broker hands on to the active controller (KIP-590).

The request travels whole, header and body, and so does its answer.
"""

from __future__ import annotations

from ottla.protocol.codec import Bytes, Int16, message


@message(key=58, versions=(0, 0), flexible=0)
class EnvelopeRequest:
    request_data: Bytes = b""
    request_principal: Bytes | None = b""
    client_host_address: Bytes = b""


@message(key=58, versions=(0, 0), flexible=0)
class EnvelopeResponse:
    response_data: Bytes | None = None
    error_code: Int16 = 0
