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
from ottla.serializers.decoding import ReadRecord, imports_of, writers_schema
from ottla.serializers.encoding import Encoder
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema
from ottla.serializers.wire_format import Headers, framed

try:
    import fastavro
    from fastavro.read import SchemaResolutionError
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Avro needs the package fastavro: pip install 'ottla[schemas]'", name="fastavro"
    ) from missing

_MOST_PARSED = 256


class AvroSerializer:
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

    def __call__(self, value: object) -> bytes:
        """The value, with the id of its schema before it. Raises SchemaDataError."""
        return self._encoder.prefixed(None, lambda schema: self._written(schema, value))

    def serialize(self, value: object, topic: str) -> bytes:
        """The same for another topic than the serializer's own."""
        return self._encoder.prefixed(topic, lambda schema: self._written(schema, value))

    def with_header(self, value: object, topic: str | None = None) -> tuple[bytes, list[tuple[str, Any]]]:
        """The value without a prefix, and the headers that name its schema: for `producer.send(..., headers=)`."""
        return self._encoder.headed(topic, lambda schema: self._written(schema, value))

    def prepare(self) -> None:
        """Register or look up the schema now, and not at the first value."""
        self._encoder.registered()

    def _written(self, schema: RegistrySchema, value: object) -> bytes:
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, _parsed(self._registry, schema), value)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SchemaDataError(f"the value does not fit the schema: {error!r}") from error
        return out.getvalue()


class AvroDeserializer:
    """Values from Avro, each by the schema that it names; with `schema`, in the form of that one.

    The reader's schema may have other fields than the writer's: Avro's rules say what becomes of them.
    """

    def __init__(
        self,
        registry: Registry,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        references: Sequence[Reference] = (),
        context: str = "",
    ) -> None:
        self._registry = registry
        self._context = context
        self._reader: Any = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            own = RegistrySchema(text, AVRO, tuple(Reference(*each) for each in references))
            parse_avro(text, imports_of(registry, own))  # its messages say what is wrong and where
            self._reader = _parsed(registry, own)

    def __call__(self, data: bytes) -> Any:
        """The value of data with a prefix. Raises SchemaDataError."""
        return self.deserialize(data)

    def value_of(self, record: ReadRecord) -> Any:
        """The value of a record; None for null."""
        return None if record.value is None else self.deserialize(record.value, "value", record.headers)

    def key_of(self, record: ReadRecord) -> Any:
        """The key of a record; None for null."""
        return None if record.key is None else self.deserialize(record.key, "key", record.headers)

    def deserialize(self, data: bytes, part: str = "value", headers: Headers = ()) -> Any:
        """The value of data that names its schema, in its prefix or in a header."""
        read = framed(data, part, headers)
        schema = writers_schema(self._registry, read, AVRO, self._context)
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
