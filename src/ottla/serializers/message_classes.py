"""Classes of Protobuf messages by the schemas of a registry, made without protoc. Each schema has a pool of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from ottla.schemas.protobuf.descriptor_writer import file_descriptor
from ottla.schemas.protobuf.model import ProtobufSchema, parse_protobuf
from ottla.schemas.protobuf.types import File
from ottla.schemas.schema import Imported
from ottla.serializers.errors import SchemaDataError

try:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "Protobuf needs the package protobuf: pip install 'ottla[schemas]'", name="protobuf"
    ) from missing

_MOST_PARSED: Final = 256
_OWN_FILE: Final = "default"


class MessageClasses:
    """The messages of one schema, by name and by place."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._pool = DescriptorPool()
        added: set[str] = set()
        for name in schema.imported:
            self._add(name, schema.imported[name], added)
        self._add(_OWN_FILE, schema.file, added)

    def _add(self, name: str, file: File, added: set[str]) -> None:
        if name in added:
            return
        added.add(name)
        for each in (*file.imports, *file.public_imports):
            if each in self._schema.imported:
                self._add(each, self._schema.imported[each], added)
        try:
            self._pool.AddSerializedFile(file_descriptor(file, self._schema.table, name))
        except TypeError as error:  # Protobuf's own package refuses the file
            raise SchemaDataError(f"the schema cannot be used: {error}") from error

    def at(self, indexes: Sequence[int]) -> Any:
        """The class of the message at a place. Raises SchemaDataError."""
        found = self._schema.message_at(indexes)
        if found is None:
            raise SchemaDataError(f"the schema has no message at {list(indexes)}")
        return self.named(found[0])

    def named(self, full_name: str) -> Any:
        """The class of a message. Raises SchemaDataError."""
        try:
            return GetMessageClass(self._pool.FindMessageTypeByName(full_name))
        except KeyError:
            raise SchemaDataError(f"the schema has no message {full_name}") from None

    def place_of(self, full_name: str) -> list[int]:
        """The place of a message. Raises SchemaDataError."""
        found = self._schema.indexes_of(full_name)
        if found is None:
            raise SchemaDataError(f"the schema has no message {full_name}")
        return found

    def first(self) -> str:
        """The full name of the first message. Raises SchemaDataError."""
        found = self._schema.message_at([0])
        if found is None:
            raise SchemaDataError("the schema has no message")
        return found[0]


@lru_cache(maxsize=_MOST_PARSED)
def message_classes(text: str, imports: tuple[Imported, ...]) -> MessageClasses:
    """The messages of a schema. Raises InvalidSchemaError and SchemaDataError."""
    return MessageClasses(parse_protobuf(text, imports))
