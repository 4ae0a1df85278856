"""A token bucket allows a burst, then its rate, and says how long a debt takes (OPS-4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.security.quota.token_bucket import MOST_WAIT_MS, TokenBucket

RATE, BURST_S = 1000, 2


def test_a_burst_is_free_and_what_goes_beyond_it_is_waited_for() -> None:
    bucket = TokenBucket(RATE, BURST_S, 0)
    assert [bucket.take(1000, 0), bucket.take(1000, 0)] == [0, 0]
    assert bucket.take(500, 0) == 501
    assert bucket.take(0, 400) == 101
    assert bucket.take(0, 501) == 0


def test_what_is_given_back_was_never_taken() -> None:
    bucket = TokenBucket(RATE, BURST_S, 0)
    bucket.take(1500, 0)
    assert bucket.take(1500, 0) > 0
    bucket.give_back(1500)
    assert (bucket.take(500, 0), bucket.take(1, 0) > 0) == (0, True)


def test_a_silent_bucket_is_full_and_never_more_than_full() -> None:
    bucket = TokenBucket(RATE, BURST_S, 0)
    bucket.take(2000, 0)
    assert not bucket.is_full(1999)
    assert bucket.is_full(2000)
    assert bucket.take(2001, 1_000_000) > 0


def test_another_rate_counts_at_once_and_a_debt_is_kept() -> None:
    bucket = TokenBucket(RATE, BURST_S, 0)
    bucket.take(4000, 0)
    bucket.limit(100, 0)
    assert (bucket.capacity, bucket.take(0, 0)) == (200, 20_001)
    bucket.limit(10_000, 0)
    assert bucket.take(0, 0) == 201


def test_no_wait_is_longer_than_an_hour() -> None:
    assert TokenBucket(1, 1, 0).take(10**12, 0) == MOST_WAIT_MS


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000)), max_size=50))
def test_a_client_that_waits_as_told_never_gets_more_than_burst_and_rate(
    requests: list[tuple[int, int]],
) -> None:
    bucket, now_ms, taken = TokenBucket(RATE, BURST_S, 0), 0, 0
    for size, pause_ms in requests:
        assert taken <= RATE * (BURST_S + now_ms / 1000) + 1
        taken += size
        now_ms += max(bucket.take(size, now_ms), pause_ms)
