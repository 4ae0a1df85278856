"""The part of a declaration that is on the wire in one version.

`described(cls)` reads the annotations of a class once; `layout(cls, version)` keeps the fields that the
version has. The order is the wire's: declared order for the plain fields, ascending numbers for the tagged
ones. `first_version(cls, name)` says which version introduced a field: no other room writes that number down.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from ottla.protocol.declaration import LAST_VERSION, Nullable, Tag, Versions, Wire

NoneType: Final = type(None)


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field, for all versions."""

    name: str
    kind: Wire | type[Any]  # a value on the wire, or a @struct
    is_array: bool
    versions: Versions
    nullable_first: int | None  # the first version in which null is allowed
    tag: int | None
    default: Any  # of a list or a struct: a fresh instance would be equal to this one

    def is_nullable(self, version: int) -> bool:
        return self.nullable_first is not None and version >= self.nullable_first

    @property
    def fixed(self) -> Wire | None:
        """The wire type, if the field takes the same number of bytes whatever its value."""
        return self.kind if isinstance(self.kind, Wire) and self.kind.code and not self.is_array else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a class that one version has."""

    plain: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]


_described: dict[type[Any], tuple[Field, ...]] = {}  # annotations are text, and slow to resolve


def described(cls: type[Any]) -> tuple[Field, ...]:
    """Every field of a declared class, in declared order."""
    known = _described.get(cls)
    if known is None:
        hints = get_type_hints(cls, include_extras=True)
        known = tuple(_field(cls, f.name, hints[f.name], _default(cls, f)) for f in fields(cls))
        _described[cls] = known
    return known


def layout(cls: type[Any], version: int) -> Layout:
    """The fields of `cls` that are on the wire in `version`."""
    present = [f for f in described(cls) if version in f.versions]
    return Layout(
        plain=tuple(f for f in present if f.tag is None),
        tagged=tuple(sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)),
        absent=tuple(f for f in described(cls) if version not in f.versions),
    )


def first_version(cls: type[Any], name: str) -> int:
    """The version that introduced a field of `cls`; TypeError if `cls` declares no such field.

    Ask when a module is imported, so that a request costs the comparison of two numbers:
    `_TOPIC_IDS_SINCE: Final = first_version(FetchTopic, "topic_id")`.
    """
    return _field_of(cls, name).versions.first


def first_nullable_version(cls: type[Any], name: str) -> int:
    """The first version in which a field of `cls` may be null; TypeError if the field is never null."""
    first = _field_of(cls, name).nullable_first
    if first is None:
        raise TypeError(f"{cls.__name__}.{name} is never null")
    return first


def _field_of(cls: type[Any], name: str) -> Field:
    for each in described(cls):
        if each.name == name:
            return each
    raise TypeError(f"{cls.__name__} declares no field {name}")


def smallest_size_bytes(kind: Wire | type[Any], version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this kind can take: bounds how many of them may follow a count."""
    if isinstance(kind, Wire):
        if kind.code:
            return kind.size_bytes
        return 1 if flexible else 2 if kind.name == "string" else 4
    sizes = (_smallest_field_bytes(f, version, flexible) for f in layout(kind, version).plain)
    return sum(sizes) + (1 if flexible else 0)


def _smallest_field_bytes(field: Field, version: int, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    if isinstance(field.kind, type) and field.is_nullable(version):
        return 1
    return smallest_size_bytes(field.kind, version, flexible)


def _field(cls: type[Any], name: str, hint: Any, default: Any) -> Field:
    inner, marks = _unwrap(hint)
    optional = _without_none(inner)
    if optional is not None:
        inner, more = _unwrap(optional)
        marks += more
    is_array = get_origin(inner) is list
    if is_array:
        inner, more = _unwrap(get_args(inner)[0])
        marks += more
    tag = next((m for m in marks if isinstance(m, Tag)), None)
    null = next((m.first for m in marks if isinstance(m, Nullable)), 0) if optional is not None else None
    kind = _kind(cls, name, inner, marks)
    return Field(name, kind, is_array, _versions(marks), null, tag.number if tag else None, default)


def _kind(cls: type[Any], name: str, inner: Any, marks: list[Any]) -> Wire | type[Any]:
    wire = next((m for m in marks if isinstance(m, Wire)), None)
    if wire is not None:
        return wire
    if isinstance(inner, type) and is_dataclass(inner):
        return inner
    raise TypeError(f"{cls.__name__}.{name}: {inner!r} is neither a wire type nor a @struct")


def _versions(marks: list[Any]) -> Versions:
    """The versions in which all marks agree that the field is there."""
    ranges = [
        m if isinstance(m, Versions) else Versions(m.first) for m in marks if isinstance(m, Versions | Tag)
    ]
    return Versions(
        max((r.first for r in ranges), default=0), min((r.last for r in ranges), default=LAST_VERSION)
    )


def _unwrap(hint: Any) -> tuple[Any, list[Any]]:
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return inner, marks
    return hint, []


def _without_none(hint: Any) -> Any | None:
    """X, if `hint` is `X | None`."""
    if get_origin(hint) not in (Union, UnionType):
        return None
    some = [arg for arg in get_args(hint) if arg is not NoneType]
    return some[0] if len(some) == 1 else None


def _default(cls: type[Any], field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise TypeError(f"{cls.__name__}.{field.name} has no default")
