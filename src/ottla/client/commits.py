"""Commits: where the application is becomes where the group goes on.

Rules
- What is committed is the position: every record that was handed out counts as done. Automatic commits therefore happen
  only when the application asks for the next records, and when it gives its partitions up.
- A member commits in its generation. Who has lost its membership may not commit: its partitions are somebody else's.
- An automatic commit that fails is no error: what it meant to commit is committed with the next, or read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ottla.client.coordinator import Coordinator
from ottla.client.group_offsets import CommittedOffset
from ottla.client.group_session import GroupSession
from ottla.client.member_events import Refused
from ottla.client.member_requests import NO_GENERATION, Membership
from ottla.client.metadata import TopicPartition
from ottla.client.outcomes import succeeded
from ottla.client.partition_reader import PartitionReader
from ottla.errors import ErrorCode, KafkaError

Progress: TypeAlias = Mapping[PartitionReader, CommittedOffset]

# What a member is told when the group does not stand as it thinks.
_REFUSALS: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)


class Commits:
    """Commits for one consumer. `session` is None while the consumer is no member of the group."""

    def __init__(self, coordinator: Coordinator, interval_ms: int | None) -> None:
        self._coordinator = coordinator
        self._interval_ms = interval_ms
        self._next_seconds: float | None = None
        self._is_running = False
        self.session: GroupSession | None = None

    @property
    def is_automatic(self) -> bool:
        return self._interval_ms is not None

    def is_due(self) -> bool:
        """Whether it is time for an automatic commit; the next one is due an interval later."""
        if self._interval_ms is None or self._is_running:
            return False
        now = asyncio.get_running_loop().time()
        if self._next_seconds is not None and now < self._next_seconds:
            return False
        has_begun, self._next_seconds = self._next_seconds is not None, now + self._interval_ms / 1000
        return has_begun

    async def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], timeout_ms: int | None = None
    ) -> None:
        """Commit, or raise why not."""
        membership = self._membership()
        outcomes = await self._coordinator.commit(offsets, membership, timeout_ms)
        for outcome in outcomes.values():
            if self.session and membership and isinstance(outcome, KafkaError) and outcome.code in _REFUSALS:
                self.session.tell(Refused(membership.generation_id, outcome.code))
                break
        succeeded(outcomes)

    async def commit_quietly(self, progress: Progress, timeout_ms: int | None = None) -> None:
        """Commit where readers were; a failure is passed over."""
        if not progress:
            return
        self._is_running = True
        try:
            await self.commit({reader.partition: at for reader, at in progress.items()}, timeout_ms)
        except (KafkaError, ConnectionError, TimeoutError):
            return
        finally:
            self._is_running = False
        for reader, at in progress.items():
            reader.committed = at.offset

    def _membership(self) -> Membership | None:
        if self.session is None:
            return None
        membership = self.session.membership
        if membership.generation_id == NO_GENERATION:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, "the consumer is not a member of its group at the moment"
            )
        return membership


def progress_of(readers: Iterable[PartitionReader]) -> Progress:
    """Where readers are now, if that is not committed yet. Taken before records are handed out, it knows nothing of them."""
    return {
        reader: CommittedOffset(reader.position, reader.leader_epoch)
        for reader in readers
        if reader.position is not None and reader.position != reader.committed
    }
