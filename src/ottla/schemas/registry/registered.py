"""Which schemas are registered under which subject: all that a broker needs to know of the records of `_schemas`.

Of each version it keeps the id and the GUID, not the text: about 430 bytes. Ids belong to contexts, and data names its
schema without one, so only the default context counts. A version that was deleted, softly or for good, is not
registered any more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from ottla.schemas.registry.records import Change, SchemaKey, SubjectClearing, SubjectDeletion
from ottla.schemas.registry.values import StoredVersion

# An id of the default context, or a GUID as text.
SchemaName = int | str

_CONTEXT: Final = ":."  # how subjects of other contexts begin


class RegisteredSchemas:
    """Replay the changes in order; `has` may be asked in between."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, tuple[int, str]]] = {}
        # By subject, and for all subjects together: how many versions have a name.
        self._named: dict[str | None, dict[SchemaName, int]] = defaultdict(dict)

    def has(self, name: SchemaName, subject: str | None) -> bool:
        """Whether a schema is registered under a subject; None stands for any."""
        # Not by the default of the dictionary: a question must not make an entry.
        return name in self._named.get(subject, ())

    def replay(self, change: Change) -> None:
        """Apply what a record changes."""
        match change:
            case StoredVersion():
                self._drop(change.subject, change.version)
                if not change.is_deleted and not change.subject.startswith(_CONTEXT):
                    self._versions.setdefault(change.subject, {})[change.version] = (change.id, change.guid)
                    self._count(change.subject, (change.id, change.guid), 1)
            case SchemaKey(subject, version):
                self._drop(subject, version)
            case SubjectDeletion(subject, last):
                for version in [each for each in self._versions.get(subject, ()) if each <= last]:
                    self._drop(subject, version)
            case SubjectClearing(subject):
                for cleared in [subject] if subject else list(self._versions):
                    for version in list(self._versions.get(cleared, ())):
                        self._drop(cleared, version)

    def _drop(self, subject: str, version: int) -> None:
        held = self._versions.get(subject, {})
        names = held.pop(version, None)
        if names is None:
            return
        if not held:
            del self._versions[subject]
        self._count(subject, names, -1)

    def _count(self, subject: str, names: tuple[int, str], difference: int) -> None:
        for scope in (subject, None):
            counts = self._named[scope]
            for name in names:
                left = counts.get(name, 0) + difference
                if left:
                    counts[name] = left
                else:
                    del counts[name]
            if not counts:
                del self._named[scope]
