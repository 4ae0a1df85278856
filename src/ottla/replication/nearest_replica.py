"""Which replica a consumer should read from: one in its own rack, if that holds what is asked for (KIP-392).
Pure.
"""

from collections.abc import Mapping

from ottla.model import NO_NODE
from ottla.replication.partition import PartitionReplica


def nearest_replica(
    replica: PartitionReplica,
    offset: int,
    rack: str,
    racks: Mapping[int, str | None],
    starts: Mapping[int, int],
) -> int:
    """The in-sync follower in `rack` that has the longest log, as this partition's leader knows it.

    NO_NODE if the leader itself should be asked: it is in the rack, or no follower there has the offset.
    `racks` are those of the brokers that are up, and `starts` where the followers' logs begin.
    """
    if racks.get(replica.node_id) == rack:
        return NO_NODE
    ends = {
        other: state.log_end_offset
        for other, state in replica.followers.items()
        if other in replica.isr
        and racks.get(other) == rack
        and starts.get(other, 0) <= offset <= state.log_end_offset
    }
    return max(ends, key=lambda other: (ends[other], -other), default=NO_NODE)
