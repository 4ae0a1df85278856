from __future__ import annotations

from tests.chaos.faults import KINDS, plan


def test_a_seed_gives_the_same_faults_again() -> None:
    assert plan(7, 200, 6) == plan(7, 200, 6)
    assert plan(7, 200, 6) != plan(8, 200, 6)


def test_a_longer_run_of_many_faults_begins_like_a_shorter_one() -> None:
    assert [fault.kind for fault in plan(7, 100, 6)] == [fault.kind for fault in plan(7, 200, 6)][:100]


def test_every_kind_comes_before_one_comes_again() -> None:
    faults = plan(3, len(KINDS), 6)
    assert {fault.kind for fault in faults} == set(KINDS)
    assert len(plan(3, 10, 6)) == 10


def test_what_is_drawn_is_within_bounds() -> None:
    for fault in plan(5, 300, 4):
        low, high = KINDS[fault.kind].hold_s
        assert low <= fault.hold_s <= high
        assert 0 <= fault.partition < 4
