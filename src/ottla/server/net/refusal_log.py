"""Refused connections, and those closed for what they sent, in the log: the first of each kind at once, then a line
with a number now and then. A log in detail (`ottla serve --verbose`) has them all.

Whoever can reach a port can be refused thousands of times a second; the log must stay readable, and small.
"""

import logging
import re
from typing import Final

logger = logging.getLogger(__name__)

_INTERVAL_S: Final = 10.0
# Reasons are few; a peer that finds a way to make new ones fills no memory.
_MOST_REASONS: Final = 64
_OTHERS: Final = "other reasons"
# Reasons that differ in their numbers are of one kind; texts of clients stand in reasons.
_DIGITS: Final = re.compile(r"\d+")
_MOST_REASON_CHARACTERS: Final = 500


class RefusalLog:
    """Counts refusals by their reason, and logs them by the rule above."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}
        self.count = 0

    def note(self, peer: str, reason: str, now_s: float) -> None:
        """A connection of `peer` was refused."""
        self.count += 1
        kind = _DIGITS.sub("#", reason[:_MOST_REASON_CHARACTERS])
        if kind not in self._logged_at and len(self._logged_at) >= _MOST_REASONS:
            kind = _OTHERS
        logged_at = self._logged_at.get(kind)
        if logged_at is not None and now_s - logged_at < _INTERVAL_S:
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            logger.debug("closing the connection from %s: %s", peer, reason)
            return
        self._logged_at[kind] = now_s
        more = self._unlogged.pop(kind, 0)
        logger.warning("closing the connection from %s: %s%s", peer, reason, _and_more(more))

    def flush(self, now_s: float) -> None:
        """Log the numbers that are due, and forget what is long past; called every few seconds."""
        for reason, count in tuple(self._unlogged.items()):
            if now_s - self._logged_at[reason] >= _INTERVAL_S:
                self._logged_at[reason] = now_s
                del self._unlogged[reason]
                logger.warning("closed %d more connections: %s", count, reason)
        self._logged_at = {
            reason: at_s
            for reason, at_s in self._logged_at.items()
            if now_s - at_s < _INTERVAL_S or reason in self._unlogged
        }


def _and_more(count: int) -> str:
    return f" (and {count} more before)" if count else ""
