"""Fault switches: what goes wrong with the requests of clients, when, and how often.

    broker.faults.fail("produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)        # the next one
    broker.faults.delay("fetch", ms=200, times=None)                       # all, until it is cleared
    with broker.faults.lose_answer("produce"):                             # within this block
        ...

Rules
- A fault is about requests of one API. It happens to the next `times` of them (None: to all), then it is
  over.
- Of several that fit a request, the one that was set first happens.
- Only clients are meant: what brokers ask each other, and what `ottla.testing` itself asks, is left alone.
- Faults may be set, and looked at, from any thread.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from inspect import isawaitable
from types import TracebackType
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.server.answers.send_queue import part_bytes
from ottla.server.gate.handlers import (
    Handler,
    Registered,
    Registration,
    RequestContext,
    UnanswerableError,
)
from ottla.testing.refusals import refusal

# The client id of `ottla.testing` when it looks into a broker.
INSPECTOR: Final = "ottla.testing"
_SPARED: Final = re.compile(r"broker-\d+|" + re.escape(INSPECTOR))

# A fault of a request: it gets the handler that would have answered it.
_Effect = Callable[[Handler, RequestContext, Any], Any]


@dataclass(slots=True)
class Fault:
    """One fault that was set. `hits` counts what it happened to; `clear` ends it, and so does the end of
    `with`.
    """

    api: ApiKey
    times: int | None
    effect: _Effect
    switches: Faults
    hits: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it will not happen any more."""
        return self not in self.switches.pending

    def clear(self) -> None:
        """Have it not happen any more."""
        self.switches.clear(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __eq__(self, other: object) -> bool:
        return self is other


class Faults:
    """The switches of one broker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[Fault] = []

    @property
    def pending(self) -> tuple[Fault, ...]:
        """The faults that are set and not over, in order."""
        return tuple(self._pending)

    def fail(
        self, api: ApiKey | str, code: ErrorCode | str, *, times: int | None = 1, message: str = ""
    ) -> Fault:
        """Answer requests with an error, and do not carry them out."""
        error = _named(ErrorCode, code)
        return self._set(
            api, times, partial(_fail, error, message or f"{error.name}, for the sake of a test")
        )

    def delay(self, api: ApiKey | str, *, ms: float, times: int | None = 1) -> Fault:
        """Let requests wait before they are carried out; later requests of the client wait as well."""
        return self._set(api, times, partial(_delay, ms))

    def lose_request(self, api: ApiKey | str, *, times: int | None = 1) -> Fault:
        """Close the connection instead of carrying the request out."""
        return self._set(api, times, _lose_request)

    def lose_answer(self, api: ApiKey | str, *, times: int | None = 1) -> Fault:
        """Carry the request out, and close the connection instead of answering: the client cannot know."""
        return self._set(api, times, _lose_answer)

    def slow_reads(self, *, bytes_per_second: float) -> Fault:
        """Answer fetches no faster than this, until it is cleared."""
        if bytes_per_second <= 0:
            raise ValueError(f"bytes_per_second must be more than 0, not {bytes_per_second}")
        return self._set(ApiKey.FETCH, None, partial(_slow, bytes_per_second))

    def clear(self, fault: Fault | None = None) -> None:
        """Have one fault, or none of them all, happen any more."""
        with self._lock:
            self._pending = [] if fault is None else [each for each in self._pending if each is not fault]

    def before(self, registered: Registered) -> Registered:
        """The table of handlers with the faults before each of them. Nothing is gathered: a fault is about
        one request.
        """

        @cache
        def find(api_key: int) -> Registration | None:
            found = registered(api_key)
            if found is None:
                return None
            return Registration(partial(self._handle, ApiKey(api_key), found.handler))

        return find

    def _set(self, api: ApiKey | str, times: int | None, effect: _Effect) -> Fault:
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, or None for all, not {times}")
        fault = Fault(_named(ApiKey, api), times, effect, self)
        with self._lock:
            self._pending = [*self._pending, fault]
        return fault

    def _handle(self, api_key: ApiKey, handler: Handler, context: RequestContext, request: Any) -> Any:
        fault = self._take(api_key, context, request) if self._pending else None
        return handler(context, request) if fault is None else fault.effect(handler, context, request)

    def _take(self, api_key: ApiKey, context: RequestContext, request: Any) -> Fault | None:
        if _SPARED.fullmatch(context.header.client_id or ""):
            return None
        if api_key == ApiKey.METADATA and not request.topics:
            return None  # a question about brokers: there is nothing in its answer that could fail
        with self._lock:
            fault = next((each for each in self._pending if each.api == api_key), None)
            if fault is not None:
                fault.hits += 1
                if fault.hits == fault.times:
                    self._pending = [each for each in self._pending if each is not fault]
        return fault


def _fail(code: ErrorCode, message: str, handler: Handler, context: RequestContext, request: Any) -> Any:
    api_key = ApiKey(context.header.api_key)
    if api_key == ApiKey.PRODUCE and request.acks == 0:
        raise UnanswerableError(message)
    if api_key == ApiKey.METADATA:
        return _failed_topics(code, handler, context, request)
    return refusal(api_key, request, code, message)


async def _failed_topics(code: ErrorCode, handler: Handler, context: RequestContext, request: Any) -> Any:
    """The true answer but for the topics: a client that learns of no brokers could not go on at all."""
    response = await _answered(handler(context, request))
    for topic in response.topics:
        topic.error_code, topic.partitions = code, []
    return response


async def _delay(ms: float, handler: Handler, context: RequestContext, request: Any) -> Any:
    await asyncio.sleep(ms / 1000)
    return await _answered(handler(context, request))


def _lose_request(handler: Handler, context: RequestContext, request: Any) -> Any:
    raise UnanswerableError("a test has it lost")


async def _lose_answer(handler: Handler, context: RequestContext, request: Any) -> Any:
    await _answered(handler(context, request))
    raise UnanswerableError("a test has its answer lost")


async def _slow(bytes_per_second: float, handler: Handler, context: RequestContext, request: Any) -> Any:
    answer = await _answered(handler(context, request))
    if isinstance(answer, list):
        await asyncio.sleep(sum(map(part_bytes, answer)) / bytes_per_second)
    return answer


async def _answered(answer: Any) -> Any:
    return await answer if isawaitable(answer) else answer


def _named(kind: Any, name: Any) -> Any:
    """A member of an enumeration by its name, in capitals or not."""
    if isinstance(name, kind):
        return name
    try:
        return kind[str(name).upper()]
    except KeyError:
        raise ValueError(
            f"there is no {kind.__name__} {name!r}; they are listed in ottla.testing.{kind.__name__}"
        ) from None
