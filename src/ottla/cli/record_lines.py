"""Records as lines: for people the bytes as they are, for programs one JSON document per line.

Text for people is written as the bytes that were produced, not decoded and encoded again, so that `ottla consume` passes on
what it got; what is null is written as `null`. JSON has text where bytes are UTF-8, and `{"base64": ...}` where they are not.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.client.partition_reader import ConsumerRecord


def value_line(record: ConsumerRecord) -> bytes:
    return _bytes(record.value) + b"\n"


def key_value_line(record: ConsumerRecord) -> bytes:
    return _bytes(record.key) + b"\t" + _bytes(record.value) + b"\n"


def json_line(record: ConsumerRecord) -> bytes:
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    # A header's name may hold bytes that are no text; they come out as \\udcXX.
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


FORMATS: Final[Mapping[str, Callable[[ConsumerRecord], bytes]]] = {
    "value": value_line,
    "key-value": key_value_line,
    "json": json_line,
}


def lines(records: Iterable[ConsumerRecord], form: str) -> bytes:
    """The lines of all of them."""
    return b"".join(map(FORMATS[form], records))


def _bytes(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
