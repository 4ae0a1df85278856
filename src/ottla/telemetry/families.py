"""A metric family: a name, a kind, a sentence, and its samples.

A family's samples may be a generator, so that a family of thousands of partitions is never built as a whole:
whoever renders the samples may pause between them.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from ottla.telemetry.histogram import Histogram

Labels = tuple[tuple[str, str], ...]

# The bounds that are shown of a histogram: 16 µs to 67 s, in powers of two.
_LEAST_BITS: Final = 4
_MOST_BITS: Final = 26
_MICROSECONDS: Final = 1_000_000


class Kind(Enum):
    """The kinds of OpenMetrics that are used here, by their names."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Exemplar(NamedTuple):
    """One event behind a number: what it was, its value, and when it happened (seconds since 1970)."""

    labels: Labels
    value: float
    at_s: float


class Sample(NamedTuple):
    """One number. `suffix` is what follows the family's name: `_total`, `_bucket`, `_count`, `_sum`, `_info`."""

    labels: Labels
    value: float
    suffix: str = ""
    exemplar: Exemplar | None = None


class Family(NamedTuple):
    """One metric. A counter's name is without `_total`; with a unit the name ends with the unit."""

    name: str
    kind: Kind
    help: str
    samples: Iterable[Sample]
    unit: str = ""


def gauge(name: str, about: str, value: float, labels: Labels = (), unit: str = "") -> Family:
    """A family of one gauge."""
    return Family(name, Kind.GAUGE, about, (Sample(labels, value),), unit)


def gauges(name: str, about: str, values: Iterable[tuple[Labels, float]], unit: str = "") -> Family:
    """A family of gauges."""
    return Family(name, Kind.GAUGE, about, (Sample(labels, value) for labels, value in values), unit)


def counter(name: str, about: str, value: float, labels: Labels = (), unit: str = "") -> Family:
    """A family of one counter."""
    return Family(name, Kind.COUNTER, about, (Sample(labels, value, "_total"),), unit)


def counters(name: str, about: str, values: Iterable[tuple[Labels, float]], unit: str = "") -> Family:
    """A family of counters."""
    samples = (Sample(labels, value, "_total") for labels, value in values)
    return Family(name, Kind.COUNTER, about, samples, unit)


def histograms(
    name: str,
    about: str,
    values: Iterable[tuple[Labels, Histogram, Exemplar | None]],
) -> Family:
    """A family of histograms of microseconds, shown in seconds."""
    samples = (sample for each in values for sample in _histogram_samples(*each))
    return Family(name, Kind.HISTOGRAM, about, samples, "seconds")


def _histogram_samples(labels: Labels, histogram: Histogram, exemplar: Exemplar | None) -> Iterator[Sample]:
    for bound, count in histogram.cumulated(_LEAST_BITS, _MOST_BITS):
        bound_s = bound / _MICROSECONDS
        found = exemplar if exemplar is not None and bound_s / 2 < exemplar.value <= bound_s else None
        yield Sample((*labels, ("le", repr(bound_s))), count, "_bucket", found)
    last = (1 << _MOST_BITS) / _MICROSECONDS
    beyond = exemplar if exemplar is not None and exemplar.value > last else None
    yield Sample((*labels, ("le", "+Inf")), histogram.count, "_bucket", beyond)
    yield Sample(labels, histogram.count, "_count")
    yield Sample(labels, histogram.total / _MICROSECONDS, "_sum")
