"""Whether a reader's Protobuf schema can read what was written with a writer's, by the rules of Confluent's registry.

Most changes are harmless: data names fields by number, and unknown numbers are skipped. What is not harmless: another
package, a message that is gone, a field of another kind, a number that is repeated or no longer so, a required field
that came or went, and fields that exclude each other in the reader only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.schemas.protobuf.model import OWN, ProtobufSchema
from ottla.schemas.protobuf.type_table import TypeTable, qualified
from ottla.schemas.protobuf.types import SCALARS, Enumeration, Field, Message, OneOf
from ottla.schemas.schema import Incompatibility, InvalidSchemaError

# Scalars of one family have one form in data.
_FAMILIES: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), "text"),
    **dict.fromkeys(("fixed32", "sfixed32"), "32 bits"),
    **dict.fromkeys(("fixed64", "sfixed64"), "64 bits"),
    "float": "float",
    "double": "double",
}
# Of comparisons of two fields; a schema of a megabyte has a quarter of them.
_MOST_STEPS: Final = 200_000


def unreadable(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Incompatibility]:
    """Why the reader's schema cannot read the writer's data; nothing if it can."""
    found: list[Incompatibility] = []
    if reader.file.package != writer.file.package:
        message = f"the reader's package is {reader.file.package!r}, the writer's is {writer.file.package!r}"
        found.append(Incompatibility("PACKAGE_CHANGED", "#/", message))
    walk = _Walk(reader.table, writer.table)
    return found + walk.nested(reader.file.messages, writer.file.messages, "#", _Scopes.of(reader, writer))


class _Scopes:
    """Where the names of types are resolved: in the reader's schema, and in the writer's."""

    __slots__ = ("reader", "writer")

    def __init__(self, reader: str, writer: str) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    def of(cls, reader: ProtobufSchema, writer: ProtobufSchema) -> _Scopes:
        return cls(reader.file.package, writer.file.package)

    def within(self, name: str) -> _Scopes:
        return _Scopes(qualified(self.reader, name), qualified(self.writer, name))


class _Walk:
    """One comparison. `_imported` are pairs of imported messages that were compared, or are being compared."""

    def __init__(self, reader: TypeTable, writer: TypeTable) -> None:
        self._reader = reader
        self._writer = writer
        self._imported: dict[tuple[str, str], list[Incompatibility]] = {}
        self._steps = 0

    def nested(
        self, reader: Sequence[Message], writer: Sequence[Message], path: str, scopes: _Scopes
    ) -> list[Incompatibility]:
        """The messages of a file, or those in a message."""
        found: list[Incompatibility] = []
        read = {each.name: each for each in reader}
        for each in writer:
            where = f"{path}/{each.name}"
            mine = read.get(each.name)
            if mine is not None:
                found += self._messages(mine, each, where, scopes.within(each.name))
            elif not each.is_map_entry:
                message = f"the reader's schema lacks the message {each.name}"
                found.append(Incompatibility("MESSAGE_REMOVED", where, message))
        return found

    def _messages(
        self, reader: Message, writer: Message, path: str, scopes: _Scopes
    ) -> list[Incompatibility]:
        found = self._one_ofs(reader, writer, path)
        read = {each.number: each for each in reader.all_fields()}
        written = {each.number: each for each in writer.all_fields()}
        place = {field.number: each.name for each in reader.one_ofs for field in each.fields}
        for number in sorted(read.keys() | written.keys()):
            self._count()
            mine, theirs = read.get(number), written.get(number)
            where = f"{path}/{place[number]}/{number}" if number in place else f"{path}/{number}"
            if mine is not None and theirs is not None:
                found += self._fields(mine, theirs, where, scopes)
            elif mine is not None and mine.label == "required":
                message = f"the reader's field {mine.name} is required, and the writer does not have it"
                found.append(Incompatibility("REQUIRED_FIELD_ADDED", where, message))
            elif theirs is not None and theirs.label == "required":
                message = f"the reader's schema lacks the writer's required field {theirs.name}"
                found.append(Incompatibility("REQUIRED_FIELD_REMOVED", where, message))
        return found + self.nested(reader.messages, writer.messages, path, scopes)

    def _one_ofs(self, reader: Message, writer: Message, path: str) -> list[Incompatibility]:
        """Fields that exclude each other in the reader must have done so in the writer."""
        place = {field.number: each.name for each in writer.one_ofs for field in each.fields}
        alone = {each.number for each in writer.fields}
        found: list[Incompatibility] = []
        for each in reader.one_ofs:
            moved = [field.number for field in each.fields if field.number in alone]
            groups = len(moved) + len({place[field.number] for field in each.fields if field.number in place})
            if groups > 1:
                found.append(_newly_exclusive(each, moved, path))
        read = {field.number for field in reader.all_fields()}
        kept = {each.name for each in reader.one_ofs}
        for one_of in writer.one_ofs:
            survivors = [field for field in one_of.fields if field.number in read]
            if not survivors and one_of.name not in kept:
                continue  # a oneof that is gone as a whole is harmless
            for field in one_of.fields:
                if field.number not in read:
                    message = f"the reader's schema lacks the field {field.name} of the writer's oneof {one_of.name}"
                    where = f"{path}/{one_of.name}/{field.number}"
                    found.append(Incompatibility("ONEOF_FIELD_REMOVED", where, message))
        return found

    def _fields(self, reader: Field, writer: Field, path: str, scopes: _Scopes) -> list[Incompatibility]:
        mine, theirs = (
            self._reader.map_types(reader, scopes.reader),
            self._writer.map_types(writer, scopes.writer),
        )
        if mine is not None and theirs is not None:
            found: list[Incompatibility] = []
            for kind, other in zip(mine, theirs, strict=True):
                found += self._types(kind, other, path, scopes)
            return found
        if (mine is None) is not (theirs is None):
            return [_kind_changed(reader.type, writer.type, path)]
        found = self._types(reader.type, writer.type, path, scopes)
        labels = reader.label, writer.label
        if not found and None not in labels and labels[0] != labels[1]:
            family = self._family(reader.type, scopes.reader, self._reader)
            if family not in (None, "text"):
                message = f"the reader's number is {labels[0]}, the writer's is {labels[1]}"
                found = [Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", path, message)]
        return found

    def _types(self, reader: str, writer: str, path: str, scopes: _Scopes) -> list[Incompatibility]:
        mine = self._family(reader, scopes.reader, self._reader)
        theirs = self._family(writer, scopes.writer, self._writer)
        if (mine is None) is not (theirs is None):
            return [_kind_changed(reader, writer, path)]
        if mine is None:
            return self._named(reader, writer, path, scopes)
        if mine != theirs:
            message = f"the reader expects {reader}, the writer wrote {writer}, which has another form"
            return [Incompatibility("FIELD_SCALAR_KIND_CHANGED", path, message)]
        return []

    def _named(self, reader: str, writer: str, path: str, scopes: _Scopes) -> list[Incompatibility]:
        mine = self._reader.definition(reader, scopes.reader)
        theirs = self._writer.definition(writer, scopes.writer)
        assert mine is not None  # the schemas were checked
        assert theirs is not None
        changed = Incompatibility(
            "FIELD_NAMED_TYPE_CHANGED",
            path,
            f"the reader's message {mine.full_name} is not the writer's message {theirs.full_name}",
        )
        if mine.local_name != theirs.local_name:
            return [changed]
        if mine.file == theirs.file == OWN:
            return []  # compared by its own name
        pair = mine.full_name, theirs.full_name
        if pair not in self._imported:
            self._imported[pair] = []
            assert isinstance(mine.part, Message)
            assert isinstance(theirs.part, Message)
            where = "#/" + mine.local_name.replace(".", "/")
            self._imported[pair] = self._messages(mine.part, theirs.part, where, _Scopes(*pair))
            return [*self._imported[pair], changed] if self._imported[pair] else []
        return [changed] if self._imported[pair] else []

    def _family(self, kind: str, scope: str, table: TypeTable) -> str | None:
        """The family of a scalar or an enum; None for a message."""
        if kind in SCALARS:
            return _FAMILIES[kind]
        found = table.definition(kind, scope)
        return "number" if found is not None and isinstance(found.part, Enumeration) else None

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidSchemaError("the schemas are too large to be compared: they have too many fields")


def _newly_exclusive(one_of: OneOf, moved: list[int], path: str) -> Incompatibility:
    kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(moved) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
    message = f"fields of the reader's oneof {one_of.name} did not exclude each other when they were written"
    return Incompatibility(kind, f"{path}/{one_of.name}", message)


def _kind_changed(reader: str, writer: str, path: str) -> Incompatibility:
    message = f"the reader expects {reader}, the writer wrote {writer}"
    return Incompatibility("FIELD_KIND_CHANGED", path, message)
