"""Deadlines: none is lost, none comes early, and moving one later costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.group.timers import NEVER, Timer, Timers


def acting(fired: list[str], name: str) -> Callable[[Any], None]:
    return lambda turn: fired.append(name)


def next_deadline_ms(timers: Timers) -> int | None:
    return timers.next_deadline_ms


def run(timers: Timers, now_ms: int) -> None:
    for action in timers.due(now_ms):
        action(None)


def test_what_is_due_comes_in_its_order_and_once() -> None:
    timers, fired = Timers(), list[str]()
    for name, deadline_ms in (("b", 20), ("a", 10), ("c", 20), ("d", 30)):
        timers.set(Timer(), deadline_ms, acting(fired, name))
    run(timers, 9)
    assert fired == []
    run(timers, 20)
    assert fired == ["a", "b", "c"]
    run(timers, 29)
    assert next_deadline_ms(timers) == 30
    run(timers, 30)
    assert fired == ["a", "b", "c", "d"]
    assert next_deadline_ms(timers) is None


def test_a_deadline_that_was_moved_later_comes_later_and_one_moved_earlier_earlier() -> None:
    timers, fired, timer = Timers(), list[str](), Timer()
    timers.set(timer, 10, acting(fired, "x"))
    timer.deadline_ms = 50
    run(timers, 49)
    assert fired == []
    timers.set(timer, 100, acting(fired, "x"))
    timers.set(timer, 60, acting(fired, "y"))
    run(timers, 60)
    assert fired == ["y"]
    run(timers, 1_000)
    assert fired == ["y"]


def test_what_was_cancelled_never_comes_unless_it_is_set_again() -> None:
    timers, fired, timer = Timers(), list[str](), Timer()
    timers.set(timer, 10, acting(fired, "x"))
    timer.cancel()
    run(timers, 100)
    timers.set(timer, 110, acting(fired, "y"))
    run(timers, 110)
    assert fired == ["y"]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["set", "later", "cancel", "run"]), st.integers(1, 30)),
        max_size=60,
    )
)
def test_timers_behave_as_a_plain_list_of_deadlines(steps: list[tuple[int, str, int]]) -> None:
    timers, all_timers = Timers(), [Timer() for _ in range(4)]
    model: dict[int, int] = {}
    now_ms, fired = 0, list[int]()
    for number, step, amount in steps:
        timer = all_timers[number]
        if step == "set":
            model[number] = now_ms + amount
            timers.set(timer, now_ms + amount, lambda turn, number=number: fired.append(number))  # type: ignore[misc]
        elif step == "later" and number in model:
            model[number] = timer.deadline_ms = max(model[number], now_ms + amount)
        elif step == "cancel":
            model.pop(number, None)
            timer.cancel()
        else:
            now_ms += amount
            fired.clear()
            run(timers, now_ms)
            due = sorted(number for number, deadline_ms in model.items() if deadline_ms <= now_ms)
            assert sorted(fired) == due
            for name in due:
                del model[name]
        earliest = min(model.values(), default=NEVER)
        assert not model or (timers.next_deadline_ms or NEVER) <= earliest
