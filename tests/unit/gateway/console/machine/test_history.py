"""Rates and lag in bounded memory."""

from __future__ import annotations

from ottla.gateway.console.machine.history import MOST_GROUPS, History, Sample


def test_a_rate_is_the_difference_of_two_samples() -> None:
    history = History()
    history.add(Sample(0, {"orders": 100}, {"billing": 7}))
    history.add(Sample(2_000, {"orders": 300}, {"billing": 9}))
    assert history.rate_of("orders") == 100.0
    assert history.series() == {"at_ms": [0, 2_000], "records_per_s": [None, 100.0], "lag": [7, 9]}
    assert history.lag_of("billing")["lag"] == [7, 9]
    assert history.busiest == [("orders", 100.0)]


def test_a_topic_that_comes_goes_or_is_made_again_is_no_rate() -> None:
    history = History()
    history.add(Sample(0, {"gone": 50, "again": 80}, {}))
    history.add(Sample(1_000, {"new": 1_000, "again": 3}, {}))
    assert history.rate_of("new") is None
    assert history.rate_of("again") == 0
    assert history.series()["records_per_s"] == [None, 0]


def test_a_clock_that_was_set_back_leaves_a_sample_out() -> None:
    history = History()
    history.add(Sample(5_000, {"a": 1}, {}))
    history.add(Sample(4_000, {"a": 9}, {}))
    assert history.series()["at_ms"] == [5_000]


def test_memory_is_bounded() -> None:
    history = History(most=3)
    for second in range(10):
        history.add(Sample(second * 1_000, {}, {f"g{n}": n for n in range(MOST_GROUPS + 5)}))
    assert history.series()["at_ms"] == [7_000, 8_000, 9_000]
    assert history.lag_of("g0")["lag"] == [None] * 3  # those with the most lag are kept
    assert history.lag_of(f"g{MOST_GROUPS}")["lag"] == [MOST_GROUPS] * 3
