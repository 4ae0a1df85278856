"""The slowest requests of many (OPS-2)."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.telemetry.slowest import Slowest, SlowRequest


def request(total_us: int, at_s: float = 0.0) -> SlowRequest:
    return SlowRequest(total_us, at_s, "FETCH", 1, 0, total_us, 0, "1.2.3.4:5", "")


@given(st.lists(st.integers(0, 1000), max_size=80))
def test_the_slowest_stay_and_what_the_floor_refuses_would_not_have(durations: list[int]) -> None:
    slowest = Slowest()
    for duration in durations:
        if duration > slowest.floor_us or not slowest.floor_us:
            slowest.add(request(duration))
    assert [each.total_us for each in slowest.all] == sorted(durations, reverse=True)[:16]


def test_old_requests_make_room() -> None:
    slowest = Slowest()
    for number in range(20):
        slowest.add(request(1000 + number, at_s=number))
    assert slowest.floor_us == 1004
    slowest.forget(before_s=18)
    assert [each.total_us for each in slowest.all] == [1019, 1018]
    assert slowest.floor_us == 0
