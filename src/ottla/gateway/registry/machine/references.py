"""The schemas that a schema refers to, and those behind them, each before those that need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.gateway.registry.machine import subjects
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.problems import RegistryError, invalid_schema
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import MOST_CHARACTERS, Imported, Reference

# More are a mistake: all of them are read whenever the schema is compared.
_MOST: Final = 500


def pinned(catalog: Catalog, subject: str, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """References with real version numbers: -1 stands for the latest. Raises RegistryError(42201)."""
    made = []
    for each in references:
        latest = each.version == -1
        stored = _found(catalog, subject, each, include_deleted=not latest)
        made.append(each._replace(version=stored.version))
    return tuple(made)


def resolved(catalog: Catalog, subject: str, references: Sequence[Reference]) -> tuple[Imported, ...]:
    """All schemas behind the references of a schema of a subject. Raises RegistryError(42201)."""
    walk = _Walk(catalog)
    walk.visit(subject, references, ())
    return tuple(Imported(name, text) for name, text in walk.found.items())


class _Walk:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._characters = 0
        self._visited: set[tuple[str, int]] = set()
        self.found: dict[str, str] = {}

    def visit(
        self, subject: str, references: Sequence[Reference], above: tuple[tuple[str, int], ...]
    ) -> None:
        """Depth first; `above` are the schemas that led here."""
        for each in references:
            stored = _found(self._catalog, subject, each, include_deleted=True)
            place = stored.subject, stored.version
            if place in above:
                circle = " -> ".join(f"{name} version {version}" for name, version in (*above, place))
                raise invalid_schema(f"its references form a circle: {circle}")
            if place not in self._visited:
                self._visited.add(place)
                self._count(len(stored.schema.text))
                self.visit(stored.subject, stored.schema.references, (*above, place))
            self.found.setdefault(each.name, stored.schema.text)

    def _count(self, characters: int) -> None:
        self._characters += characters
        if len(self._visited) > _MOST or self._characters > 4 * MOST_CHARACTERS:
            raise invalid_schema(
                f"it refers to more than {_MOST} schemas, or to more than {4 * MOST_CHARACTERS} characters of them"
            )


def _found(catalog: Catalog, subject: str, reference: Reference, *, include_deleted: bool) -> StoredVersion:
    version = None if reference.version == -1 else reference.version
    try:
        return catalog.version(
            subjects.beside(subject, reference.subject), version, include_deleted=include_deleted
        )
    except RegistryError as error:
        raise invalid_schema(
            f"its reference {reference.name[:200]!r} leads nowhere: {error.message}"
        ) from error
