"""How a message is declared: a slotted dataclass whose annotations say what stands on the wire, and in which
versions.

    @message(key=0, versions=(3, 13), flexible=9)
    class ProduceRequest:
        transactional_id: String | None = None
        acks: Int16 = 0
        topic_data: list[TopicProduceData] = field(default_factory=list)

Rules:
- A field's type is one of the names below, a `@struct` class, or a list of either; `| None` makes it
  nullable.
- Marks stand in `Annotated[...]`: `since`, `until`, `between` (the versions that have the field),
  `nullable_since` (the versions in which null is allowed; all of them without the mark), `tag` (a tagged
  field of flexible versions).
- Fields stand in Kafka's order, under Kafka's names in snake_case, and every one has Kafka's default.
Nothing here reads or writes bytes: `layout` resolves a declaration for one version, `codec` compiles it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, TypeVar, dataclass_transform
from uuid import UUID

T = TypeVar("T")

LAST_VERSION: Final = 32767  # versions are int16 on the wire, so this is "and all later ones"
ZERO_UUID: Final = UUID(int=0)  # Kafka's "no id"


class Wire(NamedTuple):
    """How one value looks on the wire: `code` is its letter in `struct`, empty if its size varies."""

    name: str
    code: str = ""
    size_bytes: int = 0


class Versions(NamedTuple):
    """The versions that have a field."""

    first: int
    last: int = LAST_VERSION

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Nullable(NamedTuple):
    """The first version in which a field may be null."""

    first: int


class Tag(NamedTuple):
    """A tagged field's number, and the first version that has it."""

    number: int
    first: int


class Declaration(NamedTuple):
    """The head of a message or record: its key, its versions, and the first flexible one (None: never)."""

    key: int
    versions: tuple[int, int]
    flexible: int | None

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


Int8 = Annotated[int, Wire("int8", "b", 1)]
Int16 = Annotated[int, Wire("int16", "h", 2)]
Int32 = Annotated[int, Wire("int32", "i", 4)]
Int64 = Annotated[int, Wire("int64", "q", 8)]
UInt16 = Annotated[int, Wire("uint16", "H", 2)]
UInt32 = Annotated[int, Wire("uint32", "I", 4)]
Float64 = Annotated[float, Wire("float64", "d", 8)]
Boolean = Annotated[bool, Wire("bool", "?", 1)]
Uuid = Annotated[UUID, Wire("uuid", "16s", 16)]
String = Annotated[str, Wire("string")]
Bytes = Annotated[bytes | memoryview, Wire("bytes")]  # decoded: a view of the input
Records = Annotated[memoryview, Wire("records")]  # decoded: a view of the input


def since(version: int) -> Versions:
    """The field is there from `version` on."""
    return Versions(version)


def until(version: int) -> Versions:
    """The field is there up to and including `version`."""
    return Versions(0, version)


def between(first: int, last: int) -> Versions:
    """The field is there from `first` to `last`, both included."""
    return Versions(first, last)


def nullable_since(version: int) -> Nullable:
    """Null is allowed from `version` on; before, it is refused in both directions."""
    return Nullable(version)


def tag(number: int, *, since: int) -> Tag:
    """The field is tagged, and there from version `since` on."""
    return Tag(number, since)


@dataclass_transform(field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of messages; it has the versions of the message it stands in."""
    return _slotted(cls)


@dataclass_transform(field_specifiers=(field,))
def message(*, key: int, versions: tuple[int, int], flexible: int | None) -> Callable[[type[T]], type[T]]:
    """Declare a request or response: `key` is its API key, `flexible` its first flexible version."""
    return _declare(Declaration(key, versions, flexible))


@dataclass_transform(field_specifiers=(field,))
def record(*, key: int, versions: tuple[int, int], flexible: int | None) -> Callable[[type[T]], type[T]]:
    """Declare data that is stored in a log: `key` is the record type, in its room's own numbering."""
    return _declare(Declaration(key, versions, flexible))


def _declare(declaration: Declaration) -> Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        declared: Any = _slotted(cls)
        declared.__declaration__ = declaration
        return declared  # type: ignore[no-any-return]

    return decorate


def _slotted(cls: type[T]) -> type[T]:
    # Importing all messages is a part of every start. dataclass compiles each method it makes from text, and
    # works out a signature for each class without a docstring: doing without takes a half off.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: Any = dataclass(slots=True, eq=False, repr=False, match_args=False)(cls)
    # A declaration with secrets in it has a text of its own, which hides them.
    made.__eq__, made.__repr__, made.__hash__ = _equals, cls.__dict__.get("__repr__", _shown), None
    return made  # type: ignore[no-any-return]


def _equals(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _shown(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def declaration_of(cls: type[Any]) -> Declaration:
    """The declaration of a message or record class; TypeError for any other class."""
    declaration = getattr(cls, "__declaration__", None)
    if not isinstance(declaration, Declaration):
        raise TypeError(f"{cls.__name__} is neither a @message nor a @record")
    return declaration


def first_flexible_version(cls: type[Any]) -> int:
    """The first version with compact lengths and tagged fields; TypeError for a message without one."""
    first = declaration_of(cls).flexible
    if first is None:
        raise TypeError(f"{cls.__name__} has no flexible version")
    return first
