"""Commits: the application's positions become the group's committed offsets.

Rules
- The committed offset is the position: every record that was handed out counts as done. Automatic commits
  therefore happen only when the application asks for the next records, and when it gives its partitions up. A
  worker, which has several records in hand at once, says up to where they are done instead.
- A member commits in its generation. A consumer that has lost its membership may not commit: other members
  have its partitions.
- While a cooperative group rebalances, members keep their partitions; a commit that is refused at that moment
  is repeated in the next generation.
- An automatic commit that fails is no error: its offsets are committed with the next one, or the records are
  read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ottla.client.cluster.coordinator import Coordinator
from ottla.client.consumer.record_worker import Worker
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.membership.group_session import GroupSession
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.member_events import Refused
from ottla.client.requests.membership import Membership
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_GENERATION, TopicPartition

Progress: TypeAlias = Mapping[PartitionReader, CommittedOffset]

# The answers to a member whose membership or generation is out of date.
_REFUSALS: Final = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
_OTHER_GENERATION: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
_AGAIN_SECONDS: Final = 0.02


class Commits:
    """Commits for one consumer: as a member between `join` and `leave`, else for a group without members."""

    def __init__(
        self, coordinator: Coordinator, *, interval_ms: int | None, timeout_ms: int, is_cooperative: bool
    ) -> None:
        self._coordinator = coordinator
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._is_cooperative = is_cooperative
        self._next_seconds: float | None = None
        self._is_running = False
        self._session: GroupSession | None = None
        self._worker: Worker | None = None

    def join(self, session: GroupSession) -> None:
        """Commit as the member of this session from now on."""
        self._session = session

    def leave(self) -> None:
        """Commit without a membership from now on."""
        self._session = None

    def employ(self, worker: Worker | None) -> None:
        """Let `worker` say up to where records are done; None: every record that was handed out is done."""
        self._worker = worker

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
        """Commit. Raises KafkaError, ConnectionError or TimeoutError if that fails."""
        try:
            await self._commit(offsets, timeout_ms)
        except (KafkaError, ConnectionError, TimeoutError) as error:
            self._coordinator.notices.say("commit", f"a commit failed: {error}")
            raise

    async def _commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], timeout_ms: int | None
    ) -> None:
        now_seconds = asyncio.get_running_loop().time
        deadline = now_seconds() + (timeout_ms or self._timeout_ms) / 1000
        while not await self._try(offsets, timeout_ms):
            if now_seconds() >= deadline:
                raise TimeoutError("the group rebalances, and did not take the commit in time")
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _try(self, offsets: Mapping[TopicPartition, CommittedOffset], timeout_ms: int | None) -> bool:
        """Commit once; False if the commit should be repeated in the next generation."""
        session, membership = self._session, self._membership()
        outcomes = await self._coordinator.commit(offsets, membership, timeout_ms)
        codes = {outcome.code for outcome in outcomes.values() if isinstance(outcome, KafkaError)}
        refusal = next((code for code in _REFUSALS if code in codes), None)
        if session is not None and membership is not None and refusal is not None:
            session.tell(Refused(membership.generation_id, refusal))
            if self._is_cooperative and refusal in _OTHER_GENERATION and not session.is_stable_in(membership):
                return False
        succeeded(outcomes)
        return True

    async def commit_done(self, readers: Iterable[PartitionReader], timeout_ms: int | None = None) -> None:
        """Commit the present progress of these readers; a failure is logged, and ignored otherwise."""
        await self.commit_quietly(self.progress_of(readers), timeout_ms)

    async def commit_quietly(self, progress: Progress, timeout_ms: int | None = None) -> None:
        """Commit progress that was taken earlier; a failure is logged, and ignored otherwise."""
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
            reader.note_commit(at.offset)

    def progress_of(self, readers: Iterable[PartitionReader]) -> Progress:
        """The offsets that are done and not committed. Records handed out afterwards are not included."""
        places = ((reader, self._done_of(reader)) for reader in readers)
        return {
            reader: place
            for reader, place in places
            if place is not None and place.offset != reader.committed
        }

    def _done_of(self, reader: PartitionReader) -> CommittedOffset | None:
        unfinished = None if self._worker is None else self._worker.unfinished(reader.partition)
        if unfinished is not None:
            return CommittedOffset(unfinished)
        position = reader.position
        return None if position is None else CommittedOffset(position, reader.leader_epoch)

    def _membership(self) -> Membership | None:
        if self._session is None:
            return None
        membership = self._session.membership
        if membership.generation_id == NO_GENERATION:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, "the consumer is not a member of its group at the moment"
            )
        return membership
