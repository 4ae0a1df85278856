"""One TCP connection without an event loop: for who has a thread of its own, and large answers to wait for.

`wire.Connection` serves many askers at once. Here one thread asks one question at a time; it may do something else between
`begin` and `finish`, while the broker works and the kernel receives. Rules
- What an answer holds is a view of memory that the next answer overwrites.
- A request that failed leaves the connection closed: nobody knows what would come next on it.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any, Final

from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import DecodeError
from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.version import __version__
from ottla.wire.failures import CannotConnectError, ConnectionLostError
from ottla.wire.frame_reader import MAX_FRAME_BYTES
from ottla.wire.socket_errors import reason

_SIZE: Final = Struct(">i")
_TIMEVAL: Final = Struct("@ll")
_LEAST_FRAME_BYTES: Final = 4
_MAX_CORRELATION_ID: Final = 2**31 - 1
_FIRST_MEMORY_BYTES: Final = 64 << 10
# One address of several that swallows our packets should not use up all the time there is for the others.
_CONNECT_TIMEOUT_S: Final = 10.0


class RawConnection:
    """A connection to one broker, open from the constructor on. `timeout_s` holds for each wait for bytes."""

    __slots__ = (
        "_asked",
        "_client_id",
        "_correlation_id",
        "_memory",
        "_offered",
        "_socket",
        "_timeout_s",
        "address",
        "is_open",
    )

    def __init__(self, address: Address, *, client_id: str, timeout_s: float) -> None:
        self.address = address
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._memory = memoryview(bytearray(_FIRST_MEMORY_BYTES))
        self._asked: tuple[int, int] | None = None  # the API and the version of the question under way
        self._offered: dict[int, tuple[int, int]] = {}
        self._socket = _connected(address, timeout_s)
        self.is_open = True
        try:
            self._negotiate()
        except BaseException:
            self.close()
            raise

    @property
    def is_idle(self) -> bool:
        """Whether it can be asked: it is open, and no answer is under way."""
        return self.is_open and self._asked is None

    def common_version(self, api_key: int, *, at_most: int | None = None) -> int:
        """The highest version that both sides speak, not above `at_most`; raises KafkaError(UNSUPPORTED_VERSION)."""
        ours, theirs = APIS[api_key], self._offered.get(api_key, (1, 0))
        last = min(ours.max_version if at_most is None else at_most, theirs[1])
        if last < max(ours.min_version, theirs[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.address} serves no {ApiKey(api_key).name} that we speak",
            )
        return last

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Send a request and wait for the response. Raises ConnectionLostError, TimeoutError or KafkaError."""
        self.begin(request, version)
        return self.finish()

    def begin(self, request: Any, version: int | None = None) -> None:
        """Send a request; `finish` must be called before the next."""
        assert self._asked is None, "a question is under way"
        api_key = declaration_of(type(request)).key
        chosen = self.common_version(api_key) if version is None else version
        self._correlation_id = (self._correlation_id + 1) & _MAX_CORRELATION_ID
        out = bytearray()
        write_request(RequestHeader(api_key, chosen, self._correlation_id, self._client_id), request, out)
        self._asked = api_key, chosen
        try:
            self._socket.sendall(out)
        except OSError as error:
            raise self._lost(reason(error)) from error

    def finish(self) -> Any:
        """The response to the request that was sent last."""
        assert self._asked is not None, "nothing was asked"
        api_key, version = self._asked
        frame = self._receive_frame()
        self._asked = None
        # A broker that is older than us cannot write the version we asked in: it answers error 35 in a v0 body.
        if api_key == ApiKey.API_VERSIONS and _error_at_once(frame) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        try:
            correlation_id, response = read_response(api_key, version, frame)
        except DecodeError as error:
            raise self._lost(f"{ApiKey(api_key).name} v{version} makes no sense: {error}") from error
        if correlation_id != self._correlation_id:
            raise self._lost(f"an answer to question {correlation_id}, not {self._correlation_id}")
        return response

    def close(self) -> None:
        """Close; a response that is under way is lost."""
        self.is_open = False
        self._socket.close()

    def _receive_frame(self) -> memoryview:
        try:
            prefix = self._receive(_SIZE.size)
            (size,) = _SIZE.unpack(prefix)
            if not _LEAST_FRAME_BYTES <= size <= MAX_FRAME_BYTES:
                raise self._lost(f"it announced a frame of {size} bytes")
            return self._receive(size)
        except ConnectionLostError:
            raise
        except BlockingIOError:
            self.close()
            raise TimeoutError(f"{self.address} did not answer within {self._timeout_s:g} s") from None
        except OSError as error:
            raise self._lost(reason(error)) from error

    def _receive(self, size: int) -> memoryview:
        if len(self._memory) < size:
            self._memory = memoryview(bytearray(size))
        room, received = self._memory[:size], 0
        while received < size:
            got = self._socket.recv_into(room[received:], size - received, socket.MSG_WAITALL)
            if not got:
                raise ConnectionResetError("it hung up")
            received += got
        return room

    def _lost(self, why: str) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(f"the connection to {self.address} was lost: {why}")

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        newest = APIS[ApiKey.API_VERSIONS].max_version
        response: ApiVersionsResponse = self.ask(request, newest)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = [each.max_version for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS]
            response = self.ask(request, min(newest, max(offered, default=0)))
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code, f"{self.address} refused to tell its versions")
        self._offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def _error_at_once(frame: memoryview) -> int:
    """The error code right behind the correlation id."""
    return int.from_bytes(frame[4:6], "big", signed=True)


def _connected(address: Address, timeout_s: float) -> socket.socket:
    try:
        made = socket.create_connection((address.host, address.port), min(timeout_s, _CONNECT_TIMEOUT_S))
    except (OSError, UnicodeError) as error:
        raise CannotConnectError(f"could not reach {address}: {reason(error)}") from error
    made.settimeout(None)
    # The kernel minds the time: a socket with a timeout of Python's never blocks, and would come back for every piece of an answer.
    # What is overdue is BlockingIOError.
    seconds, fraction = divmod(timeout_s, 1)
    limit = _TIMEVAL.pack(int(seconds), int(fraction * 1e6))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
