"""The table of states: what Kafka's states are, and that nothing else can happen."""

from __future__ import annotations

import pytest

from ottla.group.classic import TRANSITIONS, ClassicGroup, GroupEvent, GroupState


def test_every_state_stands_in_the_table_under_kafkas_name() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [state.value for state in TRANSITIONS] == names
    assert set(TRANSITIONS) == set(GroupState)


def test_every_state_but_the_last_can_be_left_and_every_one_reached() -> None:
    assert not TRANSITIONS[GroupState.DEAD]
    reached = {after for moves in TRANSITIONS.values() for after in moves.values()}
    assert reached == set(GroupState)
    used = {event for moves in TRANSITIONS.values() for event in moves}
    assert used == set(GroupEvent)


def test_what_the_table_does_not_name_cannot_happen() -> None:
    group = ClassicGroup("g")
    with pytest.raises(KeyError):
        group.move(GroupEvent.JOINED)
    group.move(GroupEvent.DELETED)
    with pytest.raises(KeyError):
        group.move(GroupEvent.REBALANCE)
