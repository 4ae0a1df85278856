"""How late the event loop is: a timer that should fire ten times a second, and when it does."""

import asyncio
from typing import Final

from ottla.telemetry.histogram import Histogram

_INTERVAL_S: Final = 0.1


class LoopDelay:
    """Looks from `start` to `stop`."""

    def __init__(self) -> None:
        self.histogram = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _INTERVAL_S
        self._timer = loop.call_at(due, self._look, loop, due)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.histogram.record(int((loop.time() - due) * 1_000_000))
        self.start()
