"""Refused connections in the log: the first of each kind at once, then a line with a number now and then.

Whoever can reach a port can be refused thousands of times a second; the log must stay readable, and small.
"""

import logging
from typing import Final

logger = logging.getLogger(__name__)

_INTERVAL_S: Final = 10.0
# Reasons are few; a peer that finds a way to make new ones fills no memory.
_MOST_REASONS: Final = 64


class RefusalLog:
    """Counts refusals by their reason, and logs them by the rule above."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}
        self.count = 0

    def note(self, peer: str, reason: str, now_s: float) -> None:
        """A connection of `peer` was refused."""
        self.count += 1
        if reason not in self._logged_at and len(self._logged_at) >= _MOST_REASONS:
            reason = "other reasons"
        logged_at = self._logged_at.get(reason)
        if logged_at is not None and now_s - logged_at < _INTERVAL_S:
            self._unlogged[reason] = self._unlogged.get(reason, 0) + 1
            return
        self._logged_at[reason] = now_s
        more = self._unlogged.pop(reason, 0)
        logger.warning("closing the connection from %s: %s%s", peer, reason, _and_more(more))

    def flush(self, now_s: float) -> None:
        """Log the numbers that are due; called every few seconds."""
        for reason, count in tuple(self._unlogged.items()):
            if now_s - self._logged_at[reason] >= _INTERVAL_S:
                self._logged_at[reason] = now_s
                del self._unlogged[reason]
                logger.warning("closed %d more connections: %s", count, reason)


def _and_more(count: int) -> str:
    return f" (and {count} more before)" if count else ""
