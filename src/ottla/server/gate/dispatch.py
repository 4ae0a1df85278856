"""From a frame to its handler, and from the handler's answer to the parts that leave.

A handler is a plain function `handler(context, request)` when it can answer at once and a coroutine function when it
has to wait. It answers a response message, or, where file ranges go out, the finished parts; or a `Deferred` that will have them.
Produce does not come through here: the connection gathers produce requests itself (apis/produce.py), unless the table
has a handler for it, as that of a broker under test.

A broker that is not yet part of its cluster answers other nodes, for it needs them to become one; clients wait at the gate.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Final, Protocol

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.apis import APIS, INTERNAL_APIS, QUORUM_APIS, ApiKey, api_of
from ottla.protocol.codec import codec
from ottla.protocol.frame import RequestHeader, read_request_header, response_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.server.answers.deferred import Deferred
from ottla.server.answers.send_queue import Part
from ottla.server.gate.services import Services

# What is answered before the gate opens. Fetch is how other nodes get the metadata; of topics nothing is there yet.
_ADMITTED: Final = frozenset(
    {*INTERNAL_APIS, *QUORUM_APIS, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH}
)


class Origin(Protocol):
    """The connection that a request came over."""

    peer: str

    def __hash__(self) -> int: ...

    def call_when_closed(self, name: str, callback: Callable[[], None]) -> None:
        """Have something called once the connection is gone; the same name replaces what was there."""


@dataclass(slots=True)
class RequestContext:
    """What a handler may know about the request it answers."""

    services: Services
    header: RequestHeader
    origin: Origin

    @property
    def peer(self) -> str:
        """Where the request came from."""
        return self.origin.peer

    @property
    def version(self) -> int:
        """The version the client chose."""
        return self.header.api_version


Handler = Callable[[RequestContext, Any], Any]
HandlerOf = Callable[[int], Handler | None]
Answer = list[Part] | Awaitable[list[Part]]


class Dispatcher:
    """Holds the table of handlers; knows nothing of sockets."""

    def __init__(self, services: Services, handler_of: HandlerOf) -> None:
        self.services = services
        self.is_open = False
        self.gathers_produce = handler_of(ApiKey.PRODUCE) is None
        self._handler_of = handler_of

    def admits(self, api_key: int) -> bool:
        """Whether a request is answered now; others wait until the gate opens."""
        return self.is_open or api_key in _ADMITTED

    def handle(self, frame: bytes, origin: Origin) -> Answer:
        """Answer one request frame (without its size). Raises for what no client may send."""
        view = memoryview(frame)
        header, position = read_request_header(view, 0)
        context = RequestContext(self.services, header, origin)
        handler = self._handler_of(header.api_key)
        if handler is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"there is no API with key {header.api_key}")
        answer = handler(context, self._read_request(header, view, position))
        if type(answer) is Deferred:
            return answer
        if isawaitable(answer):
            return self._answer_later(header, answer)
        return self._parts(header, answer)

    def _read_request(self, header: RequestHeader, view: memoryview, position: int) -> object:
        api = api_of(header.api_key)
        assert api is not None, "what has a handler is declared"
        if api.min_version <= header.api_version <= api.max_version:
            request, _ = codec(api.request, header.api_version).read(view, position)
            return request
        if header.api_key == ApiKey.API_VERSIONS and header.api_version > api.max_version:
            # A client newer than we are is told what we speak, in the oldest words (KIP-511).
            return ApiVersionsRequest()
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{ApiKey(header.api_key).name} version {header.api_version} is not served "
            f"(served: {api.min_version} to {api.max_version})",
        )

    async def _answer_later(self, header: RequestHeader, answer: Awaitable[Any]) -> list[Part]:
        return self._parts(header, await answer)

    def _parts(self, header: RequestHeader, answer: Any) -> list[Part]:
        if isinstance(answer, list):
            return answer
        version = header.api_version
        if header.api_key == ApiKey.API_VERSIONS and version > APIS[ApiKey.API_VERSIONS].max_version:
            version = 0
        return [response_frame(header.correlation_id, header.api_key, version, answer)]
