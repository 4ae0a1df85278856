"""Users, access control lists and quotas."""

from __future__ import annotations

from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.listing import LIST_PARAMETERS, named_like, page_of
from ottla.gateway.http.machine.routes import Route
from ottla.security.acl.rules import Acl, AclFilter


class RightsPages:
    """What the page shows of users and their rights."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        return (
            reads("/acls", self._acls, "Access control lists, a page at a time.", LIST_PARAMETERS),
            reads("/users", self._users, "Users that log in with a password.", LIST_PARAMETERS),
            reads("/quotas", self._quotas, "Quotas of users, client ids and addresses."),
        )

    async def _acls(self, visit: Visit) -> Any:
        command = visit.commands.line("acls", "list")
        try:
            found = await visit.admin.describe_acls(AclFilter())
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            note = "This cluster checks no rights: everybody may do everything (authorizer.class.name)."
            return {
                "acls": [],
                "note": note,
                "total": 0,
                "page": 1,
                "pages": 1,
                "per_page": 1,
                "command": command,
            }
        rows, facts = page_of(
            named_like(sorted(found), visit.query["search"], str),
            visit.query["page"],
            visit.query["per_page"],
        )
        return {"acls": [_acl(each) for each in rows], **facts, "command": command}

    async def _users(self, visit: Visit) -> Any:
        users = await visit.admin.describe_users()
        names = named_like(sorted(users), visit.query["search"], str)
        rows, facts = page_of(names, visit.query["page"], visit.query["per_page"])
        shown = [{"name": name, "mechanisms": _mechanisms(users[name])} for name in rows]
        return {"users": shown, **facts, "command": visit.commands.line("users", "list")}

    async def _quotas(self, visit: Visit) -> Any:
        found = await visit.admin.describe_quotas()
        shown = [{"entity": str(entity), "limits": limits} for entity, limits in found.items()]
        return {"quotas": shown, "command": visit.commands.line("quotas", "list")}


def _mechanisms(found: dict[str, int] | KafkaError) -> list[str]:
    return [] if isinstance(found, KafkaError) else sorted(found)


def _acl(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower(),
        "resource_type": acl.pattern.resource_type.name.lower(),
        "resource": acl.pattern.name,
        "pattern": acl.pattern.pattern_type.name.lower(),
        "host": acl.host,
    }
