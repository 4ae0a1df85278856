"""The registry of one gateway: questions are answered from memory, changes are written to the topic.

The topic is opened by the first request, and opened again after it could not be read for a while. Parsing and
comparing schemas happens in threads, because a large schema takes long and others are waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ottla.gateway.registry.machine import references, registration
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.decision import Decision
from ottla.gateway.registry.machine.problems import (
    RegistryError,
    invalid_schema,
    schema_not_found,
    subject_not_found,
)
from ottla.gateway.registry.machine.registration import ReadSchema, Submission
from ottla.gateway.registry.schemas_topic import SchemasTopic
from ottla.gateway.registry.writer import SchemasWriter
from ottla.schemas.formats import parse_schema
from ottla.schemas.levels import Level
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import InvalidSchemaError
from ottla.security.settings import Security

T = TypeVar("T")


class SchemaRegistry:
    """Subjects, versions and ids for the routes of a gateway. `own` is how the gateway itself reads the topic."""

    def __init__(self, bootstrap: str, own: Security) -> None:
        self._bootstrap = bootstrap
        self._own = own
        self._opening = asyncio.Lock()
        self._topic: SchemasTopic | None = None
        self._writer = SchemasWriter(bootstrap)

    async def open(self) -> None:
        """Make sure that the topic is there and can be read. Raises KafkaError and OSError."""
        await self._opened()

    async def close(self) -> None:
        """Stop reading, and give the right to write back."""
        await self._writer.close()
        async with self._opening:
            topic, self._topic = self._topic, None
            if topic is not None:
                await topic.__aexit__(None, None, None)

    # ---- questions

    async def ask(self, question: Callable[[Catalog], T]) -> T:
        """An answer that knows all that was written before. Raises RegistryError, KafkaError and OSError."""
        topic = await self._opened()
        await topic.catch_up()
        return question(topic.catalog)

    async def ask_memory(self, question: Callable[[Catalog], T]) -> T:
        """An answer about what never changes, such as the schema of an id: from memory, if it is there."""
        topic = await self._opened()
        try:
            return question(topic.catalog)
        except RegistryError:
            await topic.catch_up()
            return question(topic.catalog)

    async def lookup(
        self, subject: str, submission: Submission, *, normalize: bool | None, include_deleted: bool
    ) -> StoredVersion:
        """The version of a subject that has this very schema. Raises RegistryError(40401, 40403 or 42201)."""
        topic = await self._opened()
        await topic.catch_up()
        if not topic.catalog.versions(subject, include_deleted=include_deleted):
            raise subject_not_found(subject)
        read = await self._read(topic.catalog, subject, submission, normalize)
        found = registration.known_version(topic.catalog, subject, read, include_deleted=include_deleted)
        if found is None:
            raise schema_not_found()
        return found

    async def check(
        self, subject: str, submission: Submission, version: int | str | None, *, normalize: bool | None
    ) -> list[str]:
        """Why a schema does not fit: a version, the latest one (None), or all that count ("all")."""
        topic = await self._opened()
        await topic.catch_up()
        catalog = topic.catalog
        level = catalog.settings_in_force(subject).level or Level.BACKWARD
        if version == "all":
            versions = catalog.versions(subject)
        elif version is None and not catalog.versions(subject):
            raise subject_not_found(subject)
        else:
            versions = [catalog.version(subject, None if version is None else int(version))]
        try:
            read = await self._read(catalog, subject, submission, normalize)
        except RegistryError as error:
            if error.code == 42201:
                return [error.message]
            raise
        candidate = registration.candidate(catalog, subject, read, versions, level)
        return await _compared(candidate)

    async def in_form(self, stored: StoredVersion, form: str) -> StoredVersion:
        """A version with its schema in another form, such as `serialized`. Raises RegistryError(422)."""
        topic = await self._opened()
        imports = references.resolved(topic.catalog, stored.subject, stored.schema.references)
        schema = stored.schema

        def formed() -> str:
            return parse_schema(schema.type, schema.text, imports).form(form)

        try:
            text = await asyncio.to_thread(formed)
        except InvalidSchemaError as error:
            raise RegistryError(422, f"The schema cannot be given in this form: {error}") from error
        return replace(stored, schema=replace(schema, text=text))

    # ---- changes

    async def change(self, security: Security, command: Callable[[Catalog], Decision]) -> Any:
        """Carry a command out as a caller. Raises RegistryError, KafkaError and OSError."""

        async def decided(catalog: Catalog) -> Decision:
            return command(catalog)

        return await self._writer.write(await self._opened(), security, decided)

    async def register(
        self, security: Security, subject: str, submission: Submission, *, normalize: bool | None
    ) -> StoredVersion:
        """A version of the subject with this schema: the one that is there, or a new one."""
        topic = await self._opened()
        if submission.version is None:
            # Nearly every registration is of a schema that is there: it needs no right to write.
            await topic.catch_up()
            found = await self._known(topic.catalog, subject, submission, normalize)
            if found is not None:
                return found

        async def decided(catalog: Catalog) -> Decision:
            return await self._registered(catalog, subject, submission, normalize)

        answer: StoredVersion = await self._writer.write(topic, security, decided)
        return answer

    async def _known(
        self, catalog: Catalog, subject: str, submission: Submission, normalize: bool | None
    ) -> StoredVersion | None:
        registration.check_mode(catalog, subject, submission)
        read = await self._read(catalog, subject, submission, normalize)
        found = registration.known_version(catalog, subject, read)
        return found if found is None or submission.id in (None, found.id) else None

    async def _registered(
        self, catalog: Catalog, subject: str, submission: Submission, normalize: bool | None
    ) -> Decision:
        registration.check_mode(catalog, subject, submission)
        exact, _ = registration.imports_of(catalog, subject, submission)
        read = await self._read(catalog, subject, submission, normalize)
        found = registration.known_version(catalog, subject, read)
        if found is not None and submission.version is None and submission.id in (None, found.id):
            return Decision((), found)
        settings = catalog.settings_in_force(subject)
        level = settings.level or Level.BACKWARD
        if catalog.mode_in_force(subject).takes_ids:
            level = Level.NONE
        candidate = registration.candidate(catalog, subject, read, catalog.versions(subject), level)
        misfit = await _compared(candidate)
        return registration.decide(catalog, exact, candidate, misfit)

    async def _read(
        self, catalog: Catalog, subject: str, submission: Submission, normalize: bool | None
    ) -> ReadSchema:
        is_normal = normalize or bool(catalog.settings_in_force(subject).normalize)
        exact, imports = registration.imports_of(catalog, subject, submission)
        return await asyncio.to_thread(registration.read, exact, imports, normalize=is_normal)

    async def _opened(self) -> SchemasTopic:
        async with self._opening:
            if self._topic is not None and self._topic.has_failed:
                failed, self._topic = self._topic, None
                await failed.__aexit__(None, None, None)
            if self._topic is None:
                self._topic = await SchemasTopic(self._bootstrap, self._own).__aenter__()
            return self._topic


async def _compared(candidate: registration.Candidate) -> list[str]:
    try:
        return await asyncio.to_thread(candidate.misfit)
    except InvalidSchemaError as error:
        raise invalid_schema(f"it cannot be compared with an earlier one: {error}") from error
