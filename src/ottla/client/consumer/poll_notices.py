"""Lines in the log `ottla.client` about polls that wait in vain, or for long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.client.cluster.notices import Notices
from ottla.client.consumer.group_membership import GroupMembership
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.model import TopicPartition
from ottla.runtime.clock import monotonic_s

# A rebalance that takes a quarter of the session timeout (11 s by default) is worth a line: usually it waits
# for a member that does not poll.
_LONG_SHARE: Final = 0.25
_IDLE: Final = "idle"
_REBALANCE: Final = "rebalance"


class PollNotices:
    """Tells why a poll of one consumer waits, where that is not simply for the next record."""

    def __init__(self, notices: Notices, session_timeout_ms: int) -> None:
        self._notices = notices
        self._long_seconds = session_timeout_ms / 1000 * _LONG_SHARE
        self._unstable_since: float | None = None

    def begins(
        self, membership: GroupMembership | None, readers: Mapping[TopicPartition, PartitionReader]
    ) -> None:
        """A poll found no records, and begins to wait."""
        if membership is None and not readers:
            self._notices.say(
                _IDLE, "a poll waits for records, but nothing is subscribed to and nothing is assigned"
            )

    def goes_on(self, membership: GroupMembership | None) -> None:
        """Some time has passed, about a second."""
        if membership is None or membership.session.is_stable:
            self._unstable_since = None
            return
        now = monotonic_s()
        self._unstable_since = since = self._unstable_since or now
        if now - since >= self._long_seconds:
            self._notices.say(
                _REBALANCE,
                f"the group has no assignment for {now - since:.0f} s: a member does not poll, or the "
                "coordinator does not answer",
            )
