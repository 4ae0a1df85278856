from ottla.server.replicas.throttle import UNLIMITED, Throttle


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_a_second_is_there_at_once_and_the_rest_comes_with_time() -> None:
    clock = Clock()
    throttle = Throttle(1000, clock)
    assert throttle.left_bytes() == 1000
    throttle.take(1000)
    assert throttle.left_bytes() == 0
    clock.now_ms = 500
    assert throttle.left_bytes() == 500
    clock.now_ms = 60_000
    assert throttle.left_bytes() == 1000


def test_what_was_taken_too_much_is_waited_for() -> None:
    clock = Clock()
    throttle = Throttle(1000, clock)
    throttle.take(3000)
    assert throttle.wait_ms() > 2000
    clock.now_ms = throttle.wait_ms()
    assert throttle.wait_ms() == 0


def test_another_rate_holds_from_now_on() -> None:
    clock = Clock()
    throttle = Throttle(UNLIMITED, clock)
    assert not throttle.is_limited
    throttle.take(1 << 40)
    assert throttle.wait_ms() == 0
    throttle.limit(10)
    assert throttle.is_limited
    assert throttle.left_bytes() == 10
    throttle.limit(0)
    assert throttle.wait_ms() > 1 << 40
