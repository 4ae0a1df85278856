"""Keys and values from objects to bytes and back.

A serializer is any function from a value to bytes, a deserializer any function from bytes to a value. None is
null in both directions: the functions are not called for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, TypeAlias

Serializer: TypeAlias = Callable[[Any], bytes]


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
