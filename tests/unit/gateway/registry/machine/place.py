"""A registry without a topic: commands are decided, and their records are replayed at once."""

from __future__ import annotations

from typing import Any

from ottla.gateway.registry.machine import registration
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.decision import Decision
from ottla.gateway.registry.machine.registration import Submission
from ottla.schemas.levels import Level
from ottla.schemas.registry.records import RegistryRecord, change_of
from ottla.schemas.registry.values import StoredVersion


class Place:
    """A catalog, and the log that it comes from."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.log: list[RegistryRecord] = []

    def carry_out(self, decision: Decision) -> Any:
        for record in decision.records:
            self.log.append(record)
            change = change_of(record)
            assert change is not None
            self.catalog.replay(change)
        return decision.answer

    def register(self, subject: str, submission: Submission | str) -> StoredVersion:
        """As the gateway does it, without threads."""
        if isinstance(submission, str):
            submission = Submission(submission)
        catalog = self.catalog
        registration.check_mode(catalog, subject, submission)
        exact, imports = registration.imports_of(catalog, subject, submission)
        read = registration.read(exact, imports, normalize=False)
        found = registration.known_version(catalog, subject, read)
        if found is not None:
            return found
        level = catalog.settings_in_force(subject).level or Level.BACKWARD
        candidate = registration.candidate(catalog, subject, read, catalog.versions(subject), level)
        made = self.carry_out(registration.decide(catalog, exact, candidate, candidate.misfit()))
        assert isinstance(made, StoredVersion)
        return made

    def compacted(self) -> Catalog:
        """What a registry reads that starts after the topic was compacted: the last record of each key."""
        last = {record.key: index for index, record in enumerate(self.log)}
        catalog = Catalog()
        for index, record in enumerate(self.log):
            if last[record.key] == index and (change := change_of(record)) is not None:
                catalog.replay(change)
        return catalog


def state_of(catalog: Catalog) -> Any:
    """All that can be asked, to compare two catalogs."""
    return [(each, catalog.versions(each, include_deleted=True)) for each in catalog.all_subjects()]
