"""Keys, values and headers from objects to bytes and back.

A serializer is any function from a value to bytes, a deserializer any function from bytes to a value. None is
null in both directions: the functions are not called for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, Final, TypeAlias

from ottla.client.calls.arguments import text
from ottla.client.producer.machine.delivery_report import ProducerRecord, SerializationError
from ottla.errors import ErrorCode
from ottla.records.record import Header

_SHORT_NAME: Final = 1000  # characters of a name that any protocol has room for

Serializer: TypeAlias = Callable[[Any], bytes]
Headers: TypeAlias = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


def serialize_plain(value: object) -> bytes:
    """Bytes as they are, text as UTF-8, and nothing else: the producer's default."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {type(value).__name__} is neither bytes nor text: give the producer a serializer, for example "
        "value_serializer=ottla.serialize_json"
    )


def serialize_text(value: str) -> bytes:
    """UTF-8."""
    return value.encode()


def deserialize_text(data: bytes) -> str:
    """UTF-8."""
    return data.decode()


def serialize_json(value: object) -> bytes:
    """JSON without spaces, in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def deserialize_json(data: bytes) -> Any:
    """The value of a JSON document."""
    return json.loads(data)


class AvroCodec:
    """Avro's binary encoding of one schema, without a header; needs the package fastavro."""

    def __init__(self, schema: Mapping[str, Any] | list[Any] | str) -> None:
        try:
            self._fastavro = import_module("fastavro")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "Avro needs the package fastavro: pip install fastavro", name="fastavro"
            ) from error
        self._schema = self._fastavro.parse_schema(json.loads(schema) if isinstance(schema, str) else schema)

    def serialize(self, value: object) -> bytes:
        """The value, which must fit the schema."""
        out = BytesIO()
        self._fastavro.schemaless_writer(out, self._schema, value)
        return out.getvalue()

    def deserialize(self, data: bytes) -> Any:
        """The value that was written with the schema."""
        return self._fastavro.schemaless_reader(BytesIO(data), self._schema)


def serialized(
    part: str, serializer: Serializer | None, data: object, record: tuple[str, object, object]
) -> bytes | None:
    """The key or the value (`part`) as bytes, by `serializer` or as `serialize_plain` does it.

    Raises SerializationError with the record (topic, value, key).
    """
    if data is None or (serializer is None and type(data) is bytes):
        return data
    try:
        made = (serializer or serialize_plain)(data)
        if not isinstance(made, bytes):
            raise TypeError(f"{part}_serializer made a {type(made).__name__}, not bytes")
    except Exception as error:
        topic, value, key = record
        cause = f"{part}_serializer failed: {error!r}" if serializer else str(error)
        message = f"the {part} of a record for {topic} cannot be turned into bytes: {cause}"
        raise SerializationError(
            ErrorCode.INVALID_RECORD, message, (ProducerRecord(topic, value, key),)
        ) from error
    return made


def checked_headers(headers: Headers) -> tuple[Header, ...]:
    """Headers as pairs of text and bytes. Raises TypeError or ValueError for other names and values."""
    # Dense: most headers are pairs of a short name and bytes already, and looking costs a third of making them.
    if type(headers) is list or type(headers) is tuple:
        for pair in headers:
            if type(pair) is not tuple or len(pair) != 2:
                break
            name, content = pair
            if (
                type(name) is not str
                or not name.isascii()
                or len(name) > _SHORT_NAME
                or type(content) is not bytes
            ):
                break
        else:
            return tuple(headers)
    return _made_headers(headers)


def _made_headers(headers: Headers) -> tuple[Header, ...]:
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(
            f'headers must be a dict, or a list of pairs such as ("name", b"value"), not {headers!r}'
        )
    made: list[Header] = []
    for pair in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f'headers must be pairs such as ("name", b"value"), not {pair!r}')
        name, content = text("each name in headers", pair[0]), pair[1]
        if content is not None and not isinstance(content, str | bytes | bytearray | memoryview):
            raise TypeError(f'headers["{name}"] must be bytes or text, not a {type(content).__name__}')
        try:
            made.append((name, None if content is None else serialize_plain(content)))
        except UnicodeEncodeError as error:
            raise ValueError(f'headers["{name}"] cannot be turned into bytes: {error}') from None
    return tuple(made)
