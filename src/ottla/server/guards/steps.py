"""The steps of a guard. Each one is a check of the table at work: before the handler it refuses the request or some
of its items, after the handler it takes items out of the answer.

An item that is refused is taken out of the request, and its refusal is put into the answer of the rest, so a handler
never sees what its caller has no right to.
"""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from inspect import isawaitable
from typing import Any

from ottla.security.acl.checks import Check
from ottla.security.acl.rules import ResourceType
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards.refusals import refusal

# Answers a request, or what is left of it.
Proceed = Callable[[Any], Any]
Step = Callable[[Rights, RequestContext, Any, Proceed], Any]
# The resource that an item of a request is about; None for an item that is about none.
NameOf = Callable[[RequestContext, Any], str | None]


def refuses_request(check: Check) -> Step:
    """Refuse a whole request about the cluster, or about the group or transactional id that it names."""
    kind = check.rights[-1].resource_type

    def step(rights: Rights, context: RequestContext, request: Any, proceed: Proceed) -> Any:
        if rights.permits(context.session, check, _named(kind, request)):
            return proceed(request)
        return refusal(request, check.error, context.version)

    return step


def _named(kind: ResourceType, request: Any) -> str:
    if kind is ResourceType.GROUP:
        group_id: str = request.group_id
        return group_id
    if kind is ResourceType.TRANSACTIONAL_ID:
        transactional_id: str = request.transactional_id
        return transactional_id
    return ""


def refuses_items(check: Check, items: str, name_of: NameOf) -> Step:
    """Refuse the items of a request, a list in the attribute `items`, that the caller has no right to."""

    def step(rights: Rights, context: RequestContext, request: Any, proceed: Proceed) -> Any:
        allowed: list[Any] = []
        refused: list[Any] = []
        for item in getattr(request, items) or ():
            name = name_of(context, item)
            is_allowed = name is None or rights.permits(context.session, check, name)
            (allowed if is_allowed else refused).append(item)
        if not refused:
            return proceed(request)
        answer = refusal(replace(request, **{items: refused}), check.error, context.version)
        if not allowed:
            return answer
        return then(proceed(replace(request, **{items: allowed})), lambda rest: _joined(rest, answer))

    return step


def hides_items(check: Check, items: str, attribute: str) -> Step:
    """Take those items out of an answer whose name, in `attribute`, is of a resource the caller has no right to."""

    def step(rights: Rights, context: RequestContext, request: Any, proceed: Proceed) -> Any:
        def without_hidden(answer: Any) -> Any:
            shown = [
                item
                for item in getattr(answer, items)
                if rights.permits(context.session, check, getattr(item, attribute))
            ]
            return replace(answer, **{items: shown})

        return then(proceed(request), without_hidden)

    return step


def then(answer: Any, change: Callable[[Any], Any]) -> Any:
    """An answer after a change, at once or when the answer is there."""
    return _later(answer, change) if isawaitable(answer) else change(answer)


async def _later(answer: Awaitable[Any], change: Callable[[Any], Any]) -> Any:
    return change(await answer)


def _joined(answer: Any, refused: Any) -> Any:
    """An answer with the items of another one."""
    lists = {
        item.name: [*getattr(answer, item.name), *getattr(refused, item.name)]
        for item in fields(answer)
        if isinstance(getattr(refused, item.name), list)
    }
    return replace(answer, **lists)


def by(attribute: str) -> NameOf:
    """Items that have their name in an attribute."""
    return lambda context, item: getattr(item, attribute)


def itself(context: RequestContext, item: str) -> str:
    """Items that are names."""
    return item


def topic_of(context: RequestContext, item: Any) -> str | None:
    """Topics by name, or by id where they have no name; None for an id that no topic has."""
    if item.name:
        name: str = item.name
        return name
    topic = context.services.quorum.image.topics_by_id.get(item.topic_id)
    return None if topic is None else topic.name
