"""The gate: from a frame to its handler, and from the handler's answer to the parts that leave.

Every request takes these steps:
1. admission: a broker that is not yet part of its cluster answers other nodes, since it needs them to become
   a part; the requests of clients wait in their connections until the gate opens;
2. login: on a listener with SASL, nothing else is answered before the client has logged in, or after its login
   has expired (the connection asks the session once per read, and hands frames to `handle_stranger`);
3. header: the session takes over the client's id and software;
4. API and version: refused here if they are not served;
5. the request is decoded;
6. handler, or the connection's gatherer for APIs whose requests are answered together. Guards in front of handlers
   ask for rights (guards/), handlers of records account for bytes (quotas.py);
7. the time that the request took is accounted for where somebody has a quota of request time (request_time.py).

A gatherer may recognise a request that repeats an earlier one and skip steps 3 to 5 for it: `basis.py` says
on what that rests, and a property test holds that nothing is decided differently.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from struct import Struct
from typing import Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, INTERNAL_APIS, QUORUM_APIS, ApiKey, api_of
from ottla.protocol.codec import codec
from ottla.protocol.frame import RequestHeader, read_request_header, response_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.primitives import DecodeError
from ottla.security.sasl.exchange import AuthenticationError
from ottla.server.answers.deferred import Deferred
from ottla.server.answers.send_queue import Part
from ottla.server.gate.handlers import Answer, Gatherer, Registered, RequestContext
from ottla.server.gate.login import Login
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.request_counts import RequestCounts
from ottla.server.gate.request_time import Timed, throttled
from ottla.server.gate.services import Services
from ottla.server.gate.session import Session

# What leads to a login.
_OF_LOGINS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
# Answered before the gate opens. Fetch is how other nodes get the metadata; there are no other topics yet.
_ADMITTED: Final = frozenset(
    {*INTERNAL_APIS, *QUORUM_APIS, *_OF_LOGINS, ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH}
)
# The time that other nodes take is nobody's.
_OF_NODES: Final = frozenset({*INTERNAL_APIS, *QUORUM_APIS, ApiKey.WRITE_TXN_MARKERS})
_KEY: Final = Struct(">h")
_SIZE: Final = Struct(">i")


class Gate:
    """Finds handlers and calls them; knows nothing of sockets."""

    def __init__(self, services: Services, registered: Registered) -> None:
        self._services = services
        self._registered = registered
        self._is_open = False
        # Counted by the connections, which know when a request came and when its answer left.
        self.times = services.requests

    @property
    def is_open(self) -> bool:
        """Whether clients are answered, too, and not only other nodes."""
        return self._is_open

    def open(self) -> None:
        """Answer clients from now on."""
        self._is_open = True

    def admits(self, api_key: int) -> bool:
        """Whether a request is answered now; others wait until the gate opens."""
        return self._is_open or api_key in _ADMITTED

    def gatherer_of(self, api_key: int, session: Session) -> Gatherer | None:
        """A new gatherer for one connection's requests of this API; None if they are answered one by one."""
        registration = self._registered(api_key)
        if registration is None or registration.make_gatherer is None:
            return None
        return registration.make_gatherer(self._services, session)

    def gather(self, gatherer: Gatherer, frame: memoryview, session: Session) -> None:
        """Hand one request frame (without its size) to a gatherer. Raises for a request that no client may
        send.
        """
        header, position = read_request_header(frame, 0)
        context = self._context(header, session)
        gatherer.add(context, _read_request(header, frame, position))
        gatherer.learn(frame)

    def handle(self, frame: bytes, session: Session) -> Answer:
        """Answer one request frame (without its size). Raises for a request that no client may send."""
        view = memoryview(frame)
        header, position = read_request_header(view, 0)
        context = self._context(header, session)
        registration = self._registered(header.api_key)
        if registration is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"there is no API with key {header.api_key}")
        answer = registration.handler(context, _read_request(header, view, position))
        if self._services.quotas.limits_time:
            return self._timed(header, session, answer)
        if type(answer) is Deferred:
            return answer
        if isawaitable(answer):
            return _parts_later(header, answer, self.times)
        return _parts(header, answer, self.times)

    def _timed(self, header: RequestHeader, session: Session, answer: Any) -> Answer:
        """The answer to a request whose time is accounted for. Parts that are finished have been, by their handler."""
        is_refused = getattr(answer, "error_code", None) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if header.api_key != ApiKey.FETCH:
            session.speaks_for_node(header.api_key in _OF_NODES and not is_refused)
        if type(answer) is Deferred:
            return answer
        if isawaitable(answer):
            return self._timed_later(header, session, Timed(answer, self._services.quotas, session))
        return _parts(header, self._throttled(answer, session), self.times)

    async def _timed_later(self, header: RequestHeader, session: Session, answer: Timed[Any]) -> list[Part]:
        return _parts(header, self._throttled(await answer, session), self.times)

    def _throttled(self, answer: Any, session: Session) -> Any:
        is_finished = isinstance(answer, list)
        return answer if is_finished else throttled(answer, self._services.quotas.worked(session))

    @property
    def quotas(self) -> Quotas:
        """The quotas of all sessions."""
        return self._services.quotas

    def handle_stranger(self, frame: bytes, session: Session) -> Answer:
        """Answer one frame of a client that has to log in now; what does not lead to a login ends the connection."""
        login = session.login
        assert login is not None, "the listener has no logins"
        if login.takes_raw_tokens:
            return _raw_answer(frame, session, login)
        api_key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else None
        if api_key not in _OF_LOGINS:
            is_late = login.is_done
            return login.expire() if is_late else login.refuse(f"{_shown(api_key)} without a login")
        try:
            return self.handle(frame, session)
        except (DecodeError, KafkaError) as error:
            return login.refuse(f"unusable request: {error}")

    def _context(self, header: RequestHeader, session: Session) -> RequestContext:
        if header.client_id != session.client_id:
            session.is_called(header.client_id)
        return RequestContext(self._services, header, session)


