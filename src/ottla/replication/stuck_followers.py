"""Followers that ask for the same records again and again although the leader sends them. Pure.

The records are perhaps damaged in the leader's log: a follower checks what it appends, and has no way to say why it
does not. A follower is stuck when it asked for the same offset at two looks in a row, fetched in between, and the
leader had records for it both times. That is true of a follower with a full disk as well, so it is a reason to look
at the leader's own records, and no more. Each offset is named once.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model import NO_OFFSET
from ottla.replication.follower_state import FollowerState


class _Seen(NamedTuple):
    """What one follower lacked at the last look."""

    offset: int
    fetched_ms: int
    is_named: bool


class StuckFollowers:
    """The followers of one leader."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def look(self, followers: Mapping[int, FollowerState], log_end_offset: int) -> list[int]:
        """The offsets at which followers are stuck, and that were not named before."""
        before, self._seen = self._seen, {}
        stuck = []
        for replica_id, follower in followers.items():
            offset = follower.log_end_offset
            if not NO_OFFSET < offset < log_end_offset:
                continue
            seen = before.get(replica_id)
            if seen is None or seen.offset != offset:
                self._seen[replica_id] = _Seen(offset, follower.last_fetch_ms, is_named=False)
                continue
            is_news = not seen.is_named and follower.last_fetch_ms > seen.fetched_ms
            if is_news:
                stuck.append(offset)
            self._seen[replica_id] = seen._replace(is_named=seen.is_named or is_news)
        return stuck
