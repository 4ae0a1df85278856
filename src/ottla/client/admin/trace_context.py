"""The W3C trace context in the headers of a record: which trace a record belongs to, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
_FORM: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?:-.*)?"
)
_NONE: Final = re.compile("0+")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A trace, the span in it that wrote the record, and whether that was recorded."""

    trace_id: str
    span_id: str
    is_sampled: bool
    state: str = ""


def trace_context_of(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """The context in a record's headers; None if there is none, or none that W3C's rules allow."""
    found = {name.lower(): value for name, value in headers if name.lower() in (TRACEPARENT, TRACESTATE)}
    text = (found.get(TRACEPARENT) or b"").decode("ascii", "replace").strip()
    match = _FORM.fullmatch(text)
    if match is None or match["version"] == "ff":
        return None
    if _NONE.fullmatch(match["trace"]) or _NONE.fullmatch(match["span"]):
        return None
    state = (found.get(TRACESTATE) or b"").decode("ascii", "replace")
    return TraceContext(match["trace"], match["span"], bool(int(match["flags"], 16) & 1), state)
