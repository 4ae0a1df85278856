"""Any record as JSON: for stateless reads, event streams and WebSockets, whose callers may not know what they get.

A part whose bytes are JSON is shown as that JSON. One that is other text is shown as text, one that is no text as
base64, and `key_encoding` or `value_encoding` says so ("text" or "base64"). So a part without a note is JSON, and
every record can be shown, and made again from what is shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.http.machine.json_bodies import kind_of, parse_json
from ottla.gateway.records.machine.embedded import base64_bytes, json_bytes
from ottla.records.record import Header

ENCODINGS = ("json", "text", "base64")


# A key or a value by its name: fields to show instead, or None if there is nothing better than its bytes.
ShownPart = Callable[[str, bytes, ConsumerRecord], dict[str, Any] | None]


def described(record: ConsumerRecord, by_schema: ShownPart | None = None) -> dict[str, Any]:
    """A record with its place, its time and its headers."""
    shown: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    for name, data in (("key", record.key), ("value", record.value)):
        fields = by_schema(name, data, record) if by_schema is not None and data is not None else None
        if fields is not None:
            shown |= fields
            continue
        value, encoding = shown_part(data)
        shown[name] = value
        if encoding is not None:
            shown[f"{name}_encoding"] = encoding
    shown["headers"] = _shown_headers(record.headers)
    return shown


def shown_part(data: bytes | None) -> tuple[Any, str | None]:
    """A key or value, and how it is written if it is not JSON."""
    if data is None:
        return None, None
    try:
        value = parse_json(data)
    except ValueError:
        try:
            return data.decode("utf-8"), "text"
        except UnicodeDecodeError:
            return b64encode(data).decode("ascii"), "base64"
    # The JSON text `null` is four bytes, and no missing value.
    return (value, None) if value is not None else ("null", "text")


def part_bytes(name: str, value: Any, encoding: object) -> bytes | None:
    """The bytes of a key or value that a caller wrote, by the same rules. Raises ValueError with a sentence.

    Without an encoding a value is JSON. A key that is a text is that text: so a record goes to the partition where
    other clients put the same key.
    """
    if value is None:
        return None
    if encoding is None:
        encoding = "text" if name == "key" and isinstance(value, str) else "json"
    try:
        if encoding == "json":
            return json_bytes(value)
        if encoding not in ENCODINGS:
            raise ValueError(f"its encoding must be one of {', '.join(ENCODINGS)}")
        if not isinstance(value, str):
            raise ValueError(f"with the encoding {encoding} it must be a text, not {kind_of(value)}")
        return base64_bytes(value) if encoding == "base64" else value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the {name} has a character that Unicode does not have") from error
    except ValueError as error:
        raise ValueError(f"the {name} cannot be used: {error}") from error


def header_pairs(headers: Any) -> list[Header]:
    """The headers that a caller wrote: an object of texts, or of lists of texts. Raises ValueError."""
    if headers is None:
        return []
    if not isinstance(headers, dict):
        raise ValueError(f"headers must be an object, not {kind_of(headers)}")
    pairs: list[Header] = []
    for name, values in headers.items():
        for value in values if isinstance(values, list) else [values]:
            if value is not None and not isinstance(value, str | dict):
                raise ValueError(f"the header {name[:100]!r} must be a text, null, or an object with base64")
            pairs.append((name, _header_bytes(name, value)))
    return pairs


def _header_bytes(name: str, value: str | dict[str, Any] | None) -> bytes | None:
    try:
        if isinstance(value, dict):
            encoded = value.get("base64")
            if not isinstance(encoded, str):
                raise ValueError('expected {"base64": "..."}')
            return base64_bytes(encoded)
        return None if value is None else value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the header {name[:100]!r} has a character that Unicode does not have") from error
    except ValueError as error:
        raise ValueError(f"the header {name[:100]!r} cannot be used: {error}") from error


def _shown_headers(headers: tuple[Header, ...]) -> dict[str, Any]:
    """By name; a name that occurs several times has a list."""
    shown: dict[str, Any] = {}
    for name, data in headers:
        value = _shown_header(data)
        if name not in shown:
            shown[name] = value
        elif isinstance(shown[name], list):
            shown[name].append(value)
        else:
            shown[name] = [shown[name], value]
    return shown


def _shown_header(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}
