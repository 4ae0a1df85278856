"""Content-Type and Accept: which of the media types that a route knows is meant.

A media type that a route names is matched without its parameters. `Accept` weighs types by `q`, as RFC 9110 says;
of types with the same weight, the more exact one counts, then the one that the route names first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.gateway.http.machine.http_error import HttpError


def essence(text: str) -> str:
    """A media type without parameters, in small letters."""
    return text.partition(";")[0].strip().lower()


def body_type(header: str | None, taken: Sequence[str]) -> str:
    """The type of a body, one of those that the route takes. Raises HttpError(415)."""
    given = essence(header or "")
    if given in taken:
        return given
    listed = ", ".join(taken)
    if not given:
        raise HttpError(415, f"the request has a body and no Content-Type: expected {listed}")
    raise HttpError(415, f"Content-Type {given[:100]} is not served here: expected {listed}")


def answer_type(header: str | None, given: Sequence[str]) -> str:
    """The type of the answer, one of those that the route gives. Raises HttpError(406)."""
    if header is None or not header.strip():
        return given[0]
    wanted = [_weighed(part) for part in header.split(",") if part.strip()]
    best: tuple[float, int, int, str] | None = None
    for rank, offered in enumerate(given):
        fits = [
            (exactness, weight) for name, weight in wanted if (exactness := _fit(name, offered)) is not None
        ]
        if fits:
            exactness, weight = max(fits)
            candidate = (weight, exactness, -rank, offered)
            if weight > 0 and (best is None or candidate > best):
                best = candidate
    if best is None:
        raise HttpError(406, f"Accept {header.strip()[:100]} cannot be served here: {', '.join(given)} can")
    return best[3]


def _weighed(part: str) -> tuple[str, float]:
    name, *parameters = part.split(";")
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                return name.strip().lower(), float(value)
            except ValueError:
                return name.strip().lower(), 0.0
    return name.strip().lower(), 1.0


def _fit(wanted: str, offered: str) -> int | None:
    """How exactly an accepted range names a type: 2 by name, 1 by its family, 0 by `*/*`; None if not at all."""
    if wanted == offered:
        return 2
    family, _, subtype = wanted.partition("/")
    if subtype == "*" and family == offered.partition("/")[0]:
        return 1
    return 0 if wanted == "*/*" else None
