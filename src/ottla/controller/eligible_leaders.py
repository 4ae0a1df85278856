"""Eligible leader replicas: out of sync, and yet no committed record is missing in them (KIP-966). Pure.

A leader commits nothing while fewer replicas are in sync than min.insync.replicas. So a replica that leaves
the ISR and leaves fewer than that behind still holds every committed record, and goes on to do so until the
ISR is large enough again. Such replicas are the ELR:

    change                                         ELR afterwards
    the ISR has min.insync.replicas members        empty: the leader may commit what only they hold
    the ISR has fewer                              the former ELR and ISR without the ISR and the distrusted
    min.insync.replicas is lowered                 empty, if the ISR has that many members now
    a replica is distrusted (`replica_trust`)      without that replica
    an unclean election                            empty

A partition without a leader remembers which broker led it last. An unclean election is remembered until every
replica is in sync: until then a follower may have to truncate what was committed before.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from ottla.controller.image import PartitionImage
from ottla.model import NO_LEADER


def with_eligible_leaders(
    before: PartitionImage, after: PartitionImage, min_isr: int, distrusted: AbstractSet[int]
) -> PartitionImage:
    """The partition after a change of its ISR or leader, with the ELR and the last leader that follow."""
    elr: tuple[int, ...] = ()
    if len(after.isr) < min_isr:
        complete = {*before.isr, *before.elr} - {*after.isr, *distrusted}
        elr = tuple(node_id for node_id in after.replicas if node_id in complete)
    is_recovering = after.is_recovering and not set(after.replicas) <= set(after.isr)
    last_leader = _last_leader(before, after)
    if (elr, last_leader, is_recovering) == (after.elr, after.last_known_leader, after.is_recovering):
        return after
    return replace(after, elr=elr, last_known_leader=last_leader, is_recovering=is_recovering)


def _last_leader(before: PartitionImage, after: PartitionImage) -> int:
    if after.leader != NO_LEADER:
        return NO_LEADER
    return before.leader if before.leader != NO_LEADER else before.last_known_leader
