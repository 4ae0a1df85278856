"""A histogram with exponential buckets, for durations in whole microseconds.

Four buckets lie between one power of two and the next, so a bucket's bounds differ by at most a quarter. A
bucket holds the values up to its bound, the bound included, and above the bound before it. The bucket of a value
follows from the value's length in bits: recording costs two shifts and three additions, no search and no float.
Two histograms are added bucket by bucket, and equal the histogram over all values of both.
"""

from collections.abc import Iterable
from typing import Final, Self

# Values above are counted in the last bucket: 2**36 µs are 19 hours.
MOST_BITS: Final = 36
_BUCKETS: Final = (MOST_BITS - 2) * 4 + 4
_LARGEST: Final = 1 << MOST_BITS


class Histogram:
    """Counts of values by bucket, their number and their sum."""

    __slots__ = ("count", "counts", "total")

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.counts = [0] * _BUCKETS
        self.count = 0
        self.total = 0
        for value in values:
            self.record(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return (self.counts, self.count, self.total) == (other.counts, other.count, other.total)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def record(self, value: int, times: int = 1) -> None:
        """Count a value; one below 0, as a clock that was set back gives, is a 0."""
        below = value - 1
        if 7 < below < _LARGEST:
            # As in `bucket_of`, without the call: every request pays for it.
            shift = below.bit_length() - 3
            self.counts[(shift << 2) + (below >> shift)] += times
        else:
            value = value if value > 0 else 0
            self.counts[bucket_of(value)] += times
        self.count += times
        self.total += value * times

    def merge(self, other: Self) -> None:
        """Count the values of another histogram, too."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.count += other.count
        self.total += other.total

    def cumulated(self, least_bits: int, most_bits: int) -> list[tuple[int, int]]:
        """For each power of two between two powers: the power, and how many values are not above it."""
        found, seen, done = [], 0, 0
        for bits in range(least_bits, most_bits + 1):
            end = bucket_of(1 << bits) + 1
            seen += sum(self.counts[done:end])
            done = end
            found.append((1 << bits, seen))
        return found

    def quantile(self, share: float) -> int:
        """The bound of the bucket in which the value at a share of all values lies; 0 without values."""
        wanted, seen = share * self.count, 0
        for index, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return bound_of(index)
        return 0


def bucket_of(value: int) -> int:
    """The place of the bucket for a value of 0 or more."""
    below = value - 1
    if below < 8:
        return below if below > 0 else 0
    if value > _LARGEST:
        return _BUCKETS - 1
    shift = below.bit_length() - 3
    return (shift << 2) + (below >> shift)


def bound_of(index: int) -> int:
    """The largest value in a bucket."""
    if index < 8:
        return index + 1
    shift = (index >> 2) - 1
    return (index - (shift << 2) + 1) << shift
