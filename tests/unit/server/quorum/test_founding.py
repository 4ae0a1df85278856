"""When a voter without memory may say that it is new (CTL-5)."""

from __future__ import annotations

import pytest

from ottla.raft.voters import VoterSet
from ottla.server.quorum.founding import Founding


@pytest.mark.parametrize("voters", range(1, 6))
def test_all_others_must_say_that_they_never_voted(voters: int) -> None:
    """The one that was not asked may be a candidate, with a vote that this voter gave and lost."""
    founding = Founding(1, VoterSet(range(1, voters + 1)))
    for other in range(2, voters + 1):
        assert not founding.is_proven
        assert founding.unheard == list(range(other, voters + 1))
        founding.heard(other, 0)
    assert founding.is_proven


def test_one_word_of_a_later_epoch_ends_it() -> None:
    founding = Founding(1, VoterSet([1, 2, 3]))
    founding.heard(2, 0)
    founding.heard(3, 4)
    founding.heard(3, 0)
    assert not founding.is_open
    assert not founding.is_proven


def test_who_says_it_twice_is_one_witness_and_who_does_not_vote_is_none() -> None:
    founding = Founding(1, VoterSet([1, 2, 3]))
    for node_id in (2, 2, 9):
        founding.heard(node_id, 0)
    assert not founding.is_proven
    assert founding.unheard == [3]
