from ottla.replication.follower_state import NEVER_MS, FollowerState


def test_a_fetch_at_the_leaders_end_proves_a_follower_caught_up_now() -> None:
    follower = FollowerState(last_caught_up_ms=NEVER_MS)
    assert follower.fetched(10, 10, 1, 500)
    assert (follower.last_caught_up_ms, follower.log_end_offset) == (500, 10)


def test_a_fetch_at_the_end_of_the_fetch_before_proves_it_for_that_time() -> None:
    follower = FollowerState(last_caught_up_ms=NEVER_MS)
    assert not follower.fetched(3, 10, 1, 100)
    assert follower.fetched(10, 25, 1, 200)
    assert follower.last_caught_up_ms == 100
    assert not follower.fetched(24, 40, 1, 300)
    assert follower.last_caught_up_ms == 100


def test_the_first_fetch_proves_nothing_but_where_it_is() -> None:
    follower = FollowerState(last_caught_up_ms=NEVER_MS)
    assert not follower.fetched(0, 10, 1, 100)
    assert follower.last_caught_up_ms == NEVER_MS


def test_a_fetch_told_of_late_does_not_turn_back_the_clock() -> None:
    follower = FollowerState(last_caught_up_ms=NEVER_MS)
    follower.fetched(10, 10, 1, 500)
    follower.fetched(10, 10, 1, 300)
    assert (follower.last_fetch_ms, follower.last_caught_up_ms) == (500, 500)


def test_what_is_forgotten_must_be_proved_anew() -> None:
    follower = FollowerState(last_caught_up_ms=0)
    follower.fetched(10, 10, 1, 500)
    follower.forget()
    assert not follower.is_caught_up(20, 501, 1000)
    assert not follower.fetched(10, 20, 1, 502)
    assert follower.fetched(20, 30, 1, 503)


def test_it_can_be_looked_at() -> None:
    assert repr(FollowerState(last_caught_up_ms=5)) == (
        "FollowerState(log_end_offset=-1, last_caught_up_ms=5)"
    )
