"""Avro's schema resolution: whether a reader's schema can read what was written with a writer's.

Two named types may contain each other, so the rules are a fixed point: a pair of types is compatible as long as
nothing refutes it. Each pass visits a pair of named types once; passes go on until none refutes another pair.
"""

from __future__ import annotations

from typing import Final

from ottla.schemas.avro.names import simple_name
from ottla.schemas.avro.types import (
    Array,
    AvroSchema,
    Definition,
    Enumeration,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    type_name,
)
from ottla.schemas.schema import Incompatibility, InvalidSchemaError, listed

# A reader takes these for what it wants.
_PROMOTED: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
# Of comparisons of two types; a schema of a megabyte needs a tenth of them. More would take seconds.
_MOST_STEPS: Final = 200_000


def unreadable(reader: AvroSchema, writer: AvroSchema) -> list[Incompatibility]:
    """Why the reader's schema cannot read the writer's data; nothing if it can."""
    refuted: dict[tuple[str, str], list[Incompatibility]] = {}
    while True:
        known = len(refuted)
        found = _Pass(reader, writer, refuted).types(reader.root, writer.root, "")
        if len(refuted) == known:
            return found


class _Pass:
    """One walk over both schemas; `refuted` gets the pairs of named types that turn out not to fit."""

    def __init__(
        self, reader: AvroSchema, writer: AvroSchema, refuted: dict[tuple[str, str], list[Incompatibility]]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._refuted = refuted
        self._visited: set[tuple[str, str]] = set()
        self._steps = 0

    def types(self, reader_node: Node, writer_node: Node, path: str) -> list[Incompatibility]:
        """Two types."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidSchemaError(
                "the schemas are too large to be compared: their unions have too many branches"
            )
        reader, writer = self._reader.resolved(reader_node), self._writer.resolved(writer_node)
        if isinstance(writer, Union):
            return self._from_union(reader, writer, path)
        if isinstance(reader, Union):
            return self._to_union(reader, writer, path)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.types(reader.items, writer.items, f"{path}/items")
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.types(reader.values, writer.values, f"{path}/values")
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            fits = reader.name == writer.name or writer.name in _PROMOTED.get(reader.name, ())
            return [] if fits else [_type_mismatch(reader, writer, path)]
        if isinstance(reader, Definition) and isinstance(writer, Definition):
            return self._named(reader, writer, path)
        return [_type_mismatch(reader, writer, path)]

    def _from_union(self, reader: Node, writer: Union, path: str) -> list[Incompatibility]:
        """Whatever the writer may have written must be readable."""
        found: list[Incompatibility] = []
        for each in writer.branches:
            reasons = self.types(reader, each, path)
            if reasons and isinstance(reader, Union):
                found.append(_no_branch(reader, each, path))
            else:
                found += reasons
        return found

    def _to_union(self, reader: Union, writer: Node, path: str) -> list[Incompatibility]:
        closest: list[Incompatibility] = []
        for index, each in enumerate(reader.branches):
            reasons = self.types(each, writer, f"{path}/{index}")
            if not reasons:
                return []
            if type_name(each) == type_name(writer):
                closest = reasons  # the branch that was meant says more than "no branch"
        return closest or [_no_branch(reader, writer, path)]

    def _named(self, reader: Definition, writer: Definition, path: str) -> list[Incompatibility]:
        pair = reader.full_name, writer.full_name
        if pair in self._visited:
            return self._refuted.get(pair, [])
        self._visited.add(pair)
        found = self._definitions(reader, writer, path)
        if found:
            self._refuted[pair] = found
        return found

    def _definitions(self, reader: Definition, writer: Definition, path: str) -> list[Incompatibility]:
        if type(reader) is not type(writer):
            return [_type_mismatch(reader, writer, path)]
        found = [] if _same_name(reader, writer) else [_name_mismatch(reader, writer, path)]
        if isinstance(reader, Record) and isinstance(writer, Record):
            return found + self._fields(reader, writer, path)
        if isinstance(reader, Enumeration) and isinstance(writer, Enumeration):
            return found + _symbols(reader, writer, path)
        assert isinstance(reader, Fixed)
        assert isinstance(writer, Fixed)
        return found + _sizes(reader, writer, path)

    def _fields(self, reader: Record, writer: Record, path: str) -> list[Incompatibility]:
        written = {each.name: each for each in writer.fields}
        found: list[Incompatibility] = []
        for index, field in enumerate(reader.fields):
            where = f"{path}/fields/{index}"
            source = _source_of(field, written)
            if source is not None:
                found += self.types(field.type, source.type, f"{where}/type")
            elif not field.has_default:
                message = (
                    f"the reader's field '{field.name}' of {reader.full_name} has no default, and the writer does not"
                    " have the field"
                )
                found.append(Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", where, message))
        return found


def _source_of(field: Field, written: dict[str, Field]) -> Field | None:
    """The writer's field, by the name or by an alias of the reader's."""
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def _same_name(reader: Definition, writer: Definition) -> bool:
    """Namespaces do not count, as the specification says; aliases do, in full or without a namespace."""
    name = simple_name(writer.full_name)
    return simple_name(reader.full_name) == name or writer.full_name in reader.aliases


def _symbols(reader: Enumeration, writer: Enumeration, path: str) -> list[Incompatibility]:
    missing = [each for each in writer.symbols if each not in reader.symbols]
    if not missing or reader.default is not None:
        return []
    message = f"the reader's enum {reader.full_name} lacks the writer's symbols {listed(missing)}, and has no default"
    return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", message)]


def _sizes(reader: Fixed, writer: Fixed, path: str) -> list[Incompatibility]:
    if reader.size_bytes == writer.size_bytes:
        return []
    message = (
        f"the reader's {reader.full_name} has {reader.size_bytes} bytes, the writer's has {writer.size_bytes}"
    )
    return [Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", message)]


def _name_mismatch(reader: Definition, writer: Definition, path: str) -> Incompatibility:
    message = (
        f"the reader's type is {reader.full_name}, the writer's is {writer.full_name}, and no alias says so"
    )
    return Incompatibility("NAME_MISMATCH", f"{path}/name", message)


def _type_mismatch(reader: Node, writer: Node, path: str) -> Incompatibility:
    message = f"the reader expects {_described(reader)}, the writer wrote {_described(writer)}"
    return Incompatibility("TYPE_MISMATCH", path or "/", message)


def _no_branch(reader: Union, writer: Node, path: str) -> Incompatibility:
    branches = listed([type_name(each) for each in reader.branches]) or "no branches"
    message = f"the reader's union of {branches} has no branch for the writer's {_described(writer)}"
    return Incompatibility("MISSING_UNION_BRANCH", path or "/", message)


def _described(node: Node) -> str:
    kinds = {Record: "record ", Enumeration: "enum ", Fixed: "fixed "}
    return kinds.get(type(node), "") + type_name(node)
