"""Every type that a file can name: its own, and those of the files behind its imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla.schemas.protobuf.types import SCALARS, Enumeration, Extend, Field, File, Message


@dataclass(frozen=True, slots=True)
class Definition:
    """A message or an enum, the file that defines it, and its full name without and with the package."""

    part: Message | Enumeration
    file: str
    package: str
    local_name: str

    @property
    def full_name(self) -> str:
        return qualified(self.package, self.local_name)


@dataclass(slots=True)
class TypeTable:
    """The types and extensions of some files, by full name."""

    types: dict[str, Definition] = field(default_factory=dict)
    extensions: dict[str, tuple[Field, str, str]] = field(default_factory=dict)
    _resolved: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def add(self, name: str, file: File) -> None:
        """The definitions of a file; `name` is how others import it."""
        for local, part in all_types(file):
            self.types[qualified(file.package, local)] = Definition(part, name, file.package, local)
            if isinstance(part, Message):
                self._extend(part.extends, qualified(file.package, local))
        self._extend(file.extends, file.package)

    def _extend(self, extends: tuple[Extend, ...], scope: str) -> None:
        for each in extends:
            for added in each.fields:
                self.extensions[qualified(scope, added.name)] = added, each.name, scope

    def resolve(self, name: str, scope: str) -> str | None:
        """The full name of a type that is named within a scope: the innermost one that there is."""
        key = name, scope
        if key not in self._resolved:
            self._resolved[key] = _found(self.types, name, scope)
        return self._resolved[key]

    def resolve_extension(self, name: str, scope: str) -> str | None:
        """The full name of an extension that is named within a scope."""
        return _found(self.extensions, name, scope)

    def definition(self, name: str, scope: str) -> Definition | None:
        """The definition of a type that is named within a scope."""
        full = self.resolve(name, scope)
        return None if full is None else self.types[full]

    def extensions_of(self, message: str) -> Iterator[tuple[str, Field, str]]:
        """The extensions of a message: full name, field, and the scope that the field's type is named in."""
        for full, (added, extended, scope) in self.extensions.items():
            if self.resolve(extended, scope) == message:
                yield full, added, scope

    def map_types(self, of: Field, scope: str) -> tuple[str, str] | None:
        """The types of keys and values of a map, however it is written."""
        if of.type in SCALARS:
            return None
        if of.map_types is not None:
            return of.map_types
        found = self.definition(of.type, scope)
        if found is None or not isinstance(found.part, Message) or not found.part.is_map_entry:
            return None
        by_name = {each.name: each.type for each in found.part.fields}
        return by_name.get("key", "string"), by_name.get("value", "string")


def qualified(scope: str, name: str) -> str:
    """A name within a scope."""
    return f"{scope}.{name}" if scope else name


def all_types(file: File) -> Iterator[tuple[str, Message | Enumeration]]:
    """The messages and enums of a file with their names, nested ones too."""
    waiting: list[tuple[str, Message | Enumeration]] = []

    def wait(prefix: str, parts: Iterable[Message | Enumeration]) -> None:
        waiting.extend((prefix + each.name, each) for each in parts)

    wait("", reversed(file.enums))
    wait("", reversed(file.messages))
    while waiting:
        name, part = waiting.pop()
        yield name, part
        if isinstance(part, Message):
            wait(f"{name}.", reversed(part.enums))
            wait(f"{name}.", reversed(part.messages))


def _found(known: Mapping[str, object], name: str, scope: str) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    while True:
        tried = qualified(scope, name)
        if tried in known:
            return tried
        if not scope:
            return None
        scope = scope.rpartition(".")[0]
