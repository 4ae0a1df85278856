"""Compatibility levels and modes: of a subject, of a context, or of the default context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.gateway.registry.machine import subjects
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.decision import Decision
from ottla.gateway.registry.machine.deletion import check_writable
from ottla.gateway.registry.machine.problems import (
    RegistryError,
    invalid_level,
    invalid_mode,
    level_not_set,
    mode_not_set,
    not_permitted,
    reference_exists,
    subject_not_found,
)
from ottla.schemas.levels import Level
from ottla.schemas.registry.records import (
    RegistryRecord,
    mode_record,
    settings_record,
    subject_clearing,
    tombstone,
)
from ottla.schemas.registry.values import Mode, Settings

# Confluent's further settings: to keep them without obeying them would be a lie.
_UNSERVED: Final = (
    "alias",
    "compatibilityGroup",
    "compatibilityPolicy",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
    "validateFields",
    "validateRules",
)


def set_settings(catalog: Catalog, subject: str | None, given: Mapping[str, Any]) -> Decision:
    """Change settings; what is not given stays. Answers what was given. Raises RegistryError(42203 or 422)."""
    check_writable(catalog, subject or "")
    for name in _UNSERVED:
        if given.get(name):
            raise RegistryError(422, f"The setting {name} is not served: compatibility and normalize are.")
    before = catalog.settings(subject) or Settings()
    level, normalize = before.level, before.normalize
    if given.get("compatibility") is not None:
        level = level_named(given["compatibility"])
    if given.get("normalize") is not None:
        if not isinstance(given["normalize"], bool):
            raise RegistryError(422, "The setting normalize must be true or false.")
        normalize = given["normalize"]
    answer = {name: given[name] for name in ("compatibility", "normalize") if given.get(name) is not None}
    return Decision([settings_record(subject, Settings(level, normalize, before.others))], answer)


def delete_settings(catalog: Catalog, subject: str | None) -> Decision:
    """Remove the settings. Answers those that were there. Raises RegistryError(40401)."""
    check_writable(catalog, subject or "")
    before = catalog.settings(subject)
    if before is None and subject is not None:
        raise subject_not_found(subject)
    records = [] if before is None else [settings_record(subject, None)]
    return Decision(records, (before or Settings(Level.BACKWARD)).described())


def settings_shown(catalog: Catalog, subject: str | None, *, in_force: bool) -> dict[str, Any]:
    """The settings of a subject, or those that are in force for it. Raises RegistryError(40408)."""
    own = catalog.settings(subject)
    if subject is None or in_force:
        return catalog.settings_in_force(subject or "").described()
    if own is None:
        raise level_not_set(subject)
    return own.described()


def set_mode(catalog: Catalog, subject: str | None, name: object, *, force: bool) -> Decision:
    """Change the mode. Raises RegistryError(42204, 42205 or 42206)."""
    mode = mode_named(name)
    records: list[RegistryRecord] = []
    if mode is Mode.IMPORT and catalog.mode_in_force(subject or "") is not Mode.IMPORT and not force:
        records = _cleared(catalog, subject)
    return Decision([*records, mode_record(subject, mode)], {"mode": mode.value})


def delete_mode(catalog: Catalog, subject: str | None) -> Decision:
    """Remove the mode. Answers the one that was there. Raises RegistryError(40401)."""
    before = catalog.mode(subject)
    if before is None and subject is not None:
        raise subject_not_found(subject)
    records = [] if before is None else [mode_record(subject, None)]
    return Decision(records, {"mode": (before or Mode.READWRITE).value})


def mode_shown(catalog: Catalog, subject: str | None, *, in_force: bool) -> dict[str, Any]:
    """The mode of a subject, or the one that is in force for it. Raises RegistryError(40409)."""
    if subject is None or in_force:
        return {"mode": catalog.mode_in_force(subject or "").value}
    own = catalog.mode(subject)
    if own is None:
        raise mode_not_set(subject)
    return {"mode": own.value}


def level_named(name: object) -> Level:
    """Raises RegistryError(42203)."""
    try:
        return Level(str(name).upper())
    except ValueError:
        raise invalid_level(name) from None


def mode_named(name: object) -> Mode:
    """Raises RegistryError(42204)."""
    try:
        return Mode(str(name).upper())
    except ValueError:
        raise invalid_mode(name) from None


def _cleared(catalog: Catalog, subject: str | None) -> list[RegistryRecord]:
    """Before an import nothing may be there; what is soft deleted is forgotten."""
    scope = subject or ""
    if any(True for _ in catalog.subjects(scope)):
        raise not_permitted(
            "Mode IMPORT is for an empty subject, context or registry: there are schemas. force=true goes on."
        )
    records = []
    for name in catalog.subjects(scope, include_deleted=True):
        for each in catalog.versions(name, include_deleted=True):
            if catalog.referrers(name, each.version, include_deleted=True):
                raise reference_exists(name, each.version)
            records.append(tombstone(name, each.version))
    return [*records, subject_clearing(subject)]


def scope_of(subject: str) -> str | None:
    """The scope that a subject of an address names: None for the default context."""
    return subjects.normal(subject) or None
