"""The voters: who they are, and what a majority of them is.

A set comes from the settings (static: node ids only) or out of the log (KIP-853: node ids with the directories
that they vote from). The set of a moment is the newest in the log, committed or not, and else that of the
settings. Two sets that follow each other differ in one voter, so that their majorities share a voter. Nothing
outside this module counts voters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla.protocol.codec import ZERO_UUID
from ottla.raft.messages import Endpoint, ReplicaKey

# More voters make commits slower and add nothing: five survive two failures. One more while one is replaced.
MAX_VOTERS: Final = 6


class VoterNode(NamedTuple):
    """One voter. A static set does not know the directories."""

    node_id: int
    directory_id: UUID = ZERO_UUID
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


class VoterSet:
    """One to six voters; node ids stand for voters whose directories are not known."""

    __slots__ = ("_nodes", "ids", "majority")

    def __init__(self, voters: Iterable[int | VoterNode]) -> None:
        nodes = [VoterNode(each) if isinstance(each, int) else each for each in voters]
        self._nodes = {each.node_id: each for each in sorted(nodes)}
        self.ids = frozenset(self._nodes)
        if not 1 <= len(self.ids) <= MAX_VOTERS:
            raise ValueError(f"a quorum has one to {MAX_VOTERS} voters, not {len(self.ids)}")
        self.majority = len(self.ids) // 2 + 1

    def __contains__(self, node_id: object) -> bool:
        return node_id in self.ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._nodes == other._nodes

    def __hash__(self) -> int:
        return hash(tuple(self._nodes.values()))

    def __repr__(self) -> str:
        return f"VoterSet({sorted(self.ids)})"

    @property
    def nodes(self) -> tuple[VoterNode, ...]:
        """All voters in the order of their ids."""
        return tuple(self._nodes.values())

    @property
    def names_directories(self) -> bool:
        """Whether a voter is known by its directory, too: the set is one of the log."""
        return all(each.directory_id != ZERO_UUID for each in self._nodes.values())

    def has(self, key: ReplicaKey) -> bool:
        """Whether a node votes from this directory; a static set asks for the node only."""
        node = self._nodes.get(key.node_id)
        return node is not None and node.directory_id in (ZERO_UUID, key.directory_id)

    def node(self, node_id: int) -> VoterNode | None:
        return self._nodes.get(node_id)

    def directory_of(self, node_id: int) -> UUID:
        """The directory that a voter votes from; the zero id if that is not known."""
        node = self._nodes.get(node_id)
        return ZERO_UUID if node is None else node.directory_id

    def with_voter(self, voter: VoterNode) -> VoterSet:
        """The set with one more voter, or with another directory or address of one."""
        return VoterSet([*(each for each in self.nodes if each.node_id != voter.node_id), voter])

    def without(self, node_id: int) -> VoterSet:
        """The set with one voter less."""
        return VoterSet(each for each in self.nodes if each.node_id != node_id)

    def others(self, node_id: int) -> list[int]:
        """All but one, in a fixed order."""
        return sorted(self.ids - {node_id})

    def is_majority(self, ids: Iterable[int]) -> bool:
        return len(self.ids.intersection(ids)) >= self.majority

    def reached_by_majority(self, numbers: Mapping[int, int]) -> int:
        """The largest number that a majority has reached; `numbers` has one for each voter."""
        return sorted((numbers[voter] for voter in self.ids), reverse=True)[self.majority - 1]


class LoggedVoters(NamedTuple):
    """A set of voters in the log, and the end offset of its record."""

    voters: VoterSet
    end_offset: int
