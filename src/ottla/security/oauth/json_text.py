"""JSON and base64 as they stand in tokens and key sets. They come from strangers: every defect is a ValueError."""

import json
from base64 import urlsafe_b64decode
from typing import Any


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object in UTF-8 text."""
    try:
        value = json.loads(data.decode())
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("JSON that is not an object")
    return value


def base64url_bytes(text: object) -> bytes:
    """The bytes of base64url text without padding."""
    if not isinstance(text, str) or "=" in text:
        raise ValueError("no base64url text without padding")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
