"""One request: its route, its parameters, its handler. Every failure becomes an answer with a sentence."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from ottla.gateway.http.machine.certificates import LoginOf
from ottla.gateway.http.machine.credentials import Login, login_from
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.json_bodies import to_json
from ottla.gateway.http.machine.media_types import answer_type, body_type
from ottla.gateway.http.machine.message import JSON, Answer, Request
from ottla.gateway.http.machine.origins import cors_headers, may_call, preflight_headers
from ottla.gateway.http.machine.parameters import parse_query
from ottla.gateway.http.machine.routes import Route, RouteTable

logger = logging.getLogger(__name__)

REQUEST_ID: Final = "X-Request-Id"
# An id from outside is logged and sent back: it must be short and harmless.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

Translate = Callable[[Exception], HttpError | None]


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request as it came, and where it came from."""

    method: str
    target: str
    headers: Mapping[str, str]
    peer: str
    scheme: str
    certificate: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with its route; without one, the answer is known already."""

    request: Request
    route: Route | None = None
    answer: Answer | None = None


class Dispatch:
    """Prepares requests from their heads, and calls their handlers.

    `translate` turns exceptions of other libraries into problems; those that it does not know are the gateway's
    own mistakes, are logged, and answered with status 500.
    """

    def __init__(
        self,
        table: RouteTable,
        allowed_origins: Sequence[str],
        translate: Translate,
        certificate_login: LoginOf | None = None,
    ) -> None:
        self._table = table
        self._certificate_login = certificate_login
        self._origins = allowed_origins
        self._translate = translate

    def prepare(self, head: Head) -> Prepared:
        """The request without its body."""
        given_id = head.headers.get(REQUEST_ID.lower(), "")
        request_id = given_id if _REQUEST_ID.fullmatch(given_id) else uuid4().hex
        request = Request(
            head.method, head.target, head.headers, id=request_id, peer=head.peer, scheme=head.scheme
        )
        try:
            path, query = _path_and_query(head.target)
            if head.method == "OPTIONS":
                return Prepared(request, answer=self._preflight(path))
            return self._routed(request, path, query, self._login(head))
        except HttpError as problem:
            return Prepared(request, answer=_answer_of(problem))

    async def answer(self, prepared: Prepared) -> Answer:
        """Call the handler, unless the answer is known."""
        if prepared.answer is not None:
            return self._with_headers(prepared.request, prepared.answer)
        route, request = prepared.route, prepared.request
        assert route is not None
        try:
            answer: Answer = await route.handler(request)
        except Exception as error:
            answer = _answer_of(self.problem_of(error, request))
        return self._with_headers(request, answer)

    def refusal(self, request: Request, problem: HttpError) -> Answer:
        """The answer to a request that is refused by the connection."""
        return self._with_headers(request, _answer_of(problem))

    def problem_of(self, error: Exception, request: Request) -> HttpError:
        """What to tell a caller about an exception."""
        problem = error if isinstance(error, HttpError) else self._translate(error)
        if problem is None:
            logger.exception("request %s failed: %s %s", request.id, request.method, request.target[:500])
            problem = HttpError(500, f"the gateway failed in a way it did not foresee (request {request.id})")
        return problem

    def _login(self, head: Head) -> Login | None:
        """What the caller says in a header comes before what its certificate says."""
        said = login_from(head.headers.get("authorization"))
        if said is not None or head.certificate is None or self._certificate_login is None:
            return said
        return self._certificate_login(head.certificate)

    def _routed(self, request: Request, path: str, query: str, login: Login | None) -> Prepared:
        route, params = self._table.find(request.method, path)
        values = parse_query(query, route.parameters)
        headers = request.headers
        if route.is_socket:
            if not may_call(headers, self._origins):
                origin = headers.get("origin", "")[:200]
                raise HttpError(403, f"pages of {origin} may not call: see ottla.gateway.allowed.origins")
            return Prepared(replace(request, params=params, query=values, login=login), route)
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        content_type = ""
        if has_body and headers.get("content-encoding", "identity").lower() != "identity":
            raise HttpError(415, "compressed bodies are not served: send the body without Content-Encoding")
        if route.body in ("required", "stream") or (route.body == "optional" and has_body):
            content_type = body_type(headers.get("content-type"), route.takes)
        accept = answer_type(headers.get("accept"), route.gives)
        complete = replace(
            request, params=params, query=values, login=login, content_type=content_type, accept=accept
        )
        return Prepared(complete, route)

    def _preflight(self, path: str) -> Answer:
        methods = self._table.methods(path)
        allowed = {"Allow": ", ".join([*methods, "OPTIONS"])}
        return Answer(204, headers=preflight_headers(methods) | allowed if self._origins else allowed)

    def _with_headers(self, request: Request, answer: Answer) -> Answer:
        shared = {REQUEST_ID: request.id, **cors_headers(request.headers, self._origins)}
        return replace(answer, headers={**answer.headers, **shared})


def _answer_of(problem: HttpError) -> Answer:
    return Answer(problem.status, to_json(problem.body()), JSON, problem.headers)


def _path_and_query(target: str) -> tuple[str, str]:
    """Of `/path?query`, or of a whole address, as a request to a proxy has it. Raises HttpError(400)."""
    if not target.startswith("/"):
        try:
            whole = urlsplit(target)
        except ValueError as error:
            raise HttpError(400, f"{target[:200]} is no address: {error}") from error
        if whole.scheme not in ("http", "https"):
            raise HttpError(400, f"{target[:200]} is no path: it must begin with /")
        return whole.path or "/", whole.query
    path, _, query = target.partition("?")
    return path, query
