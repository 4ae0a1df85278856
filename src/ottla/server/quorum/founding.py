"""Whether a voter whose disk remembers nothing may begin with an empty memory: whether the quorum is new.

A voter without memory is either new or has lost its disk, and one that lost its disk must not vote
(`ottla.raft.vote_recovery`). It is new if no voter has ever voted, and it knows that when all others say that
they are in epoch 0: a candidate enters its epoch, durably, before it asks for votes, so no candidate is left
that could have an older vote of this voter. Fewer witnesses would rule out majorities of the past, and not
the candidate that still collects one. So the first start of a quorum needs all voters, or a majority whose
directories were prepared (`preparation`); afterwards a voter that comes back with an empty disk hears of a
later epoch, and earns its vote back. One voter alone always founds.
"""

from __future__ import annotations

from ottla.raft.voters import VoterSet


class Founding:
    """The answers that a voter without memory has heard from the others."""

    def __init__(self, node_id: int, voters: VoterSet) -> None:
        self._node_id = node_id
        self._voters = voters
        self._new: set[int] = set()
        self._is_refuted = False

    @property
    def is_open(self) -> bool:
        """Whether it is still the question."""
        return not self._is_refuted

    @property
    def is_proven(self) -> bool:
        """Whether no voter has ever voted."""
        return not self._is_refuted and not self.unheard

    @property
    def unheard(self) -> list[int]:
        """The voters that have not said anything yet."""
        return [voter for voter in self._voters.others(self._node_id) if voter not in self._new]

    def heard(self, node_id: int, epoch: int) -> None:
        """A voter says in which epoch it is."""
        if epoch > 0:
            self._is_refuted = True
        elif node_id in self._voters:
            self._new.add(node_id)
