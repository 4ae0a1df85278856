"""How many requests of each API were answered, how long that took, and with which errors.

A connection counts its requests when their answers are known: once for each request, and once for all requests
of a read that are answered together (Produce), with the time of the read for each of them. The parts of the time:

    queue      from the connection's latest read to the handler
    handling   the handler itself, until it has answered or begun to wait
    waiting    from there to the answer: for followers, an fsync, records, or other members of a group

Everything is an addition. What a client chooses (its id, its address) is kept for the slowest
requests only.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from ottla.protocol.apis import ApiKey, api_of
from ottla.server.gate.session import Session
from ottla.telemetry.histogram import Histogram
from ottla.telemetry.slowest import Slowest, SlowRequest

# Of an answer about more partitions than this, only the first ones are looked at for errors.
_MOST_LOOKED_AT: Final = 100
_MICROSECONDS: Final = 1_000_000
_RAW_TOKENS: Final = ApiKey.SASL_AUTHENTICATE


class ApiCounts:
    """The requests of one API. Times are given in seconds of the loop's clock."""

    __slots__ = ("api", "errors", "handling_s", "histogram", "queue_s", "slowest", "waiting_s")

    def __init__(self, api: str) -> None:
        self.api = api
        self.histogram = Histogram()
        self.queue_s = 0.0
        self.handling_s = 0.0
        self.waiting_s = 0.0
        self.errors: Counter[int] = Counter()
        self.slowest = Slowest()

    def answered(self, requests: int, read_at: float, begun: float, done: float, session: Session) -> None:
        """Count requests of one read that were answered at once. Most requests come this way: nothing else is done."""
        self.queue_s += (begun - read_at) * requests
        self.handling_s += done - begun
        total_us = int((done - read_at) * _MICROSECONDS)
        self.histogram.record(total_us, requests)
        if total_us > self.slowest.floor_us:
            self._remember(total_us, requests, (read_at, begun, done, done), session)

    def waited(
        self, requests: int, read_at: float, begun: float, handled: float, done: float, session: Session
    ) -> None:
        """Count requests of one read that had to wait for their answer."""
        self.waiting_s += (done - handled) * requests
        self.queue_s += (begun - read_at) * requests
        self.handling_s += handled - begun
        total_us = int((done - read_at) * _MICROSECONDS)
        self.histogram.record(total_us, requests)
        if total_us > self.slowest.floor_us:
            self._remember(total_us, requests, (read_at, begun, handled, done), session)

    def _remember(
        self, total_us: int, requests: int, times: tuple[float, float, float, float], session: Session
    ) -> None:
        read_at, begun, handled, done = times
        queue_us, waiting_us = (int(part * _MICROSECONDS) for part in (begun - read_at, done - handled))
        handling_us = total_us - queue_us - waiting_us
        client_id = session.client_id or ""
        parts = queue_us, handling_us, waiting_us
        self.slowest.add(SlowRequest(total_us, done, self.api, requests, *parts, session.peer, client_id))

    def failed(self, code: int, times: int = 1) -> None:
        """Count an error that is part of an answer."""
        self.errors[code] += times

    def count_errors(self, answer: Any) -> None:
        """Count the errors in an answer: its own, and those of its parts."""
        for code in error_codes(answer):
            self.errors[code] += 1


class RequestCounts:
    """All APIs. An API that is not served has no entry of its own: its key is a client's choice."""

    def __init__(self) -> None:
        self._by_key: dict[int, ApiCounts] = {}
        self._unknown = ApiCounts("UNKNOWN")

    def of(self, api_key: int) -> ApiCounts:
        """The requests of an API."""
        known = self._by_key.get(api_key)
        if known is None:
            api = api_of(api_key)
            if api is None:
                return self._unknown
            known = self._by_key[api_key] = ApiCounts(api.key.name)
        return known

    def of_stranger(self, frame: bytes, *, is_raw: bool) -> ApiCounts:
        """The API of a frame of a client that has to log in; a raw token counts as what it would be."""
        return self.of(_RAW_TOKENS if is_raw else int.from_bytes(frame[:2], signed=True))

    @property
    def all(self) -> list[ApiCounts]:
        """Every API that was asked for, in the order of the keys."""
        known = [times for _, times in sorted(self._by_key.items())]
        return [*known, self._unknown] if self._unknown.histogram.count or self._unknown.errors else known

    def forget_slow(self, before_s: float) -> None:
        """Forget slow requests from before a time of the loop's clock."""
        for times in self.all:
            times.slowest.forget(before_s)


class _Shape(NamedTuple):
    """Where a class of messages has error codes: in a field of its own, and in the items of lists."""

    has_code: bool
    lists: tuple[str, ...]


@cache
def _shape_of(message: type) -> _Shape:
    if not is_dataclass(message):
        return _Shape(False, ())
    declared = fields(message)
    lists = tuple(each.name for each in declared if each.default_factory is list)
    return _Shape(any(each.name == "error_code" for each in declared), lists)


def error_codes(answer: Any) -> Iterator[int]:
    """The error codes in an answer and in the first of its parts; 0 is none."""
    unseen, seen = [answer], 0
    while unseen and seen < _MOST_LOOKED_AT:
        part = unseen.pop()
        seen += 1
        kind: Any = type(part)
        has_code, lists = _shape_of(kind)
        if has_code and part.error_code:
            yield part.error_code
        for name in lists:
            unseen += (getattr(part, name) or ())[:_MOST_LOOKED_AT]
