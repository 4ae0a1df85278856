import asyncio
import time

from ottla.runtime.clock import OsClock, monotonic_ms, monotonic_s, precise_ms


class Stopped(asyncio.SelectorEventLoop):
    """An event loop whose time stands at seven seconds."""

    def time(self) -> float:
        return 7.0


def test_monotonic_time_is_that_of_the_running_event_loop() -> None:
    async def told() -> tuple[float, int, float]:
        return monotonic_s(), monotonic_ms(), precise_ms()

    loop = Stopped()
    try:
        assert loop.run_until_complete(told()) == (7.0, 7000, 7000.0)
    finally:
        loop.close()


def test_outside_of_a_loop_monotonic_time_is_the_systems() -> None:
    before = time.monotonic()
    assert before <= monotonic_s() <= time.monotonic()


def test_the_time_of_day_is_the_same_in_seconds_and_milliseconds() -> None:
    clock = OsClock()
    assert abs(clock.wall_s() * 1000 - clock.wall_ms()) < 1000


def test_the_time_since_boot_never_goes_back() -> None:
    clock = OsClock()
    assert clock.boot_ms() <= clock.boot_ms()
