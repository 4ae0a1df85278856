"""Keys, values and headers from objects to bytes and back.

A serializer is any function from a value to bytes, a deserializer any function from bytes to a value. None is
null in both directions: the functions are not called for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, TypeAlias

from ottla.client.producer.machine.delivery_report import ProducerRecord, SerializationError
from ottla.errors import ErrorCode
from ottla.records.record import Header

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
    serializer: Serializer | None, data: object, record: tuple[str, object, object]
) -> bytes | None:
    """A key or value as bytes, by `serializer` or as `serialize_plain` does it.

    Raises SerializationError with the record (topic, value, key).
    """
    if data is None or (serializer is None and type(data) is bytes):
        return data
    try:
        made = (serializer or serialize_plain)(data)
        if not isinstance(made, bytes):
            raise TypeError(f"the serializer made a {type(made).__name__} of it, not bytes")
    except Exception as error:
        topic, value, key = record
        message = f"a record for {topic} cannot be turned into bytes: {error}"
        raise SerializationError(
            ErrorCode.INVALID_RECORD, message, (ProducerRecord(topic, value, key),)
        ) from error
    return made


def checked_headers(headers: Headers) -> tuple[Header, ...]:
    """Headers as pairs of text and bytes. Raises TypeError for other names and values."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    made: list[Header] = []
    for name, content in pairs:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {name!r}")
        made.append((name, None if content is None else serialize_plain(content)))
    return tuple(made)
