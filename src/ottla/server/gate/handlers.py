"""Handlers, and their registration: beside themselves, with the declaration of the requests that each of them
serves.

    api = ApiFamily()

    @api.handles(ListOffsetsRequest)
    def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse: ...

    @api.gathers(ProduceRequest)
    class ProduceGatherer: ...

A handler is a plain function when it can answer at once and a coroutine function when it has to wait. It
answers a response message, or, where file ranges go out, the finished parts; or a `Deferred` that will have
them. A gatherer takes all requests of one socket read and answers them together. A request that comes alone
(a broker under test hands each request through its faults) is answered by a gatherer of its own, so that
every API has a handler.

Nothing is registered globally: a family is a module's own table, and `apis/table.py` knows the families.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import RequestHeader
from ottla.security.quota.mutations import Asker
from ottla.server.answers.send_queue import Part
from ottla.server.gate.services import Services
from ottla.server.gate.session import Session

R = TypeVar("R")
A = TypeVar("A")


@dataclass(slots=True)
class RequestContext:
    """The context of the request that a handler answers."""

    services: Services
    header: RequestHeader
    session: Session

    @property
    def version(self) -> int:
        """The version that the client chose."""
        return self.header.api_version

    @property
    def asker(self) -> Asker:
        """On whose behalf the request is made."""
        return Asker(self.session.principal.name, self.header.client_id or "")


Answer = list[Part] | Awaitable[list[Part]]
Handler = Callable[[RequestContext, Any], Any]


class UnanswerableError(Exception):
    """A request failed that has no answer which could say so (acks=0): a closed connection tells it, as in
    Kafka.
    """

    def __init__(self, reason: str, answers: list[Part] | None = None) -> None:
        super().__init__(reason)
        # The answers to the requests before it, which are sent first.
        self.answers = answers or []


class Gatherer(Protocol):
    """Takes the requests of one API that one socket read brought, and answers them together. Belongs to one
    connection.
    """

    @property
    def request_count(self) -> int:
        """How many requests `finish` has to answer."""

    def repeats(
        self, data: bytearray, view: memoryview, start: int, frame_end: int, version: int, correlation_id: int
    ) -> bool:
        """Take in the frame at `start` (its size stands there) if it repeats an earlier request, without
        decoding it.

        False leaves the request to `add`. A request may count as a repetition only if `add` would decide the
        same.
        """

    def add(self, context: RequestContext, request: Any) -> None:
        """Take in a decoded request."""

    def learn(self, frame: memoryview) -> None:
        """Recognise requests that repeat the one just added, whose frame (without its size) this is."""

    def finish(self) -> Answer:
        """Carry out what was taken in; the answers in order, or what to wait for. Raises
        UnanswerableError.
        """


MakeGatherer = Callable[[Services, Session], Gatherer]
M = TypeVar("M", bound=MakeGatherer)


@dataclass(frozen=True, slots=True)
class Registration:
    """The handler of one API, and what gathers its requests where they are better answered together."""

    handler: Handler
    make_gatherer: MakeGatherer | None = None


# Finds the registration of an API by its key; None if the API is not served.
Registered = Callable[[int], Registration | None]


class ApiFamily:
    """The APIs that one module serves, by key."""

    def __init__(self) -> None:
        self.registered: dict[int, Registration] = {}

    def handles(
        self, *requests: type[R]
    ) -> Callable[[Callable[[RequestContext, R], A]], Callable[[RequestContext, R], A]]:
        """Register a function as the handler of these requests."""

        def register(handler: Callable[[RequestContext, R], A]) -> Callable[[RequestContext, R], A]:
            for request in requests:
                self._register(request, Registration(handler))
            return handler

        return register

    def gathers(self, request: type[Any]) -> Callable[[M], M]:
        """Register a class of gatherers for these requests."""

        def register(make: M) -> M:
            self._register(request, Registration(partial(_answer_alone, make), make))
            return make

        return register

    def _register(self, request: type[Any], registration: Registration) -> None:
        key = declaration_of(request).key
        assert key not in self.registered, f"{request.__name__} has two handlers"
        self.registered[key] = registration


def _answer_alone(make: MakeGatherer, context: RequestContext, request: Any) -> Answer:
    gatherer = make(context.services, context.session)
    gatherer.add(context, request)
    return gatherer.finish()
