"""A new schema: is it known already, does it fit the versions before it, and which id does it get?

The work is in steps, because two of them may take long and need no state: `read` (parse the text) and `Candidate.
misfit` (compare). The steps between them ask the catalog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ottla.gateway.registry.machine import subjects
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.decision import Decision
from ottla.gateway.registry.machine.problems import (
    RegistryError,
    id_taken,
    incompatible,
    invalid_schema,
    not_permitted,
)
from ottla.gateway.registry.machine.references import pinned, resolved
from ottla.schemas.formats import ParsedSchema, parse_schema
from ottla.schemas.levels import Level, incompatibilities
from ottla.schemas.registry.records import RegistryRecord, tombstone, version_record
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import AVRO, MOST_CHARACTERS, Imported, InvalidSchemaError, Reference, SchemaText

_MOST_ID: Final = 2**31 - 1
# A message is read by people.
_MOST_REASONS: Final = 20


@dataclass(frozen=True, slots=True)
class Submission:
    """A schema as a caller sends it. `id` and `version` are given for imports only."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None
    version: int | None = None


class ReadSchema(NamedTuple):
    """A schema that was parsed, as it would be kept."""

    schema: SchemaText
    digest: bytes
    parsed: ParsedSchema
    others: Mapping[str, Any]


class Earlier(NamedTuple):
    """A version that a new schema has to fit, with all that it refers to."""

    stored: StoredVersion
    imports: tuple[Imported, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schema that is new to its subject, and what it has to fit."""

    subject: str
    read: ReadSchema
    level: Level
    earlier: Sequence[Earlier]

    def misfit(self) -> list[str]:
        """Why the schema does not fit: the reasons, and the version that it was compared with."""
        for each in self.earlier:
            old = parse_schema(each.stored.schema.type, each.stored.schema.text, each.imports)
            reasons = [str(reason) for reason in incompatibilities(self.level, self.read.parsed, old)]
            if reasons:
                more = len(reasons) - _MOST_REASONS
                tail = [f"{{and {more} more reasons}}"] if more > 0 else []
                version = f"{{oldSchemaVersion: {each.stored.version}}}"
                return [*reasons[:_MOST_REASONS], *tail, version, f"{{compatibility: '{self.level}'}}"]
        return []


def imports_of(
    catalog: Catalog, subject: str, submission: Submission
) -> tuple[Submission, tuple[Imported, ...]]:
    """The submission with its references made exact, and all schemas behind them. Raises RegistryError(42201)."""
    references = pinned(catalog, subject, submission.references)
    exact = Submission(
        submission.text, submission.type, references, submission.metadata, submission.id, submission.version
    )
    return exact, resolved(catalog, subject, references)


def read(submission: Submission, imports: Sequence[Imported], *, normalize: bool) -> ReadSchema:
    """Parse a submission. Raises RegistryError(42201 or 42209)."""
    if len(submission.text) > MOST_CHARACTERS:
        raise RegistryError(
            42209, f"The schema has {len(submission.text)} characters, and {MOST_CHARACTERS} are the most."
        )
    try:
        parsed = parse_schema(submission.type, submission.text, imports)
        text = parsed.canonical(normalize)
    except InvalidSchemaError as error:
        raise invalid_schema(str(error)) from error
    references = submission.references
    schema = SchemaText(submission.type, text, tuple(sorted(set(references))) if normalize else references)
    others = {"metadata": submission.metadata} if submission.metadata else {}
    return ReadSchema(schema, digest_of(schema, submission.metadata), parsed, others)


def digest_of(schema: SchemaText, metadata: Mapping[str, Any]) -> bytes:
    """Confluent's MD5 of a schema, its references and its metadata."""
    if not metadata:
        return schema.digest
    hashed = hashlib.md5(schema.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    for each in schema.references:
        hashed.update(
            each.name.encode() + each.subject.encode() + each.version.to_bytes(4, "big", signed=True)
        )
    hashed.update(b"\x01")
    for name, values in sorted((metadata.get("tags") or {}).items()):
        hashed.update("".join((name, *sorted(values))).encode())
    for name, value in sorted((metadata.get("properties") or {}).items()):
        hashed.update((name + value).encode())
    hashed.update("".join(sorted(metadata.get("sensitive") or ())).encode())
    return hashed.digest()


def check_mode(catalog: Catalog, subject: str, submission: Submission) -> None:
    """Raises RegistryError(42205) if the mode of the subject does not allow the registration."""
    mode = catalog.mode_in_force(subject)
    if mode.is_read_only:
        raise not_permitted(f"Subject '{subject}' is in mode {mode}: nothing can be registered.")
    if submission.id is not None and not mode.takes_ids:
        raise not_permitted(f"Subject '{subject}' is in mode {mode}: an id can be given in mode IMPORT only.")
    if submission.id is None and mode.takes_ids:
        raise not_permitted(f"Subject '{subject}' is in mode {mode}: an id must be given.")
    if submission.id is not None and not 0 < submission.id <= _MOST_ID:
        raise invalid_schema(f"the id {submission.id} is not between 1 and {_MOST_ID}")


def known_version(
    catalog: Catalog, subject: str, read_schema: ReadSchema, *, include_deleted: bool = False
) -> StoredVersion | None:
    """The newest version of the subject with this very schema."""
    schema_id = catalog.id_of(subjects.context_of(subject), read_schema.digest)
    if schema_id is None:
        return None
    users = catalog.users_of(subjects.context_of(subject), schema_id)
    mine = [each for each in users if each.subject == subject and (include_deleted or not each.is_deleted)]
    return max(mine, key=lambda each: each.version) if mine else None


def candidate(
    catalog: Catalog, subject: str, read_schema: ReadSchema, versions: Sequence[StoredVersion], level: Level
) -> Candidate:
    """What has to be compared for a schema that its subject does not have: `versions` are the subject's, oldest
    first.
    """
    distinct = {each.id: each for each in versions}  # equal schemas are compared once
    ordered = sorted(distinct.values(), key=lambda each: each.version)
    earlier = [
        Earlier(each, resolved(catalog, each.subject, each.schema.references))
        for each in level.compared(ordered)
    ]
    return Candidate(subject, read_schema, level, earlier)


def decide(catalog: Catalog, submission: Submission, chosen: Candidate, misfit: Sequence[str]) -> Decision:
    """The records of a new version. Raises RegistryError(409, 42201 or 42207)."""
    if misfit:
        raise incompatible(chosen.subject, ", ".join(misfit))
    subject, context = chosen.subject, subjects.context_of(chosen.subject)
    next_version = catalog.next_version(subject)
    is_import = catalog.mode_in_force(subject).takes_ids
    version = submission.version if submission.version and submission.version > 0 else next_version
    if version != next_version and not is_import:
        raise invalid_schema(f"the version must be {next_version}, one more than the last, and not {version}")
    schema_id = _id_for(catalog, context, submission, chosen.read)
    stored = StoredVersion(
        subject, version, schema_id, chosen.read.schema, chosen.read.digest, False, chosen.read.others
    )
    return Decision([*_replaced(catalog, stored), version_record(stored)], stored)


def _id_for(catalog: Catalog, context: str, submission: Submission, read_schema: ReadSchema) -> int:
    known = catalog.id_of(context, read_schema.digest)
    if submission.id is None:
        made = catalog.next_id(context) if known is None else known
        if made > _MOST_ID:
            raise not_permitted("All ids of the context are given away.")
        return made
    users = catalog.users_of(context, submission.id)
    if users and users[0].digest != read_schema.digest:
        raise id_taken(submission.id)
    return submission.id


def _replaced(catalog: Catalog, stored: StoredVersion) -> list[RegistryRecord]:
    """Soft deleted versions with the same schema give way to the new one, unless others refer to them."""
    return [
        tombstone(each.subject, each.version)
        for each in catalog.versions(stored.subject, include_deleted=True)
        if each.is_deleted
        and each.id == stored.id
        and each.version < stored.version
        and not catalog.referrers(each.subject, each.version, include_deleted=True)
    ]
