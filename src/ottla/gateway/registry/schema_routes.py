"""Schemas by id and by GUID, and the contexts that there are. Most are answered from memory."""

from __future__ import annotations

from typing import Any

from ottla.gateway.http.machine.message import Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.registry.door import (
    DELETED,
    FORMAT,
    LIMIT,
    OFFSET,
    Door,
    Entry,
    context_of,
    page_of,
)
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.problems import schema_not_found
from ottla.gateway.registry.machine.submissions import id_in
from ottla.schemas.formats import FORMATS
from ottla.schemas.registry.values import StoredVersion

_SUBJECT = Parameter("subject", "A subject, or a context such as :.sales:, in which the id counts.", "string")
_MAXIMUM = Parameter("fetchMaxId", "Whether to say the highest id, too.", "boolean", False)
_REFERENCES = tuple(
    Parameter(each, "Accepted, and not needed.", "string", "")
    for each in ("referenceFormat", "reference_format")
)


class SchemaRoutes:
    """The routes below /schemas and /contexts."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._registry = door.registry

    def routes(self) -> list[Route]:
        one, paged = "/schemas/ids/{id}", (_SUBJECT, DELETED, OFFSET, LIMIT)
        entries = (
            Entry(
                "GET", one, self._by_id, "The schema of an id.", (_SUBJECT, FORMAT, _MAXIMUM, *_REFERENCES)
            ),
            Entry("GET", f"{one}/schema", self._text_of_id, "The schema alone.", (_SUBJECT, FORMAT)),
            Entry("GET", f"{one}/subjects", self._subjects, "The subjects of an id.", paged),
            Entry("GET", f"{one}/versions", self._versions, "The versions of an id.", paged),
            Entry("GET", "/schemas/guids/{guid}", self._by_guid, "The schema of a GUID.", (FORMAT,)),
            Entry("GET", "/schemas/guids/{guid}/ids", self._ids_of_guid, "The ids of a GUID."),
            Entry("GET", "/schemas/types", self._types, "The types of schemas that are served."),
        )
        contexts = Entry("GET", "/contexts", self._contexts, "All contexts.", (OFFSET, LIMIT))
        return [*self._door.routes(entries), self._door.route(contexts)]

    async def _by_id(self, request: Request) -> dict[str, Any]:
        stored = await self._door.in_form(request, (await self._users(request))[0])
        shown = {"guid": stored.guid, **stored.described_schema()}
        if request.query["fetchMaxId"]:
            context = context_of(request)
            shown["maxId"] = await self._registry.ask(lambda catalog: catalog.highest_id(context))
        return shown

    async def _text_of_id(self, request: Request) -> Any:
        return (await self._door.in_form(request, (await self._users(request))[0])).schema_value()

    async def _subjects(self, request: Request) -> list[str]:
        users = await self._living_users(request)
        return page_of(request, sorted({each.subject for each in users}))

    async def _versions(self, request: Request) -> list[dict[str, Any]]:
        users = await self._living_users(request)
        return page_of(request, [{"subject": each.subject, "version": each.version} for each in users])

    async def _users(self, request: Request) -> list[StoredVersion]:
        """From memory: what an id stands for never changes."""
        schema_id, context = id_in(request.params["id"]), context_of(request)
        return await self._registry.ask_memory(lambda catalog: _known(catalog, context, schema_id))

    async def _living_users(self, request: Request) -> list[StoredVersion]:
        schema_id, context, deleted = (
            id_in(request.params["id"]),
            context_of(request),
            request.query["deleted"],
        )
        users = await self._registry.ask(lambda catalog: _known(catalog, context, schema_id))
        return [each for each in users if deleted or not each.is_deleted]

    async def _by_guid(self, request: Request) -> dict[str, Any]:
        guid = request.params["guid"]

        def found(catalog: Catalog) -> StoredVersion:
            places = catalog.with_guid(guid)
            if not places:
                raise schema_not_found(guid[:40])
            return catalog.users_of(*places[0])[0]

        stored = await self._door.in_form(request, await self._registry.ask_memory(found))
        return {"guid": stored.guid, **stored.described_schema()}

    async def _ids_of_guid(self, request: Request) -> list[dict[str, Any]]:
        guid = request.params["guid"]
        places = await self._registry.ask(lambda catalog: catalog.with_guid(guid))
        return [{"context": context, "id": schema_id} for context, schema_id in places]

    async def _types(self, request: Request) -> list[str]:
        return list(FORMATS)

    async def _contexts(self, request: Request) -> list[str]:
        return page_of(request, await self._registry.ask(lambda catalog: catalog.contexts()))


def _known(catalog: Catalog, context: str, schema_id: int) -> list[StoredVersion]:
    users = catalog.users_of(context, schema_id)
    if not users:
        raise schema_not_found(schema_id)
    return users
