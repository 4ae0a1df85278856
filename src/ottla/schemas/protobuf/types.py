"""The parts of a .proto file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

SCALARS: Final = frozenset(
    [
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "bytes",
        "uint32",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
    ]
)
MOST_NUMBER: Final = 2**29 - 1


class Literal(NamedTuple):
    """A number, a boolean or the name of an enum's constant: a word that is written without quotes."""

    text: str


Value: TypeAlias = "str | Literal | dict[str, Value] | list[Value]"


@dataclass(frozen=True, slots=True)
class Option:
    """An option: `deep` are the names behind the parentheses, as in `(shop.meta).tags = "x"`."""

    name: str
    value: Value
    is_custom: bool = False
    deep: tuple[str, ...] = ()


class Span(NamedTuple):
    """Numbers from one to another, both included; `is_range` if it was written as one."""

    first: int
    last: int
    is_range: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field. The type is as it was written: a scalar, a name, or `map<key, value>`."""

    name: str
    type: str
    number: int
    label: str | None = None
    default: str | None = None
    json_name: str | None = None
    options: tuple[Option, ...] = ()

    @property
    def map_types(self) -> tuple[str, str] | None:
        """The types of keys and values, if this is a map."""
        if not self.type.startswith("map<"):
            return None
        key, _, value = self.type[4:-1].partition(", ")
        return key, value


@dataclass(frozen=True, slots=True)
class OneOf:
    """Fields of which one is set."""

    name: str
    fields: tuple[Field, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Extensions:
    """Numbers that are left to extensions."""

    spans: tuple[Span, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Extend:
    """Fields that are added to a message of another place."""

    name: str
    fields: tuple[Field, ...]


class Constant(NamedTuple):
    """A constant of an enum."""

    name: str
    number: int
    options: tuple[Option, ...] = ()


Reserved: TypeAlias = tuple["Span | str", ...]


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An enum."""

    name: str
    constants: tuple[Constant, ...] = ()
    options: tuple[Option, ...] = ()
    reserved: tuple[Reserved, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `messages` keep their order: data names its message by the place in it."""

    name: str
    fields: tuple[Field, ...] = ()
    one_ofs: tuple[OneOf, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[Enumeration, ...] = ()
    options: tuple[Option, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    extensions: tuple[Extensions, ...] = ()
    extends: tuple[Extend, ...] = ()

    @property
    def is_map_entry(self) -> bool:
        return any(each.name == "map_entry" and each.value == Literal("true") for each in self.options)

    def all_fields(self) -> Iterator[Field]:
        """The fields, those of each oneof too."""
        yield from self.fields
        for one_of in self.one_ofs:
            yield from one_of.fields


class Method(NamedTuple):
    """A method of a service."""

    name: str
    request: str
    response: str
    streams_requests: bool = False
    streams_responses: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """A service of gRPC."""

    name: str
    methods: tuple[Method, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A .proto file. Without `syntax` it is proto2, and nothing says so."""

    syntax: str | None = None
    package: str = ""
    imports: tuple[str, ...] = ()
    public_imports: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[Enumeration, ...] = ()
    services: tuple[Service, ...] = ()
    extends: tuple[Extend, ...] = ()
    options: tuple[Option, ...] = field(default=())

    @property
    def is_proto3(self) -> bool:
        return self.syntax == "proto3"
