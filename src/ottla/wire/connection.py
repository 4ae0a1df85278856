"""One TCP connection that asks: a request goes out, and its response comes back to the caller.

Clients use it, and brokers use it among themselves. Rules:
- The two sides agree on versions first (ApiVersions in our newest version, then in one that the other side
  offers). After that each request goes out in the highest version that both speak.
- Where the security settings ask for it, this side logs in next. A login that counts for a time only is renewed
  before the first request after most of that time: requests wait meanwhile, those under way are answered first.
- Requests are pipelined. A response finds its caller by correlation id, so a caller that gives up disturbs no
  other: its late response is dropped.
- When the connection ends, every waiting caller gets an exception with the reason. `CannotConnectError` means
  that nothing was sent; `ConnectionLostError` that the other side may have carried the request out.
- No task is started: all work happens in the caller's task or in the loop's callbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from errno import ECONNREFUSED
from typing import Any

from ottla.model import Address
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import DecodeError
from ottla.protocol.declaration import declaration_of
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.security.settings import PLAINTEXT, Security
from ottla.wire.failures import CannotConnectError as CannotConnectError
from ottla.wire.failures import NobodyListensError as NobodyListensError
from ottla.wire.frame_reader import MAX_FRAME_BYTES
from ottla.wire.socket_errors import reason
from ottla.wire.stream import ConnectionLostError, Stream
from ottla.wire.tls import CLOSED_IN_HANDSHAKE, tls_options
from ottla.wire.versions import (
    API_VERSIONS_REQUEST,
    FinalizedFeatures,
    OfferedVersions,
    VersionRange,
    body_version,
    negotiation,
)

DEFAULT_TIMEOUT_MS = 30_000
_REFUSED = reason(ConnectionRefusedError(ECONNREFUSED, ""))


class Connection:
    """A connection to one broker. Open it with `await Connection.open(...)`, use it in `async with`."""

    __slots__ = (
        "_client_id",
        "_login_turn",
        "_offered",
        "_renew_at",
        "_security",
        "_stream",
        "_timeout_ms",
        "address",
    )

    def __init__(
        self, address: Address, stream: Stream, client_id: str, timeout_ms: int, security: Security
    ) -> None:
        self.address = address
        self._stream = stream
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        # The loop's time at which to log in again; None if there is no login, or it counts without end.
        self._renew_at: float | None = None
        self._login_turn = asyncio.Lock()
        self._offered = OfferedVersions(str(address))

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "ottla",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        security: Security = PLAINTEXT,
        on_lost: Callable[[], None] | None = None,
    ) -> Connection:
        """Connect, agree on versions and log in.

        `timeout_ms` holds for this, and for each request that names no other. `on_lost` is called once if the
        connection ends otherwise than by `close`.
        """
        address = Address(host, port)
        stream = await _connected_stream(
            address, timeout_ms, security, lambda: Stream(str(address), max_frame_bytes, on_lost)
        )
        connection = cls(address, stream, client_id, timeout_ms, security)
        try:
            await connection._negotiate()
            if security.uses_sasl:
                await connection._log_in()
        except BaseException:
            await connection.close()
            raise
        return connection

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        return self._stream.is_open

    def reuse_memory(self) -> None:
        """Receive large responses into the same memory again and again.

        For a caller with one request under way at a time: the next response overwrites the last one.
        """
        self._stream.reuse_memory()

    def offers(self, api_key: int) -> VersionRange | None:
        """The versions of an API that the other side serves, or None if it does not know the API."""
        return self._offered.of(api_key)

    @property
    def features(self) -> FinalizedFeatures:
        """The feature levels of the cluster, as the other side knew them when the connection was opened."""
        return self._offered.features

    def common_version(self, api_key: int, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The highest version within these bounds that both sides speak.

        Raises KafkaError(UNSUPPORTED_VERSION) if there is none.
        """
        return self._offered.common(api_key, at_least=at_least, at_most=at_most)

    async def ask(self, request: Any, version: int | None = None, *, timeout_ms: int | None = None) -> Any:
        """Send a request and return its response.

        Raises KafkaError(UNSUPPORTED_VERSION) if there is no common version, KafkaError if a login that has to
        be renewed is refused, TimeoutError, or ConnectionLostError. An error code inside the response is for the
        caller to judge. A given `version` is used without a check, so that an API that is not advertised can be
        asked, too.
        """
        api_key = declaration_of(type(request)).key
        chosen = self.common_version(api_key) if version is None else version
        if self._renew_at is not None:
            await self._stay_logged_in()
        frame = await self._exchange(request, api_key, chosen, timeout_ms or self._timeout_ms)
        return self._decoded(api_key, chosen, frame)

    async def tell(self, request: Any, version: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0).

        Raises KafkaError(UNSUPPORTED_VERSION) and ConnectionLostError.
        """
        api_key = declaration_of(type(request)).key
        chosen = self.common_version(api_key) if version is None else version
        if self._renew_at is not None:
            await self._stay_logged_in()
        await self._stream.send(self._writer(request, api_key, chosen))

    async def close(self) -> None:
        """Close, and wait until the socket is closed. Waiting callers get ConnectionLostError."""
        await self._stream.close()

    async def _exchange(self, request: Any, api_key: int, version: int, timeout_ms: int) -> memoryview:
        try:
            return await self._stream.exchange(self._writer(request, api_key, version), timeout_ms / 1000)
        except TimeoutError:
            message = f"{self.address} did not answer {ApiKey(api_key).name} within {timeout_ms} ms"
            raise TimeoutError(message) from None

    def _writer(self, request: Any, api_key: int, version: int) -> Callable[[int, bytearray], None]:
        def write(correlation_id: int, out: bytearray) -> None:
            write_request(RequestHeader(api_key, version, correlation_id, self._client_id), request, out)

        return write

    def _decoded(self, api_key: int, version: int, frame: memoryview) -> Any:
        try:
            return read_response(api_key, version, frame)[1]
        except DecodeError as error:
            lost = ConnectionLostError(
                f"{self.address} answered {ApiKey(api_key).name} v{version} "
                f"with bytes that cannot be decoded: {error}"
            )
            self._stream.abort(lost)
            raise lost from error

    async def _negotiate(self) -> None:
        steps = negotiation(str(self.address))
        try:
            version = next(steps)
            while True:
                version = steps.send(await self._ask_api_versions(version))
        except StopIteration as agreed:
            self._offered = agreed.value

    async def _log_in(self) -> None:
        # Imported here: most connections ask without a login.
        from ottla.wire.login import login, renewal_s

        token = None if self._security.token is None else await self._fresh_token()
        steps = login(str(self.address), self._security, self._offered, token)
        try:
            question = next(steps)
            while True:
                api_key = declaration_of(type(question.request)).key
                frame = await self._exchange(question.request, api_key, question.version, self._timeout_ms)
                question = steps.send(self._decoded(api_key, question.version, frame))
        except StopIteration as ended:
            lifetime_ms: int = ended.value
        now = asyncio.get_running_loop().time()
        self._renew_at = now + renewal_s(lifetime_ms) if lifetime_ms > 0 else None

    async def _fresh_token(self) -> str:
        # Imported here: most logins are with a password.
        from ottla.wire.oauth_tokens import fresh_token

        return await fresh_token(self.address, self._security, self._timeout_ms)

    async def _stay_logged_in(self) -> None:
        """Log in again if it is time. Requests take turns with that: between the handshake and the end of a login
        nothing else may be sent.
        """
        async with self._login_turn:
            if self._renew_at is None or asyncio.get_running_loop().time() < self._renew_at:
                return
            try:
                await self._log_in()
            except BaseException:
                await self.close()
                raise

    async def _ask_api_versions(self, version: int) -> ApiVersionsResponse:
        frame = await self._exchange(API_VERSIONS_REQUEST, ApiKey.API_VERSIONS, version, self._timeout_ms)
        response: ApiVersionsResponse = self._decoded(
            ApiKey.API_VERSIONS, body_version(version, frame), frame
        )
        return response


async def _connected_stream(
    address: Address, timeout_ms: int, security: Security, new_stream: Callable[[], Stream]
) -> Stream:
    loop = asyncio.get_running_loop()
    options = tls_options(address, security) if security.uses_tls else {}
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, stream = await loop.create_connection(new_stream, address.host, address.port, **options)
            return stream
    except TimeoutError:
        raise CannotConnectError(f"could not reach {address}: no answer within {timeout_ms} ms") from None
    except (OSError, UnicodeError) as error:
        why = reason(error)
        if options and isinstance(error, ConnectionResetError | ConnectionAbortedError):
            why = f"{CLOSED_IN_HANDSHAKE} ({why})"
        kind = NobodyListensError if why == _REFUSED else CannotConnectError
        raise kind(f"could not reach {address}: {why}") from error
