"""When the fetches of a follower's session count as news of one partition. Pure.

A session names a partition once; later fetches leave it out while nothing about it changes. Each of those
fetches says all the same that the follower is alive and still asks for the same offset. The leader's machine
needs to hear of that in two moments: before an append, so that the follower counts as caught up until then,
and before time is counted.

    fetch                                        counts
    names the partition, epochs match            at once, as proof of what the follower holds
    names the partition, not judged yet          not yet
    leaves it out, same leader epoch             when asked for, at most once in REFRESH_MS
    leaves it out, another leader epoch          never: the follower may have truncated its log since
"""

from typing import Final

from ottla.replication.events import FollowerFetched

# replica.lag.time.max.ms is never that short, so nothing is decided by what is not told within this time.
REFRESH_MS: Final = 50


class FollowerProgress:
    """One follower in one partition of its session."""

    __slots__ = ("_broker_epoch", "_fetch_offset", "_leader_epoch", "_replica_id", "_seen_ms", "is_named")

    def __init__(self, replica_id: int, broker_epoch: int, fetch_offset: int, leader_epoch: int) -> None:
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch
        self._seen_ms = 0
        self.name(fetch_offset, leader_epoch)

    def name(self, fetch_offset: int, leader_epoch: int) -> None:
        """A fetch names the partition: its offset is a proof once the epochs are judged."""
        self._fetch_offset = fetch_offset
        self._leader_epoch = leader_epoch
        self.is_named = True

    def prove(self, now_ms: int) -> FollowerFetched:
        """The epochs of the fetch match the leader's log: the follower holds all before the offset."""
        self.is_named = False
        self._seen_ms = now_ms
        return FollowerFetched(self._replica_id, self._broker_epoch, self._fetch_offset)

    def repeat(self, last_fetch_ms: int, leader_epoch: int) -> FollowerFetched | None:
        """The news in fetches up to `last_fetch_ms` that left the partition out, under a leader of
        `leader_epoch`.
        """
        if last_fetch_ms - self._seen_ms < REFRESH_MS or self.is_named or self._leader_epoch != leader_epoch:
            return None
        return self.prove(last_fetch_ms)
