"""How often logins from an address may fail.

Each failed login costs the broker some milliseconds, and guessing passwords takes many of them. An address
with too many failures in a minute is refused without a look at its password until the minute is over; logins
that succeed do not count. The number of addresses that are remembered is bounded.
"""

from typing import Final

_WINDOW_MS: Final = 60_000
# Some 200 bytes each: a storm from more addresses than these forgets the oldest.
_MOST_ADDRESSES: Final = 10_000


class FailedLogins:
    """Counts failures by address. `limit` is how many a minute may have; 0 is no limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counted: dict[str, tuple[int, int]] = {}  # since when, and how many
        self.total = 0

    def are_too_many(self, address: str, now_ms: int) -> bool:
        """Whether the next login from an address is refused without a look at it."""
        since_ms, count = self._counted.get(address, (now_ms, 0))
        return bool(self._limit) and count >= self._limit and now_ms - since_ms < _WINDOW_MS

    def count(self, address: str, now_ms: int) -> int:
        """A login failed. How many failed in this minute from there, this one included."""
        self.total += 1
        since_ms, count = self._counted.pop(address, (now_ms, 0))
        if now_ms - since_ms >= _WINDOW_MS:
            since_ms, count = now_ms, 0
        if len(self._counted) >= _MOST_ADDRESSES:
            del self._counted[next(iter(self._counted))]
        self._counted[address] = since_ms, count + 1
        return count + 1
