"""Records as lines: for people the bytes as they are, for programs one JSON document per line.

Other lines are written by a template, `{key}: {value}`, with the names of a record's fields.

Text for people is written as the bytes that were produced, not decoded and encoded again, so that `ottla
consume` passes on what it got; what is null is written as `null`. JSON has text where bytes are UTF-8, and
`{"base64": ...}` where they are not.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord


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


_FIELDS: Final[Mapping[str, Callable[[ConsumerRecord], bytes]]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % record.timestamp_ms,
    "key": lambda record: _bytes(record.key),
    "value": lambda record: _bytes(record.value),
    "headers": lambda record: b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + _bytes(value) for name, value in record.headers
    ),
}
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}


def line_format(form: str) -> Callable[[ConsumerRecord], bytes]:
    """How a record becomes a line: one of `FORMATS`, or a template with fields in braces. Raises ValueError
    with a sentence.
    """
    if form in FORMATS:
        return FORMATS[form]
    if "{" not in form:
        raise ValueError(
            f'--format: "{form}" is neither {", ".join(FORMATS)} nor a template like "{{offset}} {{value}}"'
        )
    form = re.sub(r"\\[nt\\]", lambda found: _ESCAPES[found[0]], form)
    parts: list[Callable[[ConsumerRecord], bytes]] = []
    for place, text in enumerate(re.split(r"\{(\w*)\}", form)):
        if place % 2 == 0:
            parts.append(partial(_literal, text.encode()))
        elif text in _FIELDS:
            parts.append(_FIELDS[text])
        else:
            raise ValueError(f'a record has no "{text}": it has {", ".join(_FIELDS)}')
    return lambda record: b"".join([part(record) for part in parts]) + b"\n"


def _literal(text: bytes, record: ConsumerRecord) -> bytes:
    return text


def lines(records: Iterable[ConsumerRecord], form: Callable[[ConsumerRecord], bytes]) -> bytes:
    """The lines of all of them."""
    return b"".join(map(form, records))


def _bytes(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
