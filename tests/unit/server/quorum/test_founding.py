"""When a voter without memory may say that it is new (CTL-5)."""

from __future__ import annotations

import pytest

from ottla.raft.voters import VoterSet
from ottla.server.quorum.founding import Founding


@pytest.mark.parametrize(("voters", "others_needed"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_every_majority_it_could_have_been_part_of_must_have_a_witness(
    voters: int, others_needed: int
) -> None:
    founding = Founding(1, VoterSet(range(1, voters + 1)))
    for other in range(2, 2 + others_needed):
        assert not founding.is_proven
        founding.heard(other, 0)
    assert founding.is_proven
    assert founding.unheard == list(range(2 + others_needed, voters + 1))


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
