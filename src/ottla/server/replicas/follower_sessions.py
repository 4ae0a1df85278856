"""The fetch sessions of followers, kept by their leader (KIP-227): a fetch costs as much as it has news.

A follower's session may hold a thousand partitions of which a few change. So nothing walks over all of them:
a partition tells the cursors of its followers when it has news, and each session keeps the cursors that have
some.

Rules
- A cursor without news stands at the log's end, and its follower knows the high watermark and the log start.
- A fetch that names few partitions still says of all others in the session that the follower holds what it
  held. The partition asks for that before an append and before time is counted (`Cursor.repeat`); when it
  counts, replication/follower_progress.py decides.
- Each replica has one cursor in a partition: that of its newest session. The session that loses the cursor ends
  with its next fetch, and the follower begins another one: the newest session may have been asked for by a fetch
  that was held up on its way, and that the follower has given up.
- A follower hears of a new leader at about the same time as the leader does. A leader of new partitions
  therefore keeps the fetches of its followers waiting only shortly, until they have had time to name those
  partitions.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest
from ottla.replication.events import FollowerFetched, FollowerLost
from ottla.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION_ID,
    FetchResult,
    next_epoch,
)
from ottla.replication.follower_progress import FollowerProgress
from ottla.runtime.clock import monotonic_ms
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.replicas.throttle import UNLIMITED, Throttle
from ottla.wire.deadlines import Deadlines

# A follower asks at least twice a second. An older session belongs to a broker that is gone.
IDLE_MS: Final = 120_000
# How long a fetch waits at first after this broker became a leader of something; twice as long each time
# after.
FIRST_PATIENCE_MS: Final = 5
_UNLIMITED_MS: Final = 1 << 31

PartitionKey = tuple[object, int]
Find = Callable[[PartitionKey], HostedPartition]


class Waiting(Protocol):
    """A fetch that waits at the leader."""

    def on_append(self, size_bytes: int) -> None:
        """There is more to fetch."""

    def wake(self) -> None:
        """Do not wait any longer."""

    def __hash__(self) -> int: ...


class Cursor:
    """Where a follower stands in one partition, and what it was told."""

    __slots__ = (
        "key",
        "log_start_offset",
        "partition",
        "progress",
        "replica_id",
        "session",
        "told_high_watermark",
        "told_log_start_offset",
        "want",
    )

    def __init__(self, session: "FollowerSession", key: PartitionKey, want: FetchPartition) -> None:
        self.session = session
        self.key = key
        self.replica_id = session.replica_id
        self.want = want
        self.log_start_offset = want.log_start_offset
        self.partition: HostedPartition | None = None
        self.progress = FollowerProgress(
            session.replica_id, session.broker_epoch, want.fetch_offset, want.current_leader_epoch
        )
        self.told_high_watermark = NO_OFFSET
        self.told_log_start_offset = NO_OFFSET

    # Called by the partition

    @property
    def last_fetch_ms(self) -> int:
        return self.session.last_fetch_ms

    def repeat(self, leader_epoch: int) -> FollowerFetched | None:
        return self.progress.repeat(self.session.last_fetch_ms, leader_epoch)

    def on_append(self, size_bytes: int) -> None:
        session = self.session
        session.news[self] = None
        if session.waiting is not None:
            session.waiting.on_append(size_bytes)

    def on_news(self) -> None:
        self.session.news[self] = None

    def on_change(self) -> None:
        self.session.news[self] = None
        self.session.wake()

    def replaced(self) -> None:
        self.session.drop(self)
        self.session.supersede()

    # Called by the fetch

    def was_told(self, result: FetchResult) -> bool:
        """Whether the follower knows the high watermark and the log start already."""
        return (self.told_high_watermark, self.told_log_start_offset) == (
            result.high_watermark,
            result.log_start_offset,
        )

    def name(self, want: FetchPartition) -> None:
        """A fetch named the partition."""
        self.want = want
        self.progress.name(want.fetch_offset, want.current_leader_epoch)
        has_moved = want.log_start_offset > self.log_start_offset
        self.log_start_offset = want.log_start_offset
        if has_moved and self.partition is not None:
            self.partition.waiters.follower_start_moved()

    def host(self, find: Find) -> HostedPartition:
        """The partition, as long as it is served here; KafkaError if it is not."""
        partition = self.partition
        if partition is None or partition.is_closed:
            self.detach()
            partition = find(self.key)
            self._attach(partition)
        return partition

    def detach(self) -> None:
        """Hear nothing more of the partition."""
        partition, self.partition = self.partition, None
        if partition is not None:
            partition.waiters.detach(self)

    def _attach(self, partition: HostedPartition) -> None:
        self.partition = partition
        partition.waiters.attach(self)


class FollowerSession:
    """The partitions that one follower fetches together."""

    def __init__(self, session_id: int, replica_id: int, broker_epoch: int, now_ms: int) -> None:
        self.session_id = session_id
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.last_fetch_ms = now_ms
        self.cursors: dict[PartitionKey, Cursor] = {}
        # In the order in which they are read: who got records goes to the end.
        self.news: dict[Cursor, None] = {}
        self.waiting: Waiting | None = None
        self.is_superseded = False
        self._patience_ms = _UNLIMITED_MS

    def update(self, request: FetchRequest, uses_topic_ids: bool) -> None:
        """Take over what a request names and forgets."""
        for topic in request.topics:
            name: object = topic.topic_id if uses_topic_ids else topic.topic
            for want in topic.partitions:
                key = (name, want.partition)
                cursor = self.cursors.get(key)
                if cursor is None:
                    cursor = self.cursors[key] = Cursor(self, key, want)
                else:
                    cursor.name(want)
                self.news[cursor] = None
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                cursor = self.cursors.get((name, index))
                if cursor is not None:
                    self.drop(cursor)

    def told(self, cursor: Cursor, result: FetchResult) -> None:
        """The follower is about to hear this of a partition."""
        partition = cursor.partition
        if result.error_code != ErrorCode.NONE or result.diverging_epoch >= 0 or partition is None:
            # It will come back with another question; until then there is nothing that it could use.
            cursor.told_high_watermark = NO_OFFSET
            self.news.pop(cursor, None)
            return
        cursor.told_high_watermark = result.high_watermark
        cursor.told_log_start_offset = result.log_start_offset
        if result.size_bytes:
            # To the end of the line: until its next question it has news, if only these records again.
            self.news.pop(cursor, None)
            self.news[cursor] = None
        elif cursor.want.fetch_offset >= partition.log.log_end_offset:
            self.news.pop(cursor, None)

    def drop(self, cursor: Cursor) -> None:
        """The partition is no longer fetched in this session."""
        self.cursors.pop(cursor.key, None)
        self.news.pop(cursor, None)
        cursor.detach()

    def supersede(self) -> None:
        """Another session of the follower has a partition of this one: the follower has to name all again."""
        self.is_superseded = True
        self.wake()

    def wait(self, waiting: Waiting) -> None:
        """A fetch of this session waits for records."""
        self.waiting = waiting

    def end_wait(self, waiting: Waiting) -> None:
        """The fetch does not wait any more; a newer one may."""
        if self.waiting is waiting:
            self.waiting = None

    def wake(self) -> None:
        """Let the fetch that waits answer with what there is."""
        if self.waiting is not None:
            self.waiting.wake()

    def expect(self) -> None:
        """The follower is about to come with another partition."""
        self._patience_ms = FIRST_PATIENCE_MS
        self.wake()

    def wait_ms(self, asked_ms: int) -> int:
        """How long a fetch may wait."""
        allowed_ms = self._patience_ms
        self._patience_ms = min(2 * allowed_ms, _UNLIMITED_MS)
        return min(asked_ms, allowed_ms)

    def lost(self) -> None:
        """The connection died in the middle of a fetch: do not wait for this follower to join an ISR."""
        for cursor in self.cursors.values():
            if cursor.partition is not None:
                cursor.partition.step(FollowerLost(self.replica_id), self.last_fetch_ms)

    def close(self) -> None:
        """Forget all of it."""
        for cursor in self.cursors.values():
            cursor.detach()
        self.cursors.clear()
        self.news.clear()
        self.wake()


class FollowerSessions:
    """The sessions of all followers of this broker. `new_session_id` draws a random positive int32."""

    def __init__(self, new_session_id: Callable[[], int], now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._new_session_id = new_session_id
        self._now_ms = now_ms
        self._sessions: dict[int, FollowerSession] = {}
        self._deadlines: Deadlines[Waiting] | None = None
        # Of what goes to replicas that partitions are being moved to (leader.replication.throttled.rate).
        self.throttle = Throttle(UNLIMITED, now_ms)

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(
        self, request: FetchRequest, replica_id: int, broker_epoch: int, uses_topic_ids: bool
    ) -> FollowerSession | ErrorCode:
        """The session of a request, brought up to date; or why it cannot be used."""
        now_ms = self._now_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            session = self._begun(request, replica_id, broker_epoch, now_ms)
        else:
            found = self._sessions.get(request.session_id)
            if found is None or found.replica_id != replica_id or found.broker_epoch != broker_epoch:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if found.is_superseded:
                self._close([found])
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if found.epoch != request.session_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            session = found
            session.epoch = next_epoch(session.epoch)
            session.wake()
        session.last_fetch_ms = now_ms
        session.update(request, uses_topic_ids)
        return session

    def expect(self, replica_ids: Collection[int]) -> None:
        """These brokers are about to follow this one in more partitions than before."""
        for session in self._sessions.values():
            if session.replica_id in replica_ids:
                session.expect()

    def wake_later(self, waiting: Waiting, wait_ms: int) -> None:
        """Wake a fetch after this time, unless it is forgotten before."""
        loop = asyncio.get_running_loop()
        if self._deadlines is None:
            self._deadlines = Deadlines(loop, _wake)
        self._deadlines.add(waiting, loop.time() + wait_ms / 1000)

    def forget(self, waiting: Waiting) -> None:
        """The fetch does not wait any more."""
        if self._deadlines is not None:
            self._deadlines.discard(waiting)

    def expire(self) -> None:
        """Forget unused sessions."""
        oldest_ms = self._now_ms() - IDLE_MS
        self._close(s for s in self._sessions.values() if s.last_fetch_ms < oldest_ms and s.waiting is None)

    def _begun(
        self, request: FetchRequest, replica_id: int, broker_epoch: int, now_ms: int
    ) -> FollowerSession:
        """A new session.

        The session it replaces ends, those of the broker's earlier starts, and unused ones.
        """
        self.expire()
        self._close(
            session
            for session in self._sessions.values()
            if session.replica_id == replica_id
            and (session.session_id == request.session_id or session.broker_epoch < broker_epoch)
        )
        if request.session_epoch == FINAL_EPOCH:
            return FollowerSession(NO_SESSION_ID, replica_id, broker_epoch, now_ms)
        session_id = NO_SESSION_ID
        while session_id == NO_SESSION_ID or session_id in self._sessions:
            session_id = self._new_session_id()
        session = self._sessions[session_id] = FollowerSession(session_id, replica_id, broker_epoch, now_ms)
        return session

    def _close(self, sessions: Iterable[FollowerSession]) -> None:
        for session in list(sessions):
            del self._sessions[session.session_id]
            session.close()


def _wake(waiting: Waiting) -> None:
    waiting.wake()
