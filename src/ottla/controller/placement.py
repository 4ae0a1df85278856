"""Which brokers hold a new partition: leaders round robin, followers where there is least, over all live brokers (CTL-2).

The start rotates with the partitions that exist already, so that topics of one partition do not all meet on the first
broker. Within one call no broker leads, or holds, more than one partition more than another.
"""

from collections.abc import Sequence


def place(
    brokers: Sequence[int], partition_count: int, replication_factor: int, start: int
) -> list[list[int]]:
    """The replicas of each new partition, the preferred leader first; at most one replica per broker."""
    count = len(brokers)
    held = [0] * count
    placed = []
    for leader in range(start, start + partition_count):
        held[leader % count] += 1
        # Of equally loaded brokers the one whose turn to lead comes last: it would wait longest for its share.
        others = sorted(
            (slot for slot in range(count) if slot != leader % count),
            key=lambda slot: (held[slot], -((slot - leader) % count)),
        )
        followers = others[: replication_factor - 1]
        for slot in followers:
            held[slot] += 1
        placed.append([brokers[leader % count], *(brokers[slot] for slot in followers)])
    return placed
