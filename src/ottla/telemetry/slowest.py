"""The slowest of many requests: a bounded list, with a comparison for each request that is not in it."""

from heapq import heappush, heapreplace
from typing import Final, NamedTuple

_MOST: Final = 16


class SlowRequest(NamedTuple):
    """One answered request, or the requests of one read that were answered together. Times in microseconds.

    `total_us` comes first: requests are ordered by it. `queue_us` is the time from the read to the handler,
    `handling_us` until the handler had answered or begun to wait, `waiting_us` from there to the answer.
    """

    total_us: int
    at_s: float
    api: str
    requests: int
    queue_us: int
    handling_us: int
    waiting_us: int
    peer: str
    client_id: str


class Slowest:
    """The slowest requests since `forget`. A caller compares with `floor_us` before it makes a SlowRequest."""

    __slots__ = ("_heap", "floor_us")

    def __init__(self) -> None:
        self._heap: list[SlowRequest] = []
        self.floor_us = 0

    def add(self, request: SlowRequest) -> None:
        """Take a request in; the fastest of those that are too many is forgotten."""
        heap = self._heap
        if len(heap) < _MOST:
            heappush(heap, request)
        elif request.total_us > heap[0].total_us:
            heapreplace(heap, request)
        if len(heap) == _MOST:
            self.floor_us = heap[0].total_us

    def forget(self, before_s: float) -> None:
        """Forget requests that were answered before a time, by the clock of `at_s`."""
        self._heap = sorted(each for each in self._heap if each.at_s >= before_s)
        self.floor_us = self._heap[0].total_us if len(self._heap) == _MOST else 0

    @property
    def all(self) -> list[SlowRequest]:
        """The slowest first."""
        return sorted(self._heap, reverse=True)
