"""REST v2's formats: the key and the value of a record inside a JSON document.

`json` means that the bytes of the record are JSON themselves, `binary` that they are written as base64. A null is a
record without a key, or a deleted value, in both.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from typing import Any, Final, Literal

from ottla.gateway.http.machine.json_bodies import kind_of, parse_json

EmbeddedFormat = Literal["json", "binary"]
FORMATS: Final[tuple[EmbeddedFormat, ...]] = ("json", "binary")
# By the names that Confluent's clients send. The third form is for people with curl.
MEDIA_TYPES: Final[dict[str, EmbeddedFormat]] = {
    "application/vnd.kafka.json.v2+json": "json",
    "application/vnd.kafka.binary.v2+json": "binary",
}
V2: Final = "application/vnd.kafka.v2+json"


def to_bytes(form: EmbeddedFormat, value: Any) -> bytes | None:
    """The bytes of a key or value. Raises ValueError with a phrase."""
    if value is None:
        return None
    if form == "json":
        return json_bytes(value)
    if not isinstance(value, str):
        raise ValueError(f"it must be base64 in a text, not {kind_of(value)}")
    return base64_bytes(value)


def from_bytes(form: EmbeddedFormat, data: bytes | None) -> Any:
    """A key or value for a JSON document. Raises ValueError with a phrase."""
    if data is None:
        return None
    if form == "json":
        return parse_json(data)
    return b64encode(data).decode("ascii")


def json_bytes(value: Any) -> bytes:
    """The bytes of a JSON value, as Confluent's serializer writes them: compact, in UTF-8."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            "it has a character that Unicode does not have (half of a surrogate pair)"
        ) from error


def base64_bytes(text: str) -> bytes:
    """Raises ValueError with a phrase."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"it is not base64: {str(error).lower()}") from error
