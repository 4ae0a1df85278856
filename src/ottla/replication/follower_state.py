"""One follower as its leader sees it: the end of its log, and the time when it last held every record.

Caught up, as Kafka means it: a fetch at the leader's log end proves it for now; one at or behind the log end
of the fetch before proves it for the time of that fetch before. So a follower that always asks for the newest
is in sync, although new records have come by the time its question arrives.
"""

from typing import Final

from ottla.model import NO_BROKER_EPOCH, NO_OFFSET

NEVER_MS: Final = -(1 << 62)


class FollowerState:
    """One follower in one leader epoch. `log_end_offset` is -1 until it fetched."""

    __slots__ = (
        "broker_epoch",
        "is_counted",
        "is_joining",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_end_offset",
    )

    def __init__(self, *, last_caught_up_ms: int) -> None:
        self.log_end_offset = NO_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = NEVER_MS
        self.leader_end_at_last_fetch = NO_OFFSET
        # Whether the high watermark waits for it: as a member of the maximal ISR, or as one about to become
        # it.
        self.is_counted = False
        self.is_joining = False

    def __repr__(self) -> str:
        return (
            f"FollowerState(log_end_offset={self.log_end_offset}, last_caught_up_ms={self.last_caught_up_ms})"
        )

    def fetched(self, fetch_offset: int, leader_end: int, broker_epoch: int, now_ms: int) -> bool:
        """It asked for what comes at `fetch_offset`.

        Everything before is in its log. Whether that proves it caught up.
        """
        caught_up_ms = NEVER_MS
        if fetch_offset >= leader_end:
            caught_up_ms = now_ms
        elif fetch_offset >= self.leader_end_at_last_fetch > NO_OFFSET:
            caught_up_ms = self.last_fetch_ms
        self.last_caught_up_ms = max(self.last_caught_up_ms, caught_up_ms)
        self.log_end_offset = fetch_offset
        self.broker_epoch = broker_epoch
        self.leader_end_at_last_fetch = leader_end
        # Fetches that found nothing may be told of late.
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        return caught_up_ms != NEVER_MS

    def ask_to_join(self, *, may_join: bool) -> None:
        """The follower is not in the ISR; whether the high watermark is to wait for it already."""
        self.is_joining = may_join

    def count(self, *, is_counted: bool, is_member: bool) -> None:
        """The ISR was decided or proposed: whether it counts this follower, and whether it has joined."""
        self.is_counted = is_counted
        if is_member:
            self.is_joining = False

    def give_up_joining(self) -> None:
        """The high watermark does not wait for it any more, unless it is a member."""
        self.is_joining = False

    def forget(self) -> None:
        """It left the ISR, or its broker is gone: it is in sync again when new fetches prove it."""
        self.last_caught_up_ms = NEVER_MS
        self.last_fetch_ms = NEVER_MS
        self.leader_end_at_last_fetch = NO_OFFSET
        self.is_joining = False

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it may stay in the ISR."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def is_silent(self, leader_end: int, now_ms: int, silence_max_ms: int) -> bool:
        """Whether it lacks records and has not fetched for too long; a new leader's followers begin as heard."""
        return self.log_end_offset != leader_end and now_ms - self.last_heard_ms > silence_max_ms

    @property
    def last_heard_ms(self) -> int:
        """When it last fetched, or counted as caught up without a fetch."""
        return max(self.last_fetch_ms, self.last_caught_up_ms)
