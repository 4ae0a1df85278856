"""Finds every message and record that the package declares, wherever it is declared."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import ottla
from ottla.protocol.codec import declaration_of
from ottla.protocol.layout import Field


def declared_classes() -> list[type[Any]]:
    """All @message and @record classes of the package, by name."""
    found: dict[str, type[Any]] = {}
    for module in map(importlib.import_module, _declaring_modules()):
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and value.__module__ == module.__name__
                and "__declaration__" in vars(value)
            ):
                assert value.__name__ not in found, f"{value.__name__} is declared twice"
                found[value.__name__] = value
    return [found[name] for name in sorted(found)]


def declared_versions() -> list[tuple[type[Any], int]]:
    """Each declared class with each of its versions."""
    pairs = []
    for cls in declared_classes():
        first, last = declaration_of(cls).versions
        pairs += [(cls, version) for version in range(first, last + 1)]
    return pairs


def version_id(pair: object) -> str:
    """The name of a test parameter: the class for a class, the number for a version."""
    return pair.__name__ if isinstance(pair, type) else f"v{pair}"


def _declaring_modules() -> list[str]:
    """Modules whose text declares something; the others are not imported, for they may start things."""
    names = []
    for module in pkgutil.walk_packages(ottla.__path__, "ottla."):
        origin = Path(*ottla.__path__, *module.name.split(".")[1:])
        path = origin / "__init__.py" if module.ispkg else origin.with_suffix(".py")
        # A compiled module has no text.
        text = path.read_text() if path.exists() else ""
        if "\n@message(" in text or "\n@record(" in text:
            names.append(module.name)
    return names


def is_our_own(field: Field) -> bool:
    """Whether Kafka does not know a field: it has a tag of a range that Kafka does not use, so that other
    codecs skip it, and it is not written where it has no value.
    """
    return field.name.startswith("ottla_") and (field.tag or 0) >= 10_000
