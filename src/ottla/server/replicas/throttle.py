"""A token bucket.

A rate in bytes per second, with a burst of one second. Bytes taken beyond the rate are a debt.
"""

from collections.abc import Callable

UNLIMITED = (1 << 63) - 1


class Throttle:
    """Bytes per second; `now_ms` is a monotonic clock."""

    __slots__ = ("_filled_ms", "_now_ms", "_rate", "_tokens")

    def __init__(self, rate: int, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._rate = rate
        self._tokens = float(rate)
        self._filled_ms = now_ms()

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._rate < UNLIMITED

    def limit(self, rate: int) -> None:
        """Allow another rate from now on; 0 stops everything."""
        if rate != self._rate:
            self._fill()
            self._rate = rate
            self._tokens = min(self._tokens, float(rate))

    def left_bytes(self) -> int:
        """The bytes that may be taken now; 0 or less when there is a debt."""
        self._fill()
        return int(self._tokens)

    def take(self, size_bytes: int) -> None:
        """Account for `size_bytes` that were transferred."""
        self._tokens -= size_bytes

    def wait_ms(self) -> int:
        """How long until something may be taken again."""
        missing = 1 - self.left_bytes()
        if missing <= 0:
            return 0
        return int(missing * 1000 / self._rate) + 1 if self._rate else UNLIMITED

    def _fill(self) -> None:
        now_ms = self._now_ms()
        elapsed_ms = now_ms - self._filled_ms
        self._filled_ms = now_ms
        self._tokens = min(float(self._rate), self._tokens + elapsed_ms * self._rate / 1000)
