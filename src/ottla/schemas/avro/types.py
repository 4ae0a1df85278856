"""The parts of an Avro schema.

A named type stands in full where it is defined and as a `Named` everywhere else, so a schema that contains itself
is no cycle of objects. `properties` are what Avro does not know, in the order of the text; logical types are among
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NO_DEFAULT: Final = object()


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of Avro's eight simple types."""

    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type."""

    items: Node
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type under names."""

    values: Node
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A named type that is defined elsewhere, by its full name."""

    full_name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record. `default` is NO_DEFAULT without one; None is a default of null."""

    name: str
    type: Node
    default: Any = NO_DEFAULT
    doc: str | None = None
    order: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in their order. Names and aliases are full ones."""

    full_name: str
    fields: tuple[Field, ...]
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of several symbols; a reader takes `default` for a symbol that it does not know."""

    full_name: str
    symbols: tuple[str, ...]
    default: str | None = None
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes."""

    full_name: str
    size_bytes: int
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


Definition: TypeAlias = Record | Enumeration | Fixed
Node: TypeAlias = Primitive | Array | Map | Union | Named | Record | Enumeration | Fixed


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema, with all named types that it defines or refers to. `imported` are those of other schemas."""

    root: Node
    definitions: Mapping[str, Definition]
    imported: frozenset[str]

    def resolved(self, node: Node) -> Primitive | Array | Map | Union | Definition:
        """A type, and not only its name."""
        return self.definitions[node.full_name] if isinstance(node, Named) else node


def type_name(node: Node) -> str:
    """What a type is called in a message, and what tells the branches of a union apart."""
    match node:
        case Primitive(name):
            return name
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"
    return node.full_name
