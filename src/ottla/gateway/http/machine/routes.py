"""The table of routes: which handler serves a method and a path.

A route says all that the core and OpenAPI need to know: the parameters of its query, the media types that it takes
and gives, and what its body looks like. A sub-room of the gateway hands its routes to the composition root, which
puts them into one table; the core knows no route by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.parameters import Parameter

Handler = Callable[[Request], Awaitable[Answer]]
BodyKind = Literal["none", "optional", "required", "stream"]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, such as `/topics/{topic}`, and its handler.

    A route of kind "socket" is a WebSocket: its handler gets a socket beside the request, and is called after the
    upgrade. `body_schema` and `answer_schema` are JSON Schemas, for OpenAPI.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    summary: str
    tag: str
    parameters: tuple[Parameter, ...] = ()
    body: BodyKind = "none"
    takes: tuple[str, ...] = (JSON,)
    gives: tuple[str, ...] = (JSON,)
    body_schema: Mapping[str, Any] = field(default_factory=dict)
    answer_schema: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    problems: tuple[int, ...] = ()
    is_socket: bool = False

    @property
    def param_names(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


@dataclass(slots=True)
class _Node:
    """A place in the tree of paths."""

    literals: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    routes: dict[str, Route] = field(default_factory=dict)

    def child(self, part: str) -> _Node:
        if not part.startswith("{"):
            return self.literals.setdefault(part, _Node())
        if self.variable is None:
            self.variable = _Node()
        return self.variable


class RouteTable:
    """Finds routes. A literal part of a path takes precedence over a variable one."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            node = self._root
            for part in _parts(route.path):
                node = node.child(part)
            assert route.method not in node.routes, f"{route.method} {route.path} has two handlers"
            node.routes[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route, and the variable parts of the path. Raises HttpError(400, 404 or 405)."""
        values: list[str] = []
        node = self._walk(path, values)
        route = node.routes.get(method)
        if route is None:
            allowed = ", ".join(sorted({*node.routes, "OPTIONS"}))
            raise HttpError(
                405, f"{method} is not served here: {allowed} can be used", headers={"Allow": allowed}
            )
        return route, dict(zip(route.param_names, values, strict=True))

    def methods(self, path: str) -> list[str]:
        """The methods that this path serves. Raises HttpError(400 or 404)."""
        return sorted(self._walk(path, []).routes)

    def _walk(self, path: str, values: list[str]) -> _Node:
        node: _Node | None = self._root
        for part in map(_decoded, _parts(path)):
            assert node is not None
            literal = node.literals.get(part)
            if literal is None:
                values.append(part)
            node = node.variable if literal is None else literal
            if node is None or not part:
                node = None
                break
        if node is None or not node.routes:
            raise HttpError(404, f"there is nothing at {path[:200]}: see /docs for what there is")
        return node


def _parts(path: str) -> list[str]:
    return path.split("/")[1:] if path != "/" else []


def _decoded(part: str) -> str:
    """A part of a path without percent signs. A slash that was written as %2F stays in its part."""
    try:
        return unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError as error:
        raise HttpError(400, f"the path cannot be read: {part[:100]} is not text in UTF-8") from error
