"""One value by one schema, each way, in the JSON forms of Confluent's proxy.

The packages behind the formats are imported when a format is first used: most gateways have them, and none needs all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ottla.gateway.http.machine.http_error import HttpError
from ottla.schemas.json_schema.safe_patterns import unsafe_pattern
from ottla.schemas.schema import AVRO, JSON, PROTOBUF
from ottla.schemas.wire_format import Framed, with_prefix
from ottla.serializers.decoding import SchemaSource, imports_of
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import RegistrySchema

_MOST_REMEMBERED: Final = 256


def encoded(source: SchemaSource, schema: RegistrySchema, value: object) -> bytes:
    """The value with the id of its schema before it. Raises SchemaDataError, and HttpError(501)."""
    try:
        if schema.type == AVRO:
            from ottla.serializers.avro import avro_bytes, avro_from_json

            return with_prefix(schema.id, avro_bytes(source, schema, avro_from_json(source, schema, value)))
        if schema.type == JSON:
            from ottla.serializers.json_schema import json_bytes

            _refuse_unsafe(schema.text, *(each.text for each in imports_of(source, schema)))
            return with_prefix(schema.id, json_bytes(source, schema, value, validate=True))
        from ottla.serializers.protobuf import protobuf_bytes

        assert schema.type == PROTOBUF
        written = protobuf_bytes(source, schema, value)
        return with_prefix(schema.id, written.place + written.data)
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from missing


def decoded(source: SchemaSource, schema: RegistrySchema, read: Framed) -> Any:
    """The value as JSON. Raises SchemaDataError, and HttpError(501)."""
    try:
        if schema.type == AVRO:
            from ottla.serializers.avro import avro_as_json, avro_value

            return avro_as_json(source, schema, avro_value(source, schema, read.payload))
        if schema.type == JSON:
            from ottla.gateway.http.machine.json_bodies import parse_json

            try:
                return parse_json(read.payload)
            except ValueError as error:
                raise SchemaDataError(f"the data behind the schema id is not JSON: {error}") from error
        from ottla.serializers.protobuf import protobuf_as_json, protobuf_message

        return protobuf_as_json(protobuf_message(source, schema, read))
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from missing


def not_installed(missing: ModuleNotFoundError) -> HttpError:
    """The gateway lacks a package for a format."""
    return HttpError(501, f"this gateway has no {missing.name}: pip install 'ottla[schemas]' beside it")


@lru_cache(maxsize=_MOST_REMEMBERED)
def _refuse_unsafe(*texts: str) -> None:
    pattern = unsafe_pattern(texts)
    if pattern is not None:
        raise SchemaDataError(
            f"the schema has a regular expression that could take too long to check here ({pattern[:100]!r}): "
            "simplify it, or write with a serializer and send binary"
        )