def _read_request(header: RequestHeader, view: memoryview, position: int) -> object:
    api = api_of(header.api_key)
    assert api is not None, "every API with a handler is declared"
    if api.min_version <= header.api_version <= api.max_version:
        request, _ = codec(api.request, header.api_version).read(view, position)
        return request
    if header.api_key == ApiKey.API_VERSIONS and header.api_version > api.max_version:
        # A client newer than this broker gets the served versions, in version 0 (KIP-511).
        return ApiVersionsRequest()
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{ApiKey(header.api_key).name} version {header.api_version} is not served "
        f"(served: {api.min_version} to {api.max_version})",
    )


async def _raw_answer(token: bytes, session: Session, login: Login) -> list[Part]:
    """The answer to a token that came without a request around it, after a handshake of version 0."""
    try:
        reply = await session.authenticate(token)
    except AuthenticationError as error:
        await login.refuse(str(error))
    return [_SIZE.pack(len(reply.token)) + reply.token]


def _shown(api_key: int | None) -> str:
    """An API's name, of a key that a client chose."""
    api = None if api_key is None else api_of(api_key)
    return f"a request of key {api_key}" if api is None else api.key.name


async def _parts_later(header: RequestHeader, answer: Awaitable[Any], times: RequestCounts) -> list[Part]:
    return _parts(header, await answer, times)


def _parts(header: RequestHeader, answer: Any, times: RequestCounts) -> list[Part]:
    if isinstance(answer, list):
        return answer
    times.of(header.api_key).count_errors(answer)
    version = header.api_version
    if header.api_key == ApiKey.API_VERSIONS and version > APIS[ApiKey.API_VERSIONS].max_version:
        version = 0
    return [response_frame(header.correlation_id, header.api_key, version, answer)]
