"""What becomes of a message on its way: nothing, or all that Kafka's messages and their bytes make of it."""

from __future__ import annotations

from typing import Any

from ottla.protocol.codec import declaration_of, decode, encode
from ottla.raft.requests import read_request, request_message
from ottla.raft.responses import read_response, response_message

CLUSTER_ID = "simulated"


def unchanged(message: Any, request: Any) -> Any:
    return message


def coded(message: Any, request: Any) -> Any:
    """Through Kafka's messages, to bytes and back. A question comes without a request, an answer with its own."""
    if request is None:
        return read_request(_through_bytes(request_message(message, CLUSTER_ID)), CLUSTER_ID)
    return read_response(_through_bytes(response_message(request, message)))


def _through_bytes(message: Any) -> Any:
    version = declaration_of(type(message)).versions[1]
    return decode(type(message), encode(message, version), version)
