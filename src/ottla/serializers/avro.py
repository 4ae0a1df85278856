"""Avro by a registry: values that fastavro writes and reads, and readers with a schema of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

from ottla.schemas.avro.canonical import canonical_text
from ottla.schemas.avro.parser import parse_avro
from ottla.schemas.avro.types import Enumeration, Fixed, Record
from ottla.schemas.schema import AVRO, Imported, Reference
from ottla.serializers.decoding import RegistryDeserializer, imports_of
from ottla.serializers.encoding import Encoder, RegistrySerializer, Written
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema
from ottla.serializers.wire_format import Framed

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
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, _parsed(self._registry, schema), value)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SchemaDataError(f"the value does not fit the schema: {error!r}") from error
        return Written(out.getvalue())


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
        buffer = BytesIO(read.payload)
        try:
            value = fastavro.schemaless_reader(buffer, _parsed(self._registry, schema), self._reader)
        except (ValueError, TypeError, KeyError, EOFError, IndexError, OverflowError, MemoryError) as error:
            raise SchemaDataError(
                f"the data cannot be read by the schema with id {schema.id}: {error!r}"
            ) from error
        except SchemaResolutionError as error:
            raise SchemaDataError(f"the reader's schema cannot read the writer's: {error}") from error
        return value


def _parsed(registry: Registry, schema: RegistrySchema) -> Any:
    return _parsed_text(schema.text, tuple(imports_of(registry, schema)))


@lru_cache(maxsize=_MOST_PARSED)
def _parsed_text(text: str, imports: tuple[Imported, ...]) -> Any:
    named: dict[str, Any] = {}
    for each in imports:
        fastavro.parse_schema(json.loads(each.text), named)
    return fastavro.parse_schema(json.loads(text), named)
