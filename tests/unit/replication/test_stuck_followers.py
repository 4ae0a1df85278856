"""Followers that ask for the same records again and again (REP-10)."""

from ottla.replication.follower_state import FollowerState
from ottla.replication.stuck_followers import StuckFollowers

END = 20


def follower(offset: int, fetched_ms: int) -> FollowerState:
    state = FollowerState(last_caught_up_ms=0)
    state.fetched(offset, END, 1, fetched_ms)
    return state


def test_an_offset_that_is_asked_for_again_although_there_are_records_is_named_once() -> None:
    stuck = StuckFollowers()
    assert stuck.look({2: follower(10, 100), 3: follower(END, 100)}, END) == []
    assert stuck.look({2: follower(10, 900), 3: follower(END, 900)}, END) == [10]
    assert stuck.look({2: follower(10, 1900), 3: follower(END, 1900)}, END) == []


def test_a_follower_that_gets_on_is_not_stuck() -> None:
    stuck = StuckFollowers()
    stuck.look({2: follower(10, 100)}, END)
    assert stuck.look({2: follower(11, 900)}, END) == []
    assert stuck.look({2: follower(12, 1900)}, END) == []


def test_a_follower_that_did_not_fetch_in_between_is_not_stuck() -> None:
    stuck = StuckFollowers()
    stuck.look({2: follower(10, 100)}, END)
    assert stuck.look({2: follower(10, 100)}, END) == []
    assert stuck.look({2: follower(10, 200)}, END) == [10]


def test_a_follower_that_had_everything_at_the_last_look_is_not_stuck() -> None:
    stuck = StuckFollowers()
    stuck.look({2: follower(10, 100)}, 10)
    assert stuck.look({2: follower(10, 900)}, END) == []


def test_a_follower_that_never_fetched_is_not_stuck() -> None:
    stuck = StuckFollowers()
    unheard = FollowerState(last_caught_up_ms=0)
    assert stuck.look({2: unheard}, END) == stuck.look({2: unheard}, END) == []
