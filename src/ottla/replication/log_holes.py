"""A log that lost records in the middle in a crash, and what a replica does about the hole. Pure.

The log keeps the records after the hole and remembers where the hole begins. The next step depends on the
replica's role:

    role                                              effect
    follower                                          TruncateTo: the leader has all records from there on
    leader, other replicas exist                      TruncateTo: a follower that has the lost records could
                                                      never find out that its leader does not have them
    leader, only replica, acks wait for an fsync      TruncateTo: nothing after the hole was acknowledged
    leader, only replica                              AcceptHole: its log is the only copy of the rest
    no leader is known                                none; the role decides later

A leader settles the hole before it takes its role: an epoch must begin where the log ends after the
truncation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.model import NO_LEADER


@dataclass(frozen=True, slots=True)
class HoleFound:
    """A crash took records from `offset` on, and the log goes on after them.

    `leader` and `replicas` are those of the assignment that the replica is about to take, or has.
    `acks_are_durable` says whether an append is acknowledged only after an fsync.
    """

    offset: int
    leader: int
    replicas: Sequence[int]
    acks_are_durable: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate the log at this offset.

    The recovery point on disk is lowered before: the rest was not lost.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class AcceptHole:
    """Keep the records on both sides of the hole, and forget that there is one."""


def settle_hole(hole: HoleFound, node_id: int) -> list[TruncateTo | AcceptHole]:
    """The effects of the replica on `node_id` for a hole in its log."""
    if hole.leader == NO_LEADER:
        return []
    is_only_copy = hole.leader == node_id and len(hole.replicas) == 1
    return [AcceptHole()] if is_only_copy and not hole.acks_are_durable else [TruncateTo(hole.offset)]
