"""A token bucket: a rate per second, with a burst. What is taken beyond the burst is a debt that time pays.

Kafka measures a rate over windows: after a burst that a full window allows, the wait is the excess divided by the
rate. A bucket that holds a full window's worth says the same with two numbers.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

# A mistake in a quota (one byte per second) must not silence a client for days.
MOST_WAIT_MS: Final = 3_600_000
# Client ids and addresses come from clients: one that invents new ones must not fill the memory.
_MAX_REMEMBERED: Final = 10_000

K = TypeVar("K", bound=Hashable)


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

    def wait_ms(self, now_ms: int) -> int:
        """The milliseconds until the debt is paid, 0 if there is none. Nothing is taken."""
        return self.take(0, now_ms)

    def give_back(self, size: float) -> None:
        """Undo a `take`: it was not transferred after all."""
        self._tokens = min(self._tokens + size, self.capacity)

    def _fill(self, now_ms: int) -> None:
        # A time of day may be set back: that earns nothing, and costs nothing.
        earned = max(0, now_ms - self._filled_ms) * self.rate / 1000
        self._filled_ms = now_ms
        self._tokens = min(self._tokens + earned, self.capacity)


class TokenBuckets(Generic[K]):
    """The buckets of many owners, made when they are first asked for; their number is bounded."""

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._each: dict[K, TokenBucket] = {}

    def find(self, owner: K, rate: float, now_ms: int) -> TokenBucket:
        """The bucket of an owner whose rate is this one now. What was taken before still counts."""
        bucket = self._each.get(owner)
        if bucket is None:
            if len(self._each) >= _MAX_REMEMBERED:
                self._forget_unused(now_ms)
            bucket = self._each[owner] = TokenBucket(rate, self._burst_s, now_ms)
        elif bucket.rate != rate:
            bucket.limit(rate, now_ms)
        return bucket

    def _forget_unused(self, now_ms: int) -> None:
        """Forget full buckets, which a new one would equal; all of them if none is full."""
        used = {owner: bucket for owner, bucket in self._each.items() if not bucket.is_full(now_ms)}
        self._each = used if len(used) < _MAX_REMEMBERED else {}
