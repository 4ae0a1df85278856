"""What all routes of the console's API share.

- A caller is known by the cookie of its session, or by an Authorization header as at the gateway's other doors; it
  acts with clients of its own, so the cluster's access control lists decide.
- A request that changes something needs the header `X-Ottla-Console`: a page of another site cannot send it without
  being asked for by CORS, and the gateway does not allow it there. The cookie is not sent for other sites either.
- A refused login is answered without `WWW-Authenticate`: the page has a form, the browser shall not ask by itself.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.client.admin.admin import Admin
from ottla.gateway.cluster.failures import problem_of
from ottla.gateway.cluster.pool import Caller, ClientPool
from ottla.gateway.console.machine.command_lines import CommandLines
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.console.sessions import Sessions
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import json_object, to_json
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.parameters import Parameter
from ottla.gateway.http.machine.routes import Route

API: Final = "/console/api"
CHANGES: Final = "x-ottla-console"
# A smaller answer is one packet with or without compression.
_LEAST_COMPRESSED_BYTES: Final = 1_400
_PROBLEMS: Final = (400, 401, 403, 404, 409, 413, 415, 416, 422, 429, 500, 503)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of the page: who asks, with which clients."""

    request: Request
    login: Login | None
    caller: Caller
    admin: Admin
    commands: CommandLines

    @property
    def query(self) -> Any:
        return self.request.query

    @property
    def params(self) -> Any:
        return self.request.params

    def body(self) -> Body:
        """The JSON object that was sent. Raises HttpError(400 or 422)."""
        return Body(json_object(self.request.body))


Handler = Callable[[Visit], Awaitable[Any]]


class Door:
    """Makes routes of handlers. A handler returns what becomes JSON, or an answer."""

    def __init__(self, pool: ClientPool, sessions: Sessions, bootstrap: str) -> None:
        self.pool = pool
        self._sessions = sessions
        self._commands = CommandLines(bootstrap)

    def reads(
        self,
        path: str,
        handler: Handler,
        summary: str,
        parameters: tuple[Parameter, ...] = (),
        gives: tuple[str, ...] = (JSON,),
    ) -> Route:
        """A route that shows something."""
        return Route(
            "GET",
            API + path,
            self._answering(handler),
            summary,
            "console",
            parameters=parameters,
            gives=gives,
            answer_schema={"type": "object"} if gives == (JSON,) else {"type": "string"},
            problems=_PROBLEMS,
        )

    def changes(self, path: str, handler: Handler, summary: str) -> Route:
        """A route that may change something."""

        async def checked(visit: Visit) -> Any:
            check_own_page(visit.request)
            return await handler(visit)

        return Route(
            "POST",
            API + path,
            self._answering(checked),
            summary,
            "console",
            body="required",
            body_schema={"type": "object"},
            answer_schema={"type": "object"},
            problems=_PROBLEMS,
        )

    def _answering(self, handler: Handler) -> Callable[[Request], Awaitable[Answer]]:
        async def answered(request: Request) -> Answer:
            with_login = replace(request, login=self._sessions.login_of(request))
            async with own_refusals(), self.pool.caller(with_login.login) as caller:
                admin = await caller.clients.admin()
                value = await handler(Visit(with_login, with_login.login, caller, admin, self._commands))
            return value if isinstance(value, Answer) else json_answer(request, value)

        return answered


class own_refusals:  # noqa: N801 - used as a block
    """Turns errors into refusals that the page can show, without the browser's own login window."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        problem = error if isinstance(error, HttpError) else problem_of(error)
        if problem is not None and problem.status == 401:
            raise HttpError(401, problem.message, error_code=problem.error_code) from error


def check_own_page(request: Request) -> None:
    """Raises HttpError(403) for a request that another page may have sent."""
    if CHANGES not in request.headers:
        raise HttpError(403, "only the console's own page may ask for this: send the header X-Ottla-Console")


def json_answer(request: Request, value: Any, headers: dict[str, str] | None = None) -> Answer:
    """JSON that is not stored by anybody, compressed if it is large and the caller takes it."""
    body, shown = to_json(value), {"Cache-Control": "no-store", **(headers or {})}
    if len(body) >= _LEAST_COMPRESSED_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        return Answer(
            200,
            gzip.compress(body, 1),
            headers={**shown, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
        )
    return Answer(200, body, headers=shown)
