"""What all routes of the registry share: media types, who may read, and refusals with Confluent's numbers.

A caller that logs in reads schemas if the cluster lets it describe the topic `_schemas`, and changes them if the
cluster lets it write to the topic in transactions of the id `ottla-schema-registry`: the cluster's ACLs decide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import json_object, to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import BodyKind, Route
from ottla.gateway.registry.machine import subjects
from ottla.gateway.registry.machine.problems import RegistryError
from ottla.gateway.registry.readers import Readers
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.schemas.protobuf.model import is_descriptor
from ottla.schemas.registry.values import StoredVersion
from ottla.schemas.schema import PROTOBUF
from ottla.security.settings import Security

V1: Final = "application/vnd.schemaregistry.v1+json"
GIVES: Final = (V1, "application/vnd.schemaregistry+json", JSON)
TAKES: Final = (*GIVES, "application/octet-stream")

Handler = Callable[[Request], Awaitable[Any]]

DELETED: Final = Parameter("deleted", "Whether soft deleted ones count, too.", "boolean", False)
NORMALIZE: Final = Parameter(
    "normalize", "Whether the schema is brought into its normal form.", "boolean", False
)
PERMANENT: Final = Parameter(
    "permanent", "Whether to delete for good what was soft deleted.", "boolean", False
)
OFFSET: Final = Parameter("offset", "How many to leave out at the beginning.", "integer", 0, at_least=0)
LIMIT: Final = Parameter("limit", "How many to list at most; -1 for all.", "integer", -1)
FORMAT: Final = Parameter(
    "format", "Another form of the schema: serialized or ignore_extensions, for Protobuf.", "string", ""
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A route of the registry, before it is mounted with and without a context."""

    method: str
    path: str
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()


class Door:
    """The registry, for the handlers of its routes."""

    def __init__(self, registry: SchemaRegistry, readers: Readers) -> None:
        self.registry = registry
        self._readers = readers

    def routes(self, entries: tuple[Entry, ...]) -> list[Route]:
        """Each entry twice: for the default context, and for the one that the address names."""
        return [self.route(each, prefix) for each in entries for prefix in ("", "/contexts/{context}")]

    def security(self, request: Request) -> Security:
        """How the caller reaches the cluster. Raises HttpError(401)."""
        return self._readers.security_of(request.login)

    def route(self, entry: Entry, prefix: str = "") -> Route:
        """One entry, mounted once."""
        body: BodyKind = "required" if entry.method in ("POST", "PUT") else "none"

        async def answered(request: Request) -> Answer:
            try:
                await self._readers.check(request.login)
                value = await entry.handler(request)
            except RegistryError as error:
                raise HttpError(error.status, error.message, error_code=error.code) from error
            return Answer(200, to_json(value), request.accept)

        return Route(
            entry.method,
            prefix + entry.path,
            answered,
            entry.summary,
            "schemas",
            entry.parameters,
            body,
            TAKES,
            GIVES,
            body_schema={"type": "object"} if body != "none" else {},
            problems=(400, 401, 403, 404, 409, 422, 503),
        )

    async def in_form(self, request: Request, stored: StoredVersion, sent: str = "") -> StoredVersion:
        """A version with its schema in the form that the request asks for, or that it was sent in: clients keep the
        answer in the place of what they sent. Raises RegistryError(422).
        """
        form = request.query.get("format")
        if not form and stored.schema.type == PROTOBUF and is_descriptor(sent):
            form = "serialized"
        return await self.registry.in_form(stored, form) if form else stored


def subject_of(request: Request) -> str:
    """The subject that an address names, within the context that it names."""
    name, context = request.params.get("subject", ""), request.params.get("context")
    return subjects.qualified(context, name) if context else subjects.normal(name)


def context_of(request: Request) -> str:
    """The context of a question about ids: of the address, or of the parameter `subject`."""
    context = request.params.get("context")
    if context:
        return subjects.context_of(subjects.context_prefix(context)) or subjects.DEFAULT_CONTEXT
    return subjects.context_of(request.query.get("subject") or "")


def body_of(request: Request) -> dict[str, Any]:
    """The JSON object of a request. Raises HttpError(400 or 422)."""
    return json_object(request.body)


def page_of(request: Request, values: list[Any]) -> list[Any]:
    """The part of a list that `offset` and `limit` ask for."""
    offset, limit = request.query["offset"], request.query["limit"]
    return values[offset:] if limit < 0 else values[offset : offset + limit]
