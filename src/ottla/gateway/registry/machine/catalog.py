"""The registry's state: what the records of `_schemas` come to, and every question about it.

`replay` is the only change. Within a context, equal schemas have one id, whatever the subject; a schema has one
GUID in all contexts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from ottla.gateway.registry.machine import subjects
from ottla.gateway.registry.machine.problems import subject_not_found, version_not_found
from ottla.schemas.levels import Level
from ottla.schemas.registry.records import (
    Change,
    ModeChange,
    SchemaKey,
    SettingsChange,
    SubjectClearing,
    SubjectDeletion,
)
from ottla.schemas.registry.values import Mode, Settings, StoredVersion

V = TypeVar("V")


class Catalog:
    """All subjects, versions, ids, settings and modes."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, StoredVersion]] = {}
        self._by_id: dict[tuple[str, int], dict[SchemaKey, StoredVersion]] = defaultdict(dict)
        self._id_of: dict[tuple[str, bytes], int] = {}
        self._contexts_of: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._highest: dict[str, int] = {}
        self._referrers: dict[SchemaKey, set[SchemaKey]] = defaultdict(set)
        self._settings: dict[str | None, Settings] = {}
        self._modes: dict[str | None, Mode] = {}

    # ---- replay

    def replay(self, change: Change) -> None:
        """Apply what a record changes."""
        match change:
            case StoredVersion():
                self._remove(SchemaKey(change.subject, change.version))
                self._add(change)
            case SchemaKey():
                self._remove(change)
            case SubjectDeletion(subject, last):
                for stored in list(self._versions.get(subject, {}).values()):
                    if stored.version <= last and not stored.is_deleted:
                        self._remove(SchemaKey(subject, stored.version))
                        self._add(replace(stored, is_deleted=True))
            case SubjectClearing(subject):
                self._clear(subject)
            case SettingsChange(subject, settings):
                _put(self._settings, subject, settings)
            case ModeChange(subject, mode):
                _put(self._modes, subject, mode)

    def _add(self, stored: StoredVersion) -> None:
        key, context = SchemaKey(stored.subject, stored.version), subjects.context_of(stored.subject)
        self._versions.setdefault(stored.subject, {})[stored.version] = stored
        self._by_id[context, stored.id][key] = stored
        self._id_of.setdefault((context, stored.digest), stored.id)
        self._contexts_of[stored.guid].add((context, stored.id))
        self._highest[context] = max(self._highest.get(context, 0), stored.id)
        for each in stored.schema.references:
            self._referrers[SchemaKey(subjects.beside(stored.subject, each.subject), each.version)].add(key)

    def _remove(self, key: SchemaKey) -> None:
        stored = self._versions.get(key.subject, {}).pop(key.version, None)
        if stored is None:
            return
        context = subjects.context_of(key.subject)
        if not self._versions[key.subject]:
            del self._versions[key.subject]
        users = self._by_id[context, stored.id]
        users.pop(key, None)
        if not users:
            del self._by_id[context, stored.id]
            if self._id_of.get((context, stored.digest)) == stored.id:
                del self._id_of[context, stored.digest]
            self._contexts_of[stored.guid].discard((context, stored.id))
        for each in stored.schema.references:
            self._referrers[SchemaKey(subjects.beside(stored.subject, each.subject), each.version)].discard(
                key
            )

    def _clear(self, subject: str) -> None:
        for name in list(self.subjects(subject, include_deleted=True)):
            for version in list(self._versions.get(name, {})):
                self._remove(SchemaKey(name, version))

    # ---- subjects and versions

    def subjects(self, scope: str = "", *, include_deleted: bool = False) -> Iterator[str]:
        """The subjects of a scope: all of a context (`:.sales:`, or nothing for the default one), or one subject."""
        context, name = subjects.split(scope)
        for subject, versions in self._versions.items():
            is_meant = subject == scope if name else subjects.context_of(subject) == context
            if is_meant and (include_deleted or any(not each.is_deleted for each in versions.values())):
                yield subject

    def all_subjects(self) -> list[str]:
        """Every subject of every context, deleted ones too, sorted."""
        return sorted(self._versions)

    def contexts(self) -> list[str]:
        """The contexts that have subjects; the default one is always there."""
        return sorted({subjects.DEFAULT_CONTEXT, *map(subjects.context_of, self._versions)})

    def versions(self, subject: str, *, include_deleted: bool = False) -> list[StoredVersion]:
        """The versions of a subject, oldest first."""
        held = self._versions.get(subject, {})
        return [held[each] for each in sorted(held) if include_deleted or not held[each].is_deleted]

    def version(self, subject: str, version: int | None, *, include_deleted: bool = False) -> StoredVersion:
        """A version; None is the latest. Raises RegistryError(40401 or 40402)."""
        if version is None:
            found = self.latest(subject, include_deleted=include_deleted)
        else:
            found = self._versions.get(subject, {}).get(version)
        if found is None or (found.is_deleted and not include_deleted):
            if not any(True for _ in self.versions(subject, include_deleted=include_deleted)):
                raise subject_not_found(subject)
            raise version_not_found("latest" if version is None else version)
        return found

    def latest(self, subject: str, *, include_deleted: bool = False) -> StoredVersion | None:
        """The version with the highest number."""
        held = self._versions.get(subject, {})
        numbers = [each for each in held if include_deleted or not held[each].is_deleted]
        return held[max(numbers)] if numbers else None

    def next_version(self, subject: str) -> int:
        """The number of the next version: deleted ones count."""
        return max(self._versions.get(subject, {}), default=0) + 1

    # ---- ids

    def users_of(self, context: str, schema_id: int) -> list[StoredVersion]:
        """The versions that have an id, soft deleted ones too."""
        users = self._by_id.get((context, schema_id), {})
        return [users[each] for each in sorted(users)]

    def id_of(self, context: str, digest: bytes) -> int | None:
        """The id of a schema in a context."""
        return self._id_of.get((context, digest))

    def next_id(self, context: str) -> int:
        """An id that no schema of the context has or had, as far as the topic remembers."""
        return self._highest.get(context, 0) + 1

    def highest_id(self, context: str) -> int:
        """The highest id that was given in a context."""
        return self._highest.get(context, 0)

    def with_guid(self, guid: str) -> list[tuple[str, int]]:
        """The contexts and ids of a GUID."""
        return sorted(self._contexts_of.get(guid, ()))

    def referrers(self, subject: str, version: int, *, include_deleted: bool = False) -> list[StoredVersion]:
        """The versions that refer to this one."""
        found = sorted(self._referrers.get(SchemaKey(subject, version), ()))
        stored = [self._versions[key.subject][key.version] for key in found]
        return [each for each in stored if include_deleted or not each.is_deleted]

    # ---- settings

    def settings(self, subject: str | None) -> Settings | None:
        """The settings of a subject or a context itself."""
        return self._settings.get(subject)

    def mode(self, subject: str | None) -> Mode | None:
        """The mode of a subject or a context itself."""
        return self._modes.get(subject)

    def settings_in_force(self, subject: str) -> Settings:
        """The settings of the nearest scope that has each of them."""
        found = [self._settings[each] for each in subjects.scopes(subject) if each in self._settings]
        level = next((each.level for each in found if each.level is not None), Level.BACKWARD)
        normalize = next((each.normalize for each in found if each.normalize is not None), None)
        return Settings(level, normalize)

    def mode_in_force(self, subject: str) -> Mode:
        """The mode of the nearest scope that has one; READONLY_OVERRIDE of a wider scope comes first."""
        found = [self._modes[each] for each in subjects.scopes(subject) if each in self._modes]
        if Mode.READONLY_OVERRIDE in found:
            return Mode.READONLY_OVERRIDE
        return found[0] if found else Mode.READWRITE


def _put(values: dict[str | None, V], key: str | None, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
