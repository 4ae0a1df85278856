"""Soft and hard deletes. A soft deleted version keeps its id and its number; a hard delete forgets both."""

from __future__ import annotations

from dataclasses import replace

from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.decision import Decision
from ottla.gateway.registry.machine.problems import (
    not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_soft_deleted,
    version_soft_deleted,
)
from ottla.schemas.registry.records import (
    RegistryRecord,
    mode_record,
    settings_record,
    subject_deletion,
    tombstone,
    version_record,
)


def delete_version(catalog: Catalog, subject: str, version: int | None, *, permanent: bool) -> Decision:
    """Delete one version; None is the latest. Answers its number."""
    check_writable(catalog, subject)
    stored = catalog.version(subject, version, include_deleted=version is not None)
    if stored.is_deleted and not permanent:
        raise version_soft_deleted(subject, stored.version)
    if catalog.referrers(subject, stored.version, include_deleted=permanent):
        raise reference_exists(subject, stored.version)
    if not permanent:
        return Decision([version_record(replace(stored, is_deleted=True))], stored.version)
    if not stored.is_deleted:
        raise version_not_soft_deleted(subject, stored.version)
    records = [tombstone(subject, stored.version)]
    if len(catalog.versions(subject, include_deleted=True)) == 1:
        records += _forgotten_settings(catalog, subject)
    return Decision(records, stored.version)


def delete_subject(catalog: Catalog, subject: str, *, permanent: bool) -> Decision:
    """Delete all versions of a subject. Answers their numbers."""
    check_writable(catalog, subject)
    everything = catalog.versions(subject, include_deleted=True)
    if not everything:
        raise subject_not_found(subject)
    meant = everything if permanent else [each for each in everything if not each.is_deleted]
    if not meant:
        raise subject_soft_deleted(subject)
    for each in meant:
        referrers = catalog.referrers(subject, each.version, include_deleted=permanent)
        if any(other.subject != subject for other in referrers):
            raise reference_exists(subject, each.version)
        if permanent and not each.is_deleted:
            raise subject_not_soft_deleted(subject)
    numbers = [each.version for each in meant]
    if not permanent:
        return Decision([subject_deletion(subject, numbers[-1])], numbers)
    records = [tombstone(subject, number) for number in reversed(numbers)]
    return Decision([*records, *_forgotten_settings(catalog, subject)], numbers)


def check_writable(catalog: Catalog, subject: str) -> None:
    """Raises RegistryError(42205) if the mode of the subject does not allow changes."""
    mode = catalog.mode_in_force(subject)
    if mode.is_read_only:
        raise not_permitted(f"Subject '{subject}' is in mode {mode}: nothing can be changed.")


def _forgotten_settings(catalog: Catalog, subject: str) -> list[RegistryRecord]:
    records = []
    if catalog.mode(subject) is not None:
        records.append(mode_record(subject, None))
    if catalog.settings(subject) is not None:
        records.append(settings_record(subject, None))
    return records
