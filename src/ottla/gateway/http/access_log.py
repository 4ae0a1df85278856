"""One line for each request: who asked for what, the status, the bytes, the time, the id of the request."""

from __future__ import annotations

import logging

from ottla.gateway.http.machine.message import Request

logger = logging.getLogger("ottla.gateway.access")


def log_request(request: Request, status: int, sent_bytes: int, taken_ms: float) -> None:
    """A target has no spaces and no control characters (h11 refuses them), so a line stays one line."""
    user = "-" if request.login is None else _one_word(request.login.name)
    logger.info(
        '%s %s "%s %s" %d %d %.1fms %s',
        request.peer,
        user,
        request.method,
        request.target[:500].partition("?")[0],
        status,
        sent_bytes,
        taken_ms,
        request.id,
    )


def _one_word(name: str) -> str:
    """A user's name is free text: in the log it must not look like another field, or another line."""
    return "".join(each if each.isprintable() and not each.isspace() else "?" for each in name[:64])
