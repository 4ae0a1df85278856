"""Around every call: who calls, how many streams there are, errors as statuses, a line in the log.

A method of a service is a coroutine of `(login, request)`, or of `(login, requests, context)` for a stream. It raises
what handlers of HTTP raise. A caller that cancels, or whose deadline passes, cancels the coroutine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ssl import PEM_cert_to_DER_cert
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as RpcStatus

from ottla.gateway.cluster.failures import problem_of
from ottla.gateway.grpc.machine.statuses import DOMAIN, Status, status_of
from ottla.gateway.grpc.messages import PACKAGE, class_of, service
from ottla.gateway.http.machine.certificates import LoginOf
from ottla.gateway.http.machine.credentials import Login, login_from
from ottla.gateway.http.machine.http_error import HttpError
from ottla.runtime.clock import monotonic_ms

logger = logging.getLogger(__name__)
access = logging.getLogger("ottla.gateway.access")

UnaryMethod = Callable[[Login | None, Any], Awaitable[Any]]
StreamMethod = Callable[[Login | None, AsyncIterator[Any], Any], Awaitable[None]]
Read = Callable[[bytes], Any]
_MESSAGE_CHARACTERS: Final = 2_000  # a status travels in headers, which have a limit


class Calls:
    """Makes gRPC's handlers of methods."""

    def __init__(self, max_streams: int, certificate_login: LoginOf | None) -> None:
        self._certificate_login = certificate_login
        self._max_streams = max_streams
        self._streams = 0

    @property
    def stream_count(self) -> int:
        """How many streams are open."""
        return self._streams

    def handlers(self, name: str, methods: Mapping[str, UnaryMethod | StreamMethod]) -> Any:
        """The handlers of a service: one for each method that the .proto text declares, and no other."""
        declared = {each.name: each for each in service(name).methods}
        assert declared.keys() == methods.keys(), f"{name} does not serve what its .proto text says"
        made = {each: self._handler(declared[each], name, methods[each]) for each in methods}
        return grpc.method_handlers_generic_handler(f"{PACKAGE}.{name}", made)

    def _handler(self, declared: Any, service_name: str, method: Any) -> Any:
        path = f"/{PACKAGE}.{service_name}/{declared.name}"
        # Requests are read below and not by gRPC, which would log each one that is no message, with a traceback.
        read, write = _reader(declared.input_type), class_of(declared.output_type).SerializeToString
        if not declared.server_streaming:
            made = self._unary(path, method, read)
            return grpc.unary_unary_rpc_method_handler(made, response_serializer=write)
        if declared.client_streaming:
            streamed = self._stream(path, method, lambda given: _each(given, read))
            return grpc.stream_stream_rpc_method_handler(streamed, response_serializer=write)
        streamed = self._stream(path, method, lambda given: _one(given, read))
        return grpc.unary_stream_rpc_method_handler(streamed, response_serializer=write)

    def _unary(self, path: str, method: UnaryMethod, read: Read) -> Callable[[Any, Any], Awaitable[Any]]:
        async def call(given: bytes, context: Any) -> Any:
            noted = _Noted(path, context, self._certificate_login)
            try:
                answer = await method(noted.login(), read(given))
            except Exception as error:
                await _abort(context, noted.failed(error))
            noted.ended("OK")
            return answer

        return call

    def _stream(
        self, path: str, method: StreamMethod, requests: Callable[[Any], AsyncIterator[Any]]
    ) -> Callable[[Any, Any], Awaitable[None]]:
        async def call(given: Any, context: Any) -> None:
            noted = _Noted(path, context, self._certificate_login)
            self._streams += 1
            try:
                if self._streams > self._max_streams:
                    words = f"{self._max_streams} streams are open, which is all that this gateway allows"
                    raise HttpError(429, f"{words} (ottla.gateway.max.streams)")
                await method(noted.login(), requests(given), context)
            except asyncio.CancelledError:
                noted.ended("CANCELLED")
                raise
            except Exception as error:
                await _abort(context, noted.failed(error))
            finally:
                self._streams -= 1
            noted.ended("OK")

        return call


class _Noted:
    """One call, for the log."""

    def __init__(self, path: str, context: Any, certificate_login: LoginOf | None) -> None:
        self._certificate_login = certificate_login
        self._path = path
        self._context = context
        self._login: Login | None = None
        self._began_ms = monotonic_ms()

    def login(self) -> Login | None:
        """Who calls. Raises HttpError(401)."""
        metadata = dict(self._context.invocation_metadata() or ())
        header = metadata.get("authorization")
        self._login = login_from(header.decode("latin-1") if isinstance(header, bytes) else header)
        shown = self._context.auth_context().get("x509_pem_cert") if self._certificate_login else None
        if self._login is None and shown and self._certificate_login is not None:
            self._login = self._certificate_login(PEM_cert_to_DER_cert(shown[0].decode("ascii")))
        return self._login

    def failed(self, error: Exception) -> Status:
        """What to tell the caller."""
        problem = error if isinstance(error, HttpError) else problem_of(error)
        if problem is None:
            logger.exception("%s failed", self._path)
            problem = HttpError(500, "the gateway failed in a way it did not foresee")
        status = status_of(problem)
        self.ended(status.code)
        return status

    def ended(self, code: str) -> None:
        taken_ms = monotonic_ms() - self._began_ms
        user = "-" if self._login is None else repr(self._login.name[:64])
        access.info("%s %s gRPC %s %s %.1fms", self._context.peer(), user, self._path, code, taken_ms)


async def _abort(context: Any, status: Status) -> NoReturn:
    """End the call with a status that has google.rpc.ErrorInfo in its details."""
    code = grpc.StatusCode[status.code]
    words = status.message[:_MESSAGE_CHARACTERS]
    details = RpcStatus(code=code.value[0], message=words)
    packed = AnyMessage()
    metadata = {"error_code": str(status.error_code)}
    packed.Pack(ErrorInfo(reason=status.reason, domain=DOMAIN, metadata=metadata))
    details.details.append(packed)
    await context.abort(code, words, (("grpc-status-details-bin", details.SerializeToString()),))
    raise AssertionError("abort raises")


def _reader(descriptor: Any) -> Read:
    made = class_of(descriptor)

    def read(data: bytes) -> Any:
        try:
            return made.FromString(data)
        except (DecodeError, RecursionError) as error:
            raise HttpError(400, f"the request is no {descriptor.name}: {error}") from error

    return read


async def _one(data: bytes, read: Read) -> AsyncIterator[Any]:
    yield read(data)


async def _each(given: AsyncIterator[bytes], read: Read) -> AsyncIterator[Any]:
    async for data in given:
        yield read(data)
