"""JSON in, JSON out, with a clear refusal for what is no JSON.

Python's parser is kinder than RFC 8259: NaN and Infinity are refused here, and text that is no UTF-8. Nesting that
is too deep, and numbers with thousands of digits, are refused by the parser itself.
"""

from __future__ import annotations

import json
from typing import Any

from ottla.gateway.http.machine.http_error import HttpError, unprocessable


def parse_json(data: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError with a phrase."""
    try:
        return json.loads(data, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ValueError("it is not text in UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def json_object(body: bytes) -> dict[str, Any]:
    """The body of a request that must be a JSON object. Raises HttpError(400 or 422)."""
    try:
        value = parse_json(body)
    except ValueError as error:
        raise HttpError(400, f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise unprocessable(f"the body must be a JSON object, not {kind_of(value)}")
    return value


def to_json(value: Any) -> bytes:
    """Compact, in UTF-8. A character that Unicode has not (half a pair) becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def kind_of(value: object) -> str:
    """What a JSON value is called, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
