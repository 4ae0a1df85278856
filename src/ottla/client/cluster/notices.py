"""The log of the clients, `ottla.client`: a line for whatever a client waits for without an error.

A client waits for brokers, topics and groups that may come back, because that is right; but a person who
looks at a program that does nothing should find the reason. Each kind of notice is logged at once, and then
once in `REPEAT_SECONDS` at most, with the number of times that were left out. Time is the event loop's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Final

from ottla.runtime.clock import monotonic_s

REPEAT_SECONDS: Final = 30.0
# A client with more things to say about than this says the rest without counting.
_MOST_KINDS: Final = 1000

logger = logging.getLogger("ottla.client")


class Notices:
    """The notices of one client. `clock` returns seconds, and never goes back."""

    def __init__(self, client_id: str, clock: Callable[[], float] = monotonic_s) -> None:
        self._client_id = client_id
        self._clock = clock
        self._said: dict[Hashable, _Repetition] = {}

    def say(self, kind: Hashable, message: str) -> None:
        """Log a warning, unless one of the same kind was logged a moment ago: then it is counted."""
        now = self._clock()
        said = self._said.get(kind)
        if said is not None and now - said.at_seconds < REPEAT_SECONDS:
            said.leave_out()
            return
        if len(self._said) >= _MOST_KINDS:
            self._said.clear()
        left_out = f" ({said.count} more times since the last line)" if said and said.count else ""
        self._said[kind] = _Repetition(now)
        logger.warning("%s: %s%s", self._client_id, message, left_out)


class _Repetition:
    """When a line was logged, and how many were left out since."""

    __slots__ = ("at_seconds", "count")

    def __init__(self, at_seconds: float) -> None:
        self.at_seconds = at_seconds
        self.count = 0

    def leave_out(self) -> None:
        self.count += 1
