"""Lines become records: for people a value, or a key and a value with a separator between; for programs JSON.

JSON is what `ottla consume --json` prints: text or `{"base64": ...}` for bytes, null for null. A value of any
other kind is written as the JSON it is, so that a file of plain JSON documents under "value" can be sent as
well.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla.records.record import Header

_FIELDS = {"topic", "partition", "offset", "timestamp_ms", "key", "value", "headers"}


@dataclass(frozen=True, slots=True)
class LineRecord:
    """The record of one line."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


LineParser: TypeAlias = Callable[[bytes], LineRecord]


def value_line(line: bytes) -> LineRecord:
    """The whole line is the value."""
    return LineRecord(line)


def key_value_line(separator: bytes) -> LineParser:
    """The text before the first separator is the key."""

    def parse(line: bytes) -> LineRecord:
        key, found, value = line.partition(separator)
        if not found:
            raise ValueError(f"there is no {separator.decode(errors='replace')!r} between a key and a value")
        return LineRecord(value, key)

    return parse


def json_line(line: bytes) -> LineRecord:
    """A JSON object with `value`, and perhaps `key`, `headers`, `partition` and `timestamp_ms`."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError('it is not a JSON object: write {"value": ...}')
    if unknown := document.keys() - _FIELDS:
        known = "value, key, headers, partition and timestamp_ms"
        raise ValueError(f'a record has no field "{min(unknown)}": there are {known}')
    return LineRecord(
        value=_bytes(document.get("value")),
        key=_bytes(document.get("key")),
        partition=_number(document, "partition"),
        headers=_headers(document.get("headers", [])),
        timestamp_ms=_number(document, "timestamp_ms"),
    )


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return b64decode(value["base64"], validate=True)
        except (Base64Error, TypeError, ValueError) as error:
            raise ValueError(f"it is not base64: {error}") from None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _number(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f'"{name}" is a number from 0 on, not {value!r}')
    return value


def _headers(value: Any) -> tuple[Header, ...]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError('"headers" is an object, or a list of [name, value]')
    return tuple((name, _bytes(content)) for name, content in pairs)
