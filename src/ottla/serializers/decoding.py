"""What the deserializers of all formats share: each record names the schema that it was written with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from ottla.schemas.schema import Imported, Reference
from ottla.schemas.wire_format import Framed, Headers, framed
from ottla.serializers.errors import SchemaDataError
from ottla.serializers.registry_client import Registry, RegistrySchema

# A circle of references would be followed for ever.
_MOST_REFERENCES = 500


class SchemaSource(Protocol):
    """Where the schemas behind references are found: a registry over HTTP, or one in the same process."""

    def version(self, subject: str, version: int | str = "latest") -> RegistrySchema: ...


class ReadRecord(Protocol):
    """What a deserializer needs of a consumer's record."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...


def writers_schema(registry: Registry, data: Framed, schema_type: str, context: str) -> RegistrySchema:
    """The schema that data names. Raises RegistryRequestError, ConnectionError and SchemaDataError."""
    if data.guid is not None:
        schema = registry.schema_of_guid(data.guid)
    else:
        assert data.id is not None
        schema = registry.schema_of_id(data.id, context)
    if schema.type != schema_type:
        named = f"id {data.id}" if data.guid is None else f"GUID {data.guid}"
        raise SchemaDataError(f"the schema with {named} is of type {schema.type}, and not {schema_type}")
    return schema


def imports_of(registry: SchemaSource, schema: RegistrySchema) -> list[Imported]:
    """All schemas behind a schema's references, each before those that need it."""
    found: dict[tuple[str, int], Imported] = {}
    open_places: set[tuple[str, int]] = set()

    def visit(references: tuple[Reference, ...]) -> None:
        for each in references:
            place = each.subject, each.version
            if place in open_places or len(open_places) > _MOST_REFERENCES:
                raise SchemaDataError(f"the references of the schema form a circle at {each.subject}")
            if place not in found:
                open_places.add(place)
                stored = registry.version(each.subject, each.version)
                visit(stored.references)
                open_places.discard(place)
                found[place] = Imported(each.name, stored.text)

    visit(schema.references)
    return list(found.values())


class RegistryDeserializer(ABC):
    """What the deserializers of all formats are: values of data that names its schema."""

    _type: str

    def __init__(self, registry: Registry, context: str = "") -> None:
        self._registry = registry
        self._context = context

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
        return self._value(writers_schema(self._registry, read, self._type, self._context), read)

    @abstractmethod
    def _value(self, schema: RegistrySchema, read: Framed) -> Any:
        """The value of data by its writer's schema. Raises SchemaDataError."""
