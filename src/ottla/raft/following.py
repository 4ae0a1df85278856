"""A follower: it fetches from the leader, appends, flushes, and fetches again. And the search for a leader.

One request is under way at a time. A voter asks for more when what it has is flushed, for the leader takes
the offset it asks for as durable. Where the logs part it cuts its own, and never below the high watermark.
Where the leader's log begins too late, it fetches a snapshot, piece by piece, and restarts after it.

A node that may not stand for election (an observer, a voter without memory) and knows no leader asks the
voters in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET
from ottla.raft.events import AppendRecords, FinishSnapshot, ResetLog, TruncateTo, WriteSnapshot
from ottla.raft.log_view import truncation_offset
from ottla.raft.messages import Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer, SnapshotId
from ottla.raft.node import NEVER, Node, State
from ottla.raft.vote_recovery import Proof


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot on its way."""

    attempt: int
    snapshot_id: SnapshotId
    position: int = 0
    is_whole: bool = False  # all pieces are written; it is being checked and flushed

    def written(self, count_bytes: int, size_bytes: int) -> bool:
        """A piece of the snapshot's `size_bytes` is being written; whether that was the last one."""
        self.position += count_bytes
        self.is_whole = self.position >= size_bytes
        return self.is_whole


class Following:
    """The fetches of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._proof = Proof(node)
        self.deadline_ms = NEVER  # the leader is lost then
        self.has_fetched = False
        self._request_id = 0
        self._retry_at_ms = 0
        self._high_watermark = NO_OFFSET  # the leader's, as of the last answer that our log agreed with
        self._snapshot: SnapshotFetch | None = None
        self._attempts = 0
        self._turns = 0

    def begin(self) -> None:
        """Follow another leader, or look for one."""
        node = self._node
        self.deadline_ms = NEVER
        if node.state is State.FOLLOWER:
            self._extend_deadline()
        self.has_fetched = False
        self._retry_at_ms = node.now_ms
        self._high_watermark = NO_OFFSET
        self._snapshot = None
        self._proof.begin()

    def leader_disconnected(self) -> None:
        """It is probably dead: wait a little, not the whole timeout."""
        grace_ms = self._node.settings.disconnect_grace_ms
        self.deadline_ms = min(self.deadline_ms, self._node.now_ms + grace_ms + self._node.jitter(grace_ms))

    # ---- asking

    @property
    def next_deadline_ms(self) -> int:
        retry_ms = self._retry_at_ms if self._may_fetch() else NEVER
        return min(self.deadline_ms, retry_ms)

    def fetch_if_due(self) -> None:
        """Ask, if nothing stands in the way."""
        node = self._node
        if node.now_ms < self._retry_at_ms or not self._may_fetch():
            return
        to = node.leader_id if node.state is State.FOLLOWER else self._next_voter()
        if to is None:
            self.retry_later()
            return
        if self._snapshot is not None:
            self._request_id = node.send(to, self._snapshot_request(self._snapshot))
            return
        self._request_id = node.send(to, self._request(), node.settings.fetch_max_wait_ms)

    def _may_fetch(self) -> bool:
        node = self._node
        if self._request_id in node.asked or node.is_writing:
            return False
        if self._snapshot is not None and self._snapshot.is_whole:
            return False
        return not node.flushes or node.log.flushed_offset >= node.log.log_end_offset

    def _next_voter(self) -> int | None:
        others = self._node.askable_voters
        self._turns += 1
        return others[self._turns % len(others)] if others else None

    def _request(self) -> Fetch:
        node = self._node
        return Fetch(
            node.identity,
            node.is_proven,
            node.epoch,
            node.log.log_end_offset,
            node.log.last_epoch,
            node.high_watermark,
            node.settings.fetch_max_wait_ms,
            node.settings.fetch_max_bytes,
        )

    def _snapshot_request(self, snapshot: SnapshotFetch) -> FetchSnapshot:
        node = self._node
        return FetchSnapshot(
            node.identity,
            node.epoch,
            snapshot.snapshot_id,
            snapshot.position,
            node.settings.snapshot_chunk_bytes,
        )

    def retry_later(self) -> None:
        """The question was in vain."""
        self._retry_at_ms = self._node.now_ms + self._node.settings.quorum.retry_backoff_ms

    # ---- answers of the leader, in this epoch

    def fetched(self, fetch: Fetch, answer: FetchAnswer) -> None:
        """Do what the leader's answer asks for."""
        node = self._node
        if fetch.fetch_offset != node.log.log_end_offset:
            return  # the log moved since: ask again
        self._heard()
        if answer.diverging is not None:
            self._truncate(truncation_offset(node.log, answer.diverging))
        elif answer.snapshot_id is not None:
            self._attempts += 1
            self._snapshot = SnapshotFetch(self._attempts, answer.snapshot_id)
        else:
            self._high_watermark = answer.high_watermark
            if answer.records:
                node.change_log(AppendRecords(answer.records))
            else:
                self.log_changed()
            self._proof.fetched(fetch.fetch_offset, answer.high_watermark, is_empty=not answer.records)

    def snapshot_fetched(self, fetch: FetchSnapshot, answer: FetchSnapshotAnswer) -> None:
        """Write a piece down."""
        snapshot = self._snapshot
        if snapshot is None or (fetch.snapshot_id, fetch.position) != (
            snapshot.snapshot_id,
            snapshot.position,
        ):
            return
        if answer.error is not ErrorCode.NONE or answer.position != snapshot.position or not answer.data:
            self._give_snapshot_up()  # the leader has a newer one by now, perhaps
            return
        self._heard()
        node = self._node
        node.emit(WriteSnapshot(snapshot.attempt, snapshot.snapshot_id, snapshot.position, answer.data))
        if snapshot.written(len(answer.data), answer.size_bytes):
            node.emit(FinishSnapshot(snapshot.attempt, snapshot.snapshot_id))

    def snapshot_ready(self, attempt: int) -> None:
        """Start over behind the snapshot, if that is still wanted."""
        snapshot, node = self._snapshot, self._node
        if snapshot is None or snapshot.attempt != attempt or node.state is not State.FOLLOWER:
            return
        self._snapshot = None
        if snapshot.snapshot_id.end_offset < node.high_watermark:
            self.retry_later()
            return
        self._high_watermark = snapshot.snapshot_id.end_offset
        node.change_log(ResetLog(snapshot.snapshot_id))

    def snapshot_refused(self, attempt: int) -> None:
        """It came broken: fetch it again."""
        if self._snapshot is not None and self._snapshot.attempt == attempt:
            self._give_snapshot_up()

    # ---- the log

    def log_changed(self) -> None:
        """Records that the leader has committed and that are in this log are committed here."""
        node = self._node
        node.raise_high_watermark(min(self._high_watermark, node.log.log_end_offset))
        self._proof.check()

    def flushed(self) -> None:
        self._proof.check()

    def _truncate(self, offset: int) -> None:
        node = self._node
        if offset < node.high_watermark:
            node.halt(
                f"the leader {node.leader_id} of epoch {node.epoch} wants the log cut at {offset}, "
                f"but everything below {node.high_watermark} is committed"
            )
            return
        if offset >= node.log.log_end_offset:
            self.retry_later()  # there is nothing to cut: whatever the leader means, do not storm it
            return
        node.change_log(TruncateTo(offset))

    def _give_snapshot_up(self) -> None:
        self._snapshot = None
        self.retry_later()

    def _heard(self) -> None:
        self.has_fetched = True
        self._extend_deadline()

    def _extend_deadline(self) -> None:
        """All followers heard the leader last at the same time; they should not lose it at the same time."""
        node = self._node
        spread_ms = node.settings.election_spread_ms
        self.deadline_ms = node.now_ms + node.settings.quorum.fetch_timeout_ms + node.jitter(spread_ms)
