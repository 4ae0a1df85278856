"""The seven compatibility levels, as every registry has them.

A level says which earlier versions a new schema is compared with, and in which direction. BACKWARD: readers with
the new schema can read what was written with the old one. FORWARD: readers with the old schema can read what is
written with the new one. FULL is both. Without TRANSITIVE only the latest version counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from ottla.schemas.formats import ParsedSchema
from ottla.schemas.schema import Incompatibility

T = TypeVar("T")


class Level(StrEnum):
    """A compatibility level."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.endswith("_TRANSITIVE")

    @property
    def needs_new_reader(self) -> bool:
        """The new schema must read what the old one wrote."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def needs_old_reader(self) -> bool:
        """The old schema must read what the new one writes."""
        return self.startswith(("FORWARD", "FULL"))

    def compared(self, versions: Sequence[T]) -> list[T]:
        """Of the versions that a subject has, oldest first, those that count; the newest comes first."""
        if self is Level.NONE or not versions:
            return []
        return list(reversed(versions)) if self.is_transitive else [versions[-1]]


def incompatibilities(level: Level, new: ParsedSchema, old: ParsedSchema) -> list[Incompatibility]:
    """Why the new schema may not follow the old one at this level; nothing if it may."""
    if level is Level.NONE:
        return []
    if new.type != old.type:
        message = f"the new schema is of type {new.type}, the old one of type {old.type}"
        return [Incompatibility("SCHEMA_TYPE_CHANGED", "/", message)]
    found: list[Incompatibility] = []
    if level.needs_new_reader:
        found += new.reading(old)
    if level.needs_old_reader:
        found += old.reading(new)
    return found
