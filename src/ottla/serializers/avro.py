"""Avro by a registry: values that fastavro writes and reads, and readers with a schema of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO, StringIO
from typing import Any

from ottla.schemas.avro.canonical import canonical_text
from ottla.schemas.avro.parser import parse_avro
from ottla.schemas.avro.types import Enumeration, Fixed, Record
from ottla.schemas.schema import AVRO, Imported, Reference
from ottla.schemas.wire_format import Framed
from ottla.serializers.decoding import RegistryDeserializer, SchemaSource, imports_of
from ottla.serializers.encoding import Encoder, RegistrySerializer, Written
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema

try:
    import fastavro
    from fastavro.read import SchemaResolutionError
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Avro needs the package fastavro: pip install 'ottla[schemas]'", name="fastavro"
    ) from missing

_MOST_PARSED = 256


class AvroSerializer(RegistrySerializer):
    """A function from values to Avro with the id of its schema, for `value_serializer` and `key_serializer`.

    `schema` is a JSON text, or the value of one; `references` are schemas of the registry that it needs. The subject
    is `{topic}-{part}`, or what `subject_name` makes of the topic and the record's name. Other options: see Encoder.
    """

    def __init__(
        self,
        registry: Registry,
        schema: str | Mapping[str, Any] | list[Any],
        *,
        references: Sequence[Reference] = (),
        **options: Any,
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        sent = RegistrySchema(text, AVRO, tuple(Reference(*each) for each in references))
        parsed = parse_avro(text, imports_of(registry, sent))
        root = parsed.resolved(parsed.root)
        name = root.full_name if isinstance(root, Record | Enumeration | Fixed) else None
        self._registry = registry
        self._encoder = Encoder(registry, sent._replace(text=canonical_text(parsed)), name, **options)

    def _written(self, schema: RegistrySchema, value: object) -> Written:
        return Written(avro_bytes(self._registry, schema, value))


class AvroDeserializer(RegistryDeserializer):
    """Values from Avro, each by the schema that it names; with `schema`, in the form of that one.

    The reader's schema may have other fields than the writer's: Avro's rules say what becomes of them.
    """

    _type = AVRO

    def __init__(
        self,
        registry: Registry,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        references: Sequence[Reference] = (),
        context: str = "",
    ) -> None:
        super().__init__(registry, context)
        self._reader: Any = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            own = RegistrySchema(text, AVRO, tuple(Reference(*each) for each in references))
            parse_avro(text, imports_of(registry, own))  # its messages say what is wrong and where
            self._reader = _parsed(registry, own)

    def _value(self, schema: RegistrySchema, read: Framed) -> Any:
        return avro_value(self._registry, schema, read.payload, self._reader)


def avro_bytes(registry: SchemaSource, schema: RegistrySchema, value: object) -> bytes:
    """A value by a schema. Raises SchemaDataError."""
    out = BytesIO()
    try:
        fastavro.schemaless_writer(out, _parsed(registry, schema), value)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise SchemaDataError(f"the value does not fit the schema: {error!r}") from error
    return out.getvalue()


def avro_value(registry: SchemaSource, schema: RegistrySchema, data: bytes, reader: Any = None) -> Any:
    """The value of data by its writer's schema, in the form of the reader's. Raises SchemaDataError."""
    try:
        return fastavro.schemaless_reader(BytesIO(data), _parsed(registry, schema), reader)
    except (ValueError, TypeError, KeyError, EOFError, IndexError, OverflowError, MemoryError) as error:
        raise SchemaDataError(
            f"the data cannot be read by the schema with id {schema.id}: {error!r}"
        ) from error
    except SchemaResolutionError as error:
        raise SchemaDataError(f"the reader's schema cannot read the writer's: {error}") from error


def avro_from_json(registry: SchemaSource, schema: RegistrySchema, value: object) -> Any:
    """A value out of Avro's JSON encoding: unions name their branch, bytes are texts. Raises SchemaDataError."""
    try:
        (made,) = fastavro.json_reader(StringIO(json.dumps(value)), _parsed(registry, schema))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise SchemaDataError(f"the value does not fit the schema: {error!r}") from error
    return made


def avro_as_json(registry: SchemaSource, schema: RegistrySchema, value: object) -> Any:
    """A value in Avro's JSON encoding. Raises SchemaDataError."""
    out = StringIO()
    try:
        fastavro.json_writer(out, _parsed(registry, schema), [value])
        return json.loads(out.getvalue())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SchemaDataError(f"the value cannot be written as JSON: {error!r}") from error


def _parsed(registry: SchemaSource, schema: RegistrySchema) -> Any:
    return _parsed_text(schema.text, tuple(imports_of(registry, schema)))


@lru_cache(maxsize=_MOST_PARSED)
def _parsed_text(text: str, imports: tuple[Imported, ...]) -> Any:
    named: dict[str, Any] = {}
    for each in imports:
        fastavro.parse_schema(json.loads(each.text), named)
    return fastavro.parse_schema(json.loads(text), named)
