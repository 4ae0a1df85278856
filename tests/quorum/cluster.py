"""A cluster in one process: one heap of things to come, one random number generator, and a clock for each node.

Time jumps from one thing to the next, so a minute of a cluster's life takes milliseconds; and because nothing else decides
what comes next, the same seed always makes the same story. Times are microseconds since the beginning, except on the
nodes' own clocks, which run fast or slow and count milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from tests.quorum.network import Network

US_PER_MS = 1_000
_PER_MILLE = 1_000


class Schedule:
    """What comes when. What is due at the same time comes in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now_us = 0
        self.steps = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._heap, (max(time_us, self.now_us), self._order, action))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self.at(self.now_us + delay_us, action)

    def run(self, until_us: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Let time pass until it is done, or until the time is over."""
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, action = heappop(heap)
            self.steps += 1
            action()
            if is_done is not None and is_done():
                return True
        self.now_us = until_us
        return False


class Clock:
    """A node's own clock: it began somewhere, and runs at its own pace."""

    def __init__(self, schedule: Schedule, rate_per_mille: int = _PER_MILLE, offset_us: int = 0) -> None:
        self._schedule = schedule
        self._rate = rate_per_mille
        self._offset_us = offset_us

    @property
    def now_ms(self) -> int:
        return (self._offset_us + self._schedule.now_us * self._rate // _PER_MILLE) // US_PER_MS

    def time_us(self, local_ms: int) -> int:
        """When this clock will show a time; never in the past."""
        local_us = local_ms * US_PER_MS - self._offset_us
        return max(-(-local_us * _PER_MILLE // self._rate), self._schedule.now_us + 1)


class Cluster:
    """What all simulations of clusters share."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.schedule = Schedule()
        self.network = Network(self.random)

    def draw_clock(self, drift_per_mille: int) -> Clock:
        """A clock that is wrong by up to so much, in pace, and by anything in what it shows."""
        rate = _PER_MILLE + self.random.randint(-drift_per_mille, drift_per_mille)
        return Clock(self.schedule, rate, self.random.randrange(10**9))

    def pass_on(self, sender: int, receiver: int, deliver: Callable[[], None], copies: int = 2) -> int:
        """Send a message; answer how often it will arrive, which is at most so often."""
        delays = self.network.delays_us(sender, receiver)[:copies]
        for delay_us in delays:
            self.schedule.after(delay_us, deliver)
        return len(delays)
