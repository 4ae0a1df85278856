"""Many deadlines, nearly all of them met in time, and one timer for all of them.

A timer for each request would cost more than the rest of the waiting. Here a request enters its deadline and
removes it when the response has come. The one timer is set to the earliest deadline known when it was set,
and finds the expired ones when it fires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Who = TypeVar("Who", bound=Hashable)


class Deadlines(Generic[Who]):
    """Calls `on_expired` once for each entry that was not discarded in time. Times are the loop's."""

    __slots__ = ("_due", "_loop", "_on_expired", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[Who], None]) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._due: dict[Who, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, who: Who, at: float) -> None:
        """Let `who` expire at the time `at`, unless it is discarded before."""
        self._due[who] = at
        if self._timer is None or at < self._timer_at:
            self._set_timer(at)

    def discard(self, who: Who) -> None:
        """Remove an entry that was in time. The timer stays: it finds nothing, or the next entry."""
        self._due.pop(who, None)

    def close(self) -> None:
        """Let no entry expire any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        # An entry that was due at the timer's time is due now, even if the clock's resolution says otherwise.
        now = max(self._loop.time(), self._timer_at)
        self._timer = None
        # The loop may be late: then several are overdue, and expire in the order of their deadlines.
        overdue = sorted((who for who, at in self._due.items() if at <= now), key=self._due.__getitem__)
        for who in overdue:
            del self._due[who]
        if self._due:
            self._set_timer(min(self._due.values()))
        for who in overdue:
            self._on_expired(who)
