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
    """One deadline. Its owner may cancel or postpone it; `Timers` does the rest."""

    __slots__ = ("action", "deadline_ms", "queued_ms")

    def __init__(self) -> None:
        self.action: Callable[[Any], None] | None = None  # given the turn in which it is due
        self.deadline_ms = NEVER
        self.queued_ms = NEVER

    def cancel(self) -> None:
        """The timer is never due, until it is set again."""
        self.deadline_ms = NEVER

    def postpone(self, deadline_ms: int) -> None:
        """Move the deadline later; the queue does not have to know."""
        self.deadline_ms = deadline_ms

    def arm(self, deadline_ms: int, action: Callable[[Any], None]) -> bool:
        """Take a deadline and an action; whether an entry of the queue is missing that comes up in time."""
        self.deadline_ms = deadline_ms
        self.action = action
        return deadline_ms < self.queued_ms

    def enter_queue(self) -> int:
        """The time at which the timer's only valid entry in the queue comes up."""
        self.queued_ms = self.deadline_ms
        return self.deadline_ms

    def leave_queue(self, now_ms: int) -> bool:
        """The valid entry came up; whether the timer is due, and by that disarmed."""
        self.queued_ms = NEVER
        if self.deadline_ms > now_ms:
            return False
        self.deadline_ms = NEVER
        return True


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
        if timer.arm(deadline_ms, action):
            self._push(timer)

    def due(self, now_ms: int) -> Iterator[Callable[[Any], None]]:
        """The actions that are due, one after the other: each may set or cancel timers before the next is
        looked for.
        """
        while self._queue and self._queue[0][0] <= now_ms:
            queued_ms, _, timer = heappop(self._queue)
            if timer.queued_ms != queued_ms:
                continue  # the timer was set to an earlier time since, and has another entry
            if timer.leave_queue(now_ms):
                if timer.action is not None:
                    yield timer.action
            elif timer.deadline_ms != NEVER:
                self._push(timer)

    def _push(self, timer: Timer) -> None:
        heappush(self._queue, (timer.enter_queue(), next(self._order), timer))
