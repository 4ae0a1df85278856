"""Watches whether the log directory takes writes, and has the controller told when that changes.

`log/plan/directory_state.py` decides. A broker whose directory is offline leads nothing and is in sync with nothing
that others could lead or hold; it comes back by itself when a probe finds room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.log.directory import LogDirectory
from ottla.log.plan.directory_state import DirectoryState
from ottla.runtime.clock import monotonic_ms

logger = logging.getLogger(__name__)

_LOST: Final = (
    "a log cannot be written, and what the disk holds of it is unknown: other brokers lead. Restart this broker when its "
    "disk works again"
)


class DirectoryWatch:
    """One directory's. `tell` is given whether it is offline."""

    def __init__(self, directory: LogDirectory, tell: Callable[[bool], None]) -> None:
        self._directory = directory
        self._tell = tell
        self._state = DirectoryState()
        self._probing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch from now on."""
        loop = asyncio.get_running_loop()

        def failing(is_full: bool) -> None:
            loop.call_soon_threadsafe(self._failed, is_full)

        self._directory.when_failing(failing)

    async def stop(self) -> None:
        """Watch no more."""
        self._directory.when_failing(lambda is_full: None)
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    def _failed(self, is_full: bool) -> None:
        state = self._state
        was_lost = state.is_lost
        is_news = state.write_failed(is_full=is_full, now_ms=monotonic_ms())
        if state.is_lost and not was_lost:
            logger.error("%s", _LOST)
        elif is_news:
            logger.error("the disk is full: other brokers lead until there is room again")
        if is_news:
            self._tell(True)
            if self._probing is None or self._probing.done():
                self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        state = self._state
        while state.is_offline and not state.is_lost:
            await asyncio.sleep(max(state.probe_at_ms - monotonic_ms(), 0) / 1000)
            has_room = await asyncio.to_thread(self._directory.has_room)
            state.probed(has_room=has_room, now_ms=monotonic_ms())
        if not state.is_offline:
            logger.warning("the disk has room again")
            self._tell(False)
