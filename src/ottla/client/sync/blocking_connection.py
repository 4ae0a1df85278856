"""One TCP connection without an event loop, for one thread that waits for large responses.

`wire.Connection` serves many callers at once. This connection has one request under way at a time; its caller
may work between `begin` and `finish`, while the broker reads and the kernel receives. Rules
- A response holds views of memory that the next response overwrites.
- A request that failed leaves the connection closed: the next bytes on it would belong to the lost response.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import Any, Final

from ottla.client.sync.blocking_socket import connected
from ottla.model import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import DecodeError
from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.security.settings import PLAINTEXT, Security
from ottla.wire.failures import ConnectionLostError
from ottla.wire.frame_reader import MAX_FRAME_BYTES
from ottla.wire.socket_errors import reason
from ottla.wire.versions import (
    API_VERSIONS_REQUEST,
    FinalizedFeatures,
    OfferedVersions,
    body_version,
    negotiation,
)

_SIZE: Final = Struct(">i")
_LEAST_FRAME_BYTES: Final = 4
_MAX_CORRELATION_ID: Final = 2**31 - 1
_FIRST_MEMORY_BYTES: Final = 64 << 10


class BlockingConnection:
    """A connection to one broker, open from the constructor on.

    `timeout_ms` limits each wait for bytes, unless a request names another limit; `connect_timeout_ms` limits
    connecting.
    """

    __slots__ = (
        "_asked",
        "_client_id",
        "_correlation_id",
        "_limit_ms",
        "_memory",
        "_offered",
        "_renew_at_s",
        "_security",
        "_socket",
        "_timeout_ms",
        "address",
        "is_open",
    )

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        timeout_ms: int,
        connect_timeout_ms: int,
        security: Security = PLAINTEXT,
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._limit_ms = 0
        self._correlation_id = 0
        self._memory = memoryview(bytearray(_FIRST_MEMORY_BYTES))
        self._asked: tuple[int, int] | None = None  # the API and the version of the request under way
        self._offered = OfferedVersions(str(address))
        self._security = security
        self._renew_at_s: float | None = (
            None  # when to log in again; None without a login, or one without end
        )
        self._socket = connected(address, min(timeout_ms, connect_timeout_ms), security)
        self.is_open = True
        try:
            self._negotiate()
            if security.uses_sasl:
                self._log_in()
        except BaseException:
            self.close()
            raise

    @property
    def is_idle(self) -> bool:
        """Whether a request can be sent: the connection is open, and no response is under way."""
        return self.is_open and self._asked is None

    @property
    def features(self) -> FinalizedFeatures:
        """The feature levels of the cluster, as the broker named them."""
        return self._offered.features

    def supports(self, feature: str) -> bool:
        """Whether the broker announces a feature, such as an extension of the protocol."""
        return feature in self._offered.supported_features

    def common_version(self, api_key: int, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The highest version within these bounds that both sides speak.

        Raises KafkaError(UNSUPPORTED_VERSION) if there is none.
        """
        return self._offered.common(api_key, at_least=at_least, at_most=at_most)

    def ask(self, request: Any, version: int | None = None, *, timeout_ms: int | None = None) -> Any:
        """Send a request and wait for the response.

        Raises ConnectionLostError, TimeoutError or KafkaError.
        """
        self.begin(request, version, timeout_ms=timeout_ms)
        return self.finish()

    def begin(self, request: Any, version: int | None = None, *, timeout_ms: int | None = None) -> None:
        """Send a request; `finish` must be called before the next one.

        Raises KafkaError if a login that has to be renewed is refused.
        """
        assert self._asked is None, "a request is under way"
        if self._renew_at_s is not None and time.monotonic() >= self._renew_at_s:
            self._renew_login()
        api_key = declaration_of(type(request)).key
        chosen = self.common_version(api_key) if version is None else version
        self._correlation_id = (self._correlation_id + 1) & _MAX_CORRELATION_ID
        out = bytearray()
        write_request(RequestHeader(api_key, chosen, self._correlation_id, self._client_id), request, out)
        self._limit(self._timeout_ms if timeout_ms is None else timeout_ms)
        self._asked = api_key, chosen
        try:
            self._socket.sendall(out)
        except OSError as error:
            raise self._lost(reason(error)) from error

    def finish(self) -> Any:
        """The response to the request that was sent last."""
        assert self._asked is not None, "no request was sent"
        api_key, version = self._asked
        frame = self._receive_frame()
        self._asked = None
        if api_key == ApiKey.API_VERSIONS:
            version = body_version(version, frame)
        try:
            correlation_id, response = read_response(api_key, version, frame)
        except DecodeError as error:
            raise self._lost(f"{ApiKey(api_key).name} v{version} cannot be decoded: {error}") from error
        if correlation_id != self._correlation_id:
            raise self._lost(f"an answer to question {correlation_id}, not {self._correlation_id}")
        return response

    def close(self) -> None:
        """Close; a response that is under way is lost."""
        self.is_open = False
        self._socket.close()

    def _limit(self, timeout_ms: int) -> None:
        """Have BlockingIOError raised when a response is overdue."""
        if timeout_ms != self._limit_ms:
            self._socket.limit(timeout_ms)
            self._limit_ms = timeout_ms

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
            raise TimeoutError(f"{self.address} did not answer within {self._limit_ms / 1000:g} s") from None
        except OSError as error:
            raise self._lost(reason(error)) from error

    def _receive(self, size: int) -> memoryview:
        if len(self._memory) < size:
            self._memory = memoryview(bytearray(size))
        room = self._memory[:size]
        self._socket.receive(room)
        return room

    def _lost(self, why: str) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(f"the connection to {self.address} was lost: {why}")

    def _negotiate(self) -> None:
        steps = negotiation(str(self.address))
        try:
            version = next(steps)
            while True:
                version = steps.send(self.ask(API_VERSIONS_REQUEST, version))
        except StopIteration as agreed:
            self._offered = agreed.value

    def _log_in(self) -> None:
        # Imported here: most connections ask without a login.
        from ottla.wire.login import login, renewal_s

        token = None if self._security.token is None else self._fresh_token()
        steps = login(str(self.address), self._security, self._offered, token)
        try:
            question = next(steps)
            while True:
                question = steps.send(self.ask(question.request, question.version))
        except StopIteration as ended:
            lifetime_ms: int = ended.value
        self._renew_at_s = time.monotonic() + renewal_s(lifetime_ms) if lifetime_ms > 0 else None

    def _fresh_token(self) -> str:
        # Imported here: most logins are with a password.
        from ottla.wire.oauth_tokens import fresh_token_now

        return fresh_token_now(self.address, self._security)

    def _renew_login(self) -> None:
        """Log in again, in memory of its own: the caller may still read the last response."""
        memory, self._memory = self._memory, memoryview(bytearray(_FIRST_MEMORY_BYTES))
        self._renew_at_s = None
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise
        self._memory = memory
