"""Removes files that no log refers to any more, in a thread.

Unlinking a gigabyte can take a tenth of a second.
"""

import asyncio
import logging
from typing import Protocol

from ottla.runtime.threads import Threads

logger = logging.getLogger(__name__)


class Removable(Protocol):
    """Files that no log refers to any more."""

    def run(self) -> None:
        """Unlink them; may be called in any thread, once."""


class Remover:
    """One thread that unlinks, so that the event loop never does."""

    def __init__(self, threads: Threads) -> None:
        self._thread = threads.pool(1, "ottla-remove")

    def remove(self, name: str, doomed: Removable) -> None:
        """Remove soon. Failures are logged; the next start removes the rest."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, doomed.run)
        future.add_done_callback(lambda done: _report(name, done))

    def stop(self) -> None:
        """Finish what was begun."""
        self._thread.shutdown(wait=True)


def _report(name: str, done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        logger.error("files of %s could not be removed: %s", name, done.exception())
