"""JSON texts of schemas: strict about what is no JSON, and the one compact form to write them in."""

from __future__ import annotations

import json
from typing import Any

from ottla.schemas.schema import InvalidSchemaError


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises InvalidSchemaError."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise InvalidSchemaError("the schema is nested too deeply") from error
    except ValueError as error:
        raise InvalidSchemaError(f"the schema is not JSON: {error}") from error


def to_json(value: Any) -> str:
    """Without spaces, in the order of the keys."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
