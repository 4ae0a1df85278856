"""An event loop whose clock stands still while its process gets no processor.

Tests on a busy machine share two cores with other tests and JVMs: a process may wait a second for its turn.
By the system's clock every timeout of a few hundred milliseconds in that process has passed then, and a test
fails for no reason of its own. The clock here counts what the loop asked for and what it was seen to do: a
wait counts no longer than the loop asked for, and between two readings at most `_LONGEST_STEP_S` passes.
`ottla.runtime.clock` reads the running loop's clock, so brokers and clients in a test's process keep to it.
"""

from __future__ import annotations

import asyncio
import selectors
import time
import warnings
from typing import Any, Final

# Longer than any honest step between two readings of the clock, shorter than any timeout that tests use.
_LONGEST_STEP_S: Final = 0.02


class _MeasuredSelector(selectors.DefaultSelector):
    """Knows how long the loop waited, as far as it had asked to."""

    waited_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        began_s = time.monotonic()
        found = super().select(timeout)
        took_s = time.monotonic() - began_s
        self.waited_s += took_s if timeout is None else min(took_s, max(timeout, 0.0))
        return found


class PatientLoop(asyncio.SelectorEventLoop):
    """A selector loop with a clock that does not count the time for which the process was not run."""

    def __init__(self) -> None:
        self._measured = _MeasuredSelector()
        self._read_s = time.monotonic()
        self._time_s = self._read_s
        super().__init__(self._measured)

    def time(self) -> float:
        now_s = time.monotonic()
        waited_s, self._measured.waited_s = self._measured.waited_s, 0.0
        worked_s = now_s - self._read_s - waited_s
        self._time_s += waited_s + min(max(worked_s, 0.0), _LONGEST_STEP_S)
        self._read_s = now_s
        return self._time_s


class _PatientPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return PatientLoop()


def install() -> None:
    """Every loop that this process makes from now on is patient."""
    with warnings.catch_warnings():
        # Python 3.14 deprecates policies, and has nothing else that `asyncio.run` would heed.
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(_PatientPolicy())
