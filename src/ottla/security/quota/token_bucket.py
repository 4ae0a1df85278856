"""A token bucket: a rate per second, with a burst. What is taken beyond the burst is a debt that time pays.

Kafka measures a rate over windows: after a burst that a full window allows, the wait is the excess divided by the
rate. A bucket that holds a full window's worth says the same with two numbers.
"""

from typing import Final

# A mistake in a quota (one byte per second) must not silence a client for days.
MOST_WAIT_MS: Final = 3_600_000


class TokenBucket:
    """Allows `rate` per second, and `burst_s` seconds' worth at once. Times are of one clock."""

    __slots__ = ("_burst_s", "_filled_ms", "_tokens", "rate")

    def __init__(self, rate: float, burst_s: float, now_ms: int) -> None:
        self.rate = rate
        self._burst_s = burst_s
        self._tokens = rate * burst_s
        self._filled_ms = now_ms

    @property
    def capacity(self) -> float:
        """The most that can be taken at once without a debt."""
        return self.rate * self._burst_s

    def is_full(self, now_ms: int) -> bool:
        """Whether nothing was taken for so long that the bucket need not be remembered."""
        self._fill(now_ms)
        return self._tokens >= self.capacity

    def limit(self, rate: float, now_ms: int) -> None:
        """Allow another rate from now on. A debt is kept: it is paid at the new rate."""
        self._fill(now_ms)
        self.rate = rate
        self._tokens = min(self._tokens, self.capacity)

    def take(self, size: float, now_ms: int) -> int:
        """Account for `size`; the milliseconds until the debt is paid, 0 if there is none."""
        self._fill(now_ms)
        self._tokens -= size
        if self._tokens >= 0:
            return 0
        return min(MOST_WAIT_MS, int(-self._tokens * 1000 / self.rate) + 1)

    def give_back(self, size: float) -> None:
        """Undo a `take`: it was not transferred after all."""
        self._tokens = min(self._tokens + size, self.capacity)

    def _fill(self, now_ms: int) -> None:
        # A time of day may be set back: that earns nothing, and costs nothing.
        earned = max(0, now_ms - self._filled_ms) * self.rate / 1000
        self._filled_ms = now_ms
        self._tokens = min(self._tokens + earned, self.capacity)
