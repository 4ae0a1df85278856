"""The voters: who they are, and what a majority of them is.

The set is fixed when a node starts, and the same on all. Where it is to change (KIP-853), a set comes out of
the log, and a majority is asked of the set of that moment: nothing outside this module counts
voters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

MAX_VOTERS: Final = 5  # more voters make commits slower and add nothing: five survive two failures


class VoterSet:
    """One to five node ids."""

    __slots__ = ("ids", "majority")

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = frozenset(ids)
        if not 1 <= len(self.ids) <= MAX_VOTERS:
            raise ValueError(f"a quorum has one to {MAX_VOTERS} voters, not {len(self.ids)}")
        self.majority = len(self.ids) // 2 + 1

    def __contains__(self, node_id: object) -> bool:
        return node_id in self.ids

    def __repr__(self) -> str:
        return f"VoterSet({sorted(self.ids)})"

    def others(self, node_id: int) -> list[int]:
        """All but one, in a fixed order."""
        return sorted(self.ids - {node_id})

    def is_majority(self, ids: Iterable[int]) -> bool:
        return len(self.ids.intersection(ids)) >= self.majority

    def reached_by_majority(self, numbers: Mapping[int, int]) -> int:
        """The largest number that a majority has reached; `numbers` has one for each voter."""
        return sorted((numbers[voter] for voter in self.ids), reverse=True)[self.majority - 1]
