"""Subjects of the schema registry, and the versions of one."""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.listing import LIST_PARAMETERS, named_like, page_of
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.routes import Route
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.gateway.registry.schemas_topic import TOPIC


class SchemaPages:
    """What the page shows of schemas. A registry that nobody has used yet is not created by looking at it."""

    def __init__(self, door: Door, registry: SchemaRegistry) -> None:
        self._door = door
        self._registry = registry

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        return (
            reads("/schemas", self._list, "Subjects, a page at a time.", LIST_PARAMETERS),
            reads("/schemas/{subject}", self._show, "All versions of a subject."),
        )

    async def _list(self, visit: Visit) -> Any:
        subjects = sorted(await self._registry.ask(Catalog.all_subjects)) if await _is_there(visit) else []
        found = named_like(subjects, visit.query["search"], str)
        rows, facts = page_of(found, visit.query["page"], visit.query["per_page"])
        shown = [await self._registry.ask_memory(partial(_row, subject=name)) for name in rows]
        return {"subjects": shown, **facts, "command": visit.commands.line("schemas", "list")}

    async def _show(self, visit: Visit) -> Any:
        subject = visit.params["subject"]
        versions = (
            await self._registry.ask(lambda catalog: catalog.versions(subject))
            if await _is_there(visit)
            else []
        )
        if not versions:
            raise HttpError(404, f"there is no subject {subject[:100]!r}", error_code=40401)
        level = await self._registry.ask_memory(lambda catalog: catalog.settings_in_force(subject).level)
        return {
            "subject": subject,
            "level": str(level.value if level is not None else "BACKWARD"),
            "versions": [
                {
                    "version": each.version,
                    "id": each.id,
                    "type": each.schema.type,
                    "text": each.schema.text,
                    "references": [list(one) for one in each.schema.references],
                }
                for each in reversed(versions)
            ],
            "command": visit.commands.line("schemas", "show", subject),
        }


async def _is_there(visit: Visit) -> bool:
    """Whether the topic of schemas exists and the user may describe it."""
    try:
        await visit.caller.topics.partition_count(TOPIC)
    except HttpError as missing:
        if missing.status == 404:
            return False
        raise
    return True


def _row(catalog: Catalog, subject: str) -> dict[str, Any]:
    latest = catalog.latest(subject)
    return {
        "subject": subject,
        "versions": len(catalog.versions(subject)),
        "latest": None if latest is None else latest.version,
        "id": None if latest is None else latest.id,
        "type": None if latest is None else latest.schema.type,
    }
