"""Subjects and their versions: list, show, look up, register, check, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ottla.gateway.http.machine.message import Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.registry.door import (
    DELETED,
    FORMAT,
    LIMIT,
    NORMALIZE,
    OFFSET,
    PERMANENT,
    Door,
    Entry,
    body_of,
    page_of,
    subject_of,
)
from ottla.gateway.registry.machine import deletion, subjects
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.problems import schema_not_found, subject_not_found
from ottla.gateway.registry.machine.submissions import submission_of, version_in
from ottla.schemas.registry.values import StoredVersion

_DELETED_ONLY = Parameter("deletedOnly", "Only those that are soft deleted.", "boolean", False)
_ONLY_TOO = Parameter("deleted_only", "The same, as confluent-kafka spells it.", "boolean", False)
_PREFIX = Parameter("subjectPrefix", "How the names of the subjects begin; :*: for all.", "string", ":*:")
_VERBOSE = Parameter("verbose", "Whether to say why a schema does not fit.", "boolean", False)
_KEYS = (
    Parameter("key", "The name of a property; as often as there are properties.", "string"),
    Parameter("value", "The value of the property.", "string"),
)


class SubjectRoutes:
    """The routes below /subjects and /compatibility."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._registry = door.registry

    def routes(self) -> list[Route]:
        one, many = "/subjects/{subject}", (OFFSET, LIMIT, DELETED, _DELETED_ONLY, _ONLY_TOO)
        version = f"{one}/versions/{{version}}"
        check = "/compatibility/subjects/{subject}/versions"
        return self._door.routes(
            (
                Entry("GET", "/subjects", self._subjects, "All subjects.", (*many, _PREFIX)),
                Entry("POST", one, self._lookup, "The version with a schema.", (NORMALIZE, DELETED, FORMAT)),
                Entry("DELETE", one, self._delete_subject, "Delete a subject.", (PERMANENT,)),
                Entry("GET", f"{one}/versions", self._versions, "The versions of a subject.", many),
                Entry("POST", f"{one}/versions", self._register, "Register a schema.", (NORMALIZE, FORMAT)),
                Entry("GET", f"{one}/metadata", self._by_metadata, "By metadata.", (*_KEYS, DELETED, FORMAT)),
                Entry("GET", version, self._version, "A version of a subject.", (DELETED, FORMAT)),
                Entry("DELETE", version, self._delete_version, "Delete a version.", (PERMANENT,)),
                Entry("GET", f"{version}/schema", self._schema, "The schema alone.", (DELETED, FORMAT)),
                Entry(
                    "GET",
                    f"{version}/referencedby",
                    self._referrers,
                    "Who refers to it.",
                    (OFFSET, LIMIT, DELETED),
                ),
                Entry("POST", check, self._check_all, "Does a schema fit all?", (NORMALIZE, _VERBOSE)),
                Entry(
                    "POST", f"{check}/{{version}}", self._check, "Does a schema fit?", (NORMALIZE, _VERBOSE)
                ),
            )
        )

    async def _subjects(self, request: Request) -> list[str]:
        query, context = request.query, request.params.get("context")
        prefix = subjects.context_prefix(context) if context else query["subjectPrefix"].removeprefix(":*:")

        def named(catalog: Catalog) -> list[str]:
            return [
                each
                for each in catalog.all_subjects()
                if each.startswith(prefix) and _is_listed(catalog.versions(each), query)
            ]

        return page_of(request, await self._registry.ask(named))

    async def _versions(self, request: Request) -> list[int]:
        subject, query = subject_of(request), request.query
        only_deleted = _only_deleted(query)
        wants_deleted = query["deleted"] or only_deleted
        found = await self._registry.ask(
            lambda catalog: catalog.versions(subject, include_deleted=wants_deleted)
        )
        listed = [each.version for each in found if each.is_deleted or not only_deleted]
        if not listed:
            raise subject_not_found(subject)
        return page_of(request, listed)

    async def _version(self, request: Request) -> dict[str, Any]:
        return (await self._stored(request)).described()

    async def _schema(self, request: Request) -> Any:
        return (await self._stored(request)).schema_value()

    async def _stored(self, request: Request) -> StoredVersion:
        subject, version = subject_of(request), version_in(request.params["version"])
        deleted = request.query["deleted"]
        found = await self._registry.ask(
            lambda catalog: catalog.version(subject, version, include_deleted=deleted)
        )
        return await self._door.in_form(request, found)

    async def _by_metadata(self, request: Request) -> dict[str, Any]:
        subject, deleted = subject_of(request), request.query["deleted"]
        pairs = parse_qsl(urlsplit(request.target).query, keep_blank_values=True)
        keys = [value for name, value in pairs if name == "key"]
        wanted = dict(zip(keys, [value for name, value in pairs if name == "value"], strict=False))
        found = await self._registry.ask(lambda catalog: catalog.versions(subject, include_deleted=deleted))
        if not found:
            raise subject_not_found(subject)
        for each in reversed(found):
            properties = (each.others.get("metadata") or {}).get("properties") or {}
            if wanted.items() <= properties.items():
                return (await self._door.in_form(request, each)).described()
        raise schema_not_found()

    async def _referrers(self, request: Request) -> list[int]:
        subject, version = subject_of(request), version_in(request.params["version"])
        deleted = request.query["deleted"]

        def referrers(catalog: Catalog) -> list[int]:
            stored = catalog.version(subject, version, include_deleted=True)
            found = catalog.referrers(subject, stored.version, include_deleted=deleted)
            return sorted({each.id for each in found})

        return page_of(request, await self._registry.ask(referrers))

    async def _lookup(self, request: Request) -> dict[str, Any]:
        submission = submission_of(body_of(request))
        found = await self._registry.lookup(
            subject_of(request),
            submission,
            normalize=request.query["normalize"],
            include_deleted=request.query["deleted"],
        )
        return (await self._door.in_form(request, found, submission.text)).described()

    async def _register(self, request: Request) -> dict[str, Any]:
        subject = subjects.checked(subject_of(request))
        security, submission = self._door.security(request), submission_of(body_of(request))
        found = await self._registry.register(
            security, subject, submission, normalize=request.query["normalize"]
        )
        return (await self._door.in_form(request, found, submission.text)).described()

    async def _delete_subject(self, request: Request) -> Any:
        subject, permanent = subject_of(request), request.query["permanent"]
        return await self._registry.change(
            self._door.security(request),
            lambda catalog: deletion.delete_subject(catalog, subject, permanent=permanent),
        )

    async def _delete_version(self, request: Request) -> Any:
        subject, version = subject_of(request), version_in(request.params["version"])
        permanent = request.query["permanent"]
        return await self._registry.change(
            self._door.security(request),
            lambda catalog: deletion.delete_version(catalog, subject, version, permanent=permanent),
        )

    async def _check(self, request: Request) -> dict[str, Any]:
        return await self._checked(request, version_in(request.params["version"]))

    async def _check_all(self, request: Request) -> dict[str, Any]:
        return await self._checked(request, "all")

    async def _checked(self, request: Request, version: int | str | None) -> dict[str, Any]:
        submission = submission_of(body_of(request))
        messages = await self._registry.check(
            subject_of(request), submission, version, normalize=request.query["normalize"]
        )
        answer: dict[str, Any] = {"is_compatible": not messages}
        return answer | ({"messages": messages} if request.query["verbose"] else {})


def _is_listed(present: list[StoredVersion], query: Mapping[str, Any]) -> bool:
    if _only_deleted(query):
        return not present
    return bool(present) or bool(query["deleted"])


def _only_deleted(query: Mapping[str, Any]) -> bool:
    return bool(query["deletedOnly"] or query["deleted_only"])
