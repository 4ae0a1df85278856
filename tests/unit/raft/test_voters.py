"""Majorities of voters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.raft.voters import VoterSet


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    voters = VoterSet(range(count))
    assert voters.majority == majority
    assert voters.is_majority(range(majority))
    assert not voters.is_majority(range(majority - 1))


@pytest.mark.parametrize("count", [0, 7])
def test_a_quorum_has_one_to_six_voters(count: int) -> None:
    with pytest.raises(ValueError, match="one to 6 voters"):
        VoterSet(range(count))


def test_strangers_do_not_count() -> None:
    assert not VoterSet([1, 2, 3]).is_majority([1, 7, 8, 9])


def test_the_others_are_all_but_one() -> None:
    assert VoterSet([3, 1, 2]).others(2) == [1, 3]
    assert VoterSet([3, 1, 2]).others(9) == [1, 2, 3]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_a_majority_has_reached_the_number_and_none_has_reached_more(numbers: list[int]) -> None:
    voters = VoterSet(range(len(numbers)))
    reached = voters.reached_by_majority(dict(enumerate(numbers)))
    assert sum(number >= reached for number in numbers) >= voters.majority
    assert sum(number > reached for number in numbers) < voters.majority
