"""A request as a handler sees it, and its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.gateway.http.machine.credentials import Login

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has a route. Names of headers are in small letters.

    `params` are the parts of the path that the route names, `query` the declared parameters with their types.
    `given` are the media types that the body has and that the answer shall have. `chunks` is the body of a route
    that reads it while it arrives; `body` is empty then.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    login: Login | None = None
    id: str = ""
    peer: str = ""
    scheme: str = "http"
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    chunks: AsyncIterator[bytes] | None = None

    @property
    def base_url(self) -> str:
        """The address under which the caller reached this gateway."""
        return f"{self.scheme}://{self.headers.get('host', '')}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its whole body, or the pieces of one that is sent while it is made."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT: Final = Answer(204)
