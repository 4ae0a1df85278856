"""Deadlines that are cheap to move: a heartbeat only writes a number.

A timer's `deadline_ms` says when it is due. The heap holds one entry for it, at that time or earlier; an
entry that comes up too early is put back at the real deadline. So a member that heartbeats every three
seconds costs one heap operation per session timeout, not one per heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

NEVER: Final = 2**63 - 1


class Timer:
    """One deadline. Its owner may move `deadline_ms` later; any other change goes through `Timers`."""

    __slots__ = ("action", "deadline_ms", "queued_ms")

    def __init__(self) -> None:
        self.action: Callable[[Any], None] | None = None  # given the turn in which it is due
        self.deadline_ms = NEVER
        self.queued_ms = NEVER

    def cancel(self) -> None:
        """It is never due, until it is set again."""
        self.deadline_ms = NEVER


class Timers:
    """All deadlines of one machine."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = count()  # timers cannot be compared, and those due together keep their order

    @property
    def next_deadline_ms(self) -> int | None:
        """When to look again: no timer is due before."""
        return self._queue[0][0] if self._queue else None

    def set(self, timer: Timer, deadline_ms: int, action: Callable[[Any], None]) -> None:
        """Have `action` carried out at a deadline; it takes the place of what the timer was set to."""
        timer.action = action
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.queued_ms:
            self._push(timer)

    def due(self, now_ms: int) -> Iterator[Callable[[Any], None]]:
        """The actions that are due, one after the other: each may set or cancel timers before the next is
        looked for.
        """
        while self._queue and self._queue[0][0] <= now_ms:
            queued_ms, _, timer = heappop(self._queue)
            if timer.queued_ms != queued_ms:
                continue  # the timer was set to an earlier time since, and has another entry
            timer.queued_ms = NEVER
            if timer.deadline_ms > now_ms:
                if timer.deadline_ms != NEVER:
                    self._push(timer)
                continue
            timer.deadline_ms = NEVER
            if timer.action is not None:
                yield timer.action

    def _push(self, timer: Timer) -> None:
        timer.queued_ms = timer.deadline_ms
        heappush(self._queue, (timer.deadline_ms, next(self._order), timer))
