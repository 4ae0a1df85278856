"""Which web pages may call: CORS for requests, the Origin header for WebSockets.

A browser sends the origin of the page whose script calls. A page of the gateway's own host may always call; others
if `ottla.gateway.allowed.origins` names them. A WebSocket is not protected by CORS: a page that is not allowed is
refused there by the gateway itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_HEADERS: Final = "Accept, Authorization, Content-Type, Last-Event-ID, X-Request-Id, Idempotency-Key"
_MAX_AGE_S: Final = 600


def may_call(headers: Mapping[str, str], allowed: Sequence[str]) -> bool:
    """Whether the page that sends these headers may call; programs that are no browsers send no origin."""
    origin = headers.get("origin")
    if origin is None or "*" in allowed or origin in allowed:
        return True
    return origin.partition("://")[2] == headers.get("host")


def cors_headers(headers: Mapping[str, str], allowed: Sequence[str]) -> dict[str, str]:
    """The headers that let a browser hand the answer to the page."""
    origin = headers.get("origin")
    if origin is None or not allowed:
        return {}
    if not ("*" in allowed or origin in allowed):
        return {"Vary": "Origin"}
    return {
        "Access-Control-Allow-Origin": "*" if "*" in allowed else origin,
        "Access-Control-Expose-Headers": "X-Request-Id, Idempotency-Replayed",
        "Vary": "Origin",
    }


def preflight_headers(methods: Sequence[str]) -> dict[str, str]:
    """The further headers of the answer to a browser's question whether it may call."""
    return {
        "Access-Control-Allow-Methods": ", ".join(methods),
        "Access-Control-Allow-Headers": _HEADERS,
        "Access-Control-Max-Age": str(_MAX_AGE_S),
    }
