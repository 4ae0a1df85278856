"""A leader: it tracks how far its followers are, commits, and answers their fetches.

The high watermark is the offset that a majority of voters has flushed, once that is above the record with
which this epoch began: a record of an older epoch is not committed by being counted, for a leader that never
saw it may still win (Raft, section 5.4.2). From then on everything below is.

A leader whom no majority has asked for anything within the fetch timeout resigns: there may be another by
now, and what it would answer may be stale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET, EpochEnd
from ottla.protocol.codec import ZERO_UUID
from ottla.raft.events import (
    AppendLeaderChange,
    AppendVoters,
    LeadershipEstablished,
    ReplyRecords,
    ReplySnapshot,
)
from ottla.raft.log_view import judge_fetch
from ottla.raft.messages import (
    BeginEpoch,
    Endpoint,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    SnapshotId,
)
from ottla.raft.node import NEVER, Node
from ottla.raft.voters import VoterSet


@dataclass(slots=True)
class Progress:
    """One replica as the leader sees it. Times are the leader's."""

    directory_id: UUID
    offset: int
    fetched_at_ms: int
    caught_up_at_ms: int | None = None
    is_proven: bool = False

    def fetched(self, now_ms: int) -> None:
        """The replica asked for records or for a piece of a snapshot."""
        self.fetched_at_ms = now_ms

    def identified(self, directory_id: UUID, now_ms: int, *, is_proven: bool) -> None:
        """The replica asked for records, and said which directory its log is in, and whether it remembers."""
        if directory_id != self.directory_id:
            self.caught_up_at_ms = None
        self.directory_id = directory_id
        self.is_proven = is_proven
        self.fetched_at_ms = now_ms

    def caught_up(self, now_ms: int) -> None:
        """The replica has all of the leader's log."""
        self.caught_up_at_ms = now_ms

    def advance(self, offset: int) -> bool:
        """The replica has everything below an offset; False if that was known."""
        if offset <= self.offset:
            return False
        self.offset = offset
        return True


class Parked(NamedTuple):
    """A fetch that waits for something to answer."""

    ticket: Any
    fetch: Fetch
    deadline_ms: int


class Leadership:
    """One epoch's worth; `begin` starts over."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.epoch_start_offset = 0
        self.is_established = False
        self.voters: dict[int, Progress] = {}  # the other voters
        self.observers: dict[int, Progress] = {}  # and voters that cannot vote
        self._parked: list[Parked] = []
        self._begin_at_ms = NEVER
        self._begin_pause_ms = 0
        self._marked_at_ms = 0
        self._granting: tuple[int, ...] = ()
        self._voter_set = node.voters  # that `voters` has the other members of

    def begin(self, granting: set[int]) -> None:
        """The epoch begins with a record of its own."""
        node = self._node
        self.epoch_start_offset = node.log.log_end_offset
        self.is_established = False
        self._voter_set = node.voters
        self.voters = {
            voter: Progress(ZERO_UUID, NO_OFFSET, node.now_ms) for voter in node.voters.others(node.node_id)
        }
        self.observers = {}
        self._begin_at_ms = self._marked_at_ms = node.now_ms
        self._begin_pause_ms = node.settings.first_begin_interval_ms
        self._granting = tuple(sorted(granting))
        self._append_leader_change()

    def end(self) -> list[Any]:
        """The tickets of requests that wait in vain."""
        tickets = [parked.ticket for parked in self._parked]
        self._parked = []
        return tickets

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        by_offset = sorted(self.voters.items(), key=lambda item: (-item[1].offset, item[0]))
        return tuple(ReplicaKey(voter, progress.directory_id) for voter, progress in by_offset)

    # ---- fetches

    def fetch(self, ticket: Any, fetch: Fetch) -> None:
        """Answer a fetch of this epoch, now or when there is something to say."""
        node = self._node
        progress = self._contacted(fetch)
        verdict = judge_fetch(node.log, fetch.fetch_offset, fetch.last_fetched_epoch)
        if verdict is not None:
            node.reply(ticket, self._redirection(verdict))
            return
        self._advance(progress, fetch.fetch_offset)
        self._answer_older(fetch)
        self._prove(fetch)
        parked = Parked(ticket, fetch, node.now_ms + fetch.max_wait_ms)
        if self._has_news(fetch) or fetch.max_wait_ms <= 0:
            self._reply_records(parked)
        else:
            self._parked.append(parked)

    def fetch_snapshot(self, ticket: Any, fetch: FetchSnapshot) -> None:
        """Have a piece of the snapshot read."""
        node = self._node
        progress = self.voters.get(fetch.replica.node_id)
        if progress is not None and progress.directory_id == fetch.replica.directory_id:
            progress.fetched(node.now_ms)
        if fetch.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
            node.reply(ticket, FetchSnapshotAnswer(error, node.epoch, node.node_id, fetch.snapshot_id))
            return
        max_bytes = min(fetch.max_bytes, node.settings.snapshot_chunk_bytes)
        node.reply_from_disk(
            ReplySnapshot(ticket, node.epoch, node.node_id, fetch.snapshot_id, fetch.position, max_bytes)
        )

    def _contacted(self, fetch: Fetch) -> Progress:
        """The replica that asks. A voter that cannot vote is an observer: it must not help to commit."""
        node_id, directory_id = fetch.replica
        votes = fetch.is_proven and node_id in self.voters and self._node.voters.has(fetch.replica)
        known = self.voters if votes else self.observers
        progress = known.setdefault(node_id, Progress(directory_id, NO_OFFSET, self._node.now_ms))
        progress.identified(directory_id, self._node.now_ms, is_proven=fetch.is_proven)
        return progress

    def _advance(self, progress: Progress, offset: int) -> None:
        if offset >= self._node.log.log_end_offset:
            progress.caught_up(self._node.now_ms)
        if progress.advance(offset):
            self.commit()

    def _has_news(self, fetch: Fetch) -> bool:
        node = self._node
        return fetch.fetch_offset < node.log.log_end_offset or fetch.high_watermark < node.high_watermark

    def _answer_older(self, fetch: Fetch) -> None:
        """Answer the older request of a follower that asks again: it has given up on it, but its connection
        waits.
        """
        self._wake(lambda parked: parked.fetch.replica == fetch.replica)

    def _prove(self, fetch: Fetch) -> None:
        """Give a voter that lost its memory a record that is newer than its return (see `vote_recovery`)."""
        node = self._node
        if fetch.is_proven or not node.voters.has(fetch.replica) or node.is_writing:
            return
        is_idle = fetch.fetch_offset == node.log.log_end_offset == node.high_watermark
        if is_idle and node.now_ms >= self._marked_at_ms:
            self._marked_at_ms = node.now_ms + node.settings.quorum.retry_backoff_ms
            self._append_leader_change()

    # ---- commits

    def log_changed(self) -> None:
        """There is more to fetch."""
        end = self._node.log.log_end_offset
        self._wake(lambda parked: parked.fetch.fetch_offset < end)

    def change_voters(self, voters: VoterSet) -> None:
        """Have the record appended that makes these the voters."""
        self._node.change_log(AppendVoters(self._node.epoch, voters))

    def take_voters(self) -> None:
        """Track the voters that the log names now. What a new one has fetched so far counts when it says so
        again.
        """
        node = self._node
        if node.voters is self._voter_set:
            return
        self._voter_set = node.voters
        before, self.voters = self.voters, {}
        for voter in node.voters.others(node.node_id):
            self.observers.pop(voter, None)
            self.voters[voter] = (
                before.pop(voter) if voter in before else Progress(ZERO_UUID, NO_OFFSET, node.now_ms)
            )
        # A node whose disk was lost fetches from another directory already: that is the observer, and not the
        # voter that it was.
        heard_ms = node.now_ms - node.settings.quorum.fetch_timeout_ms
        removed = {voter: seen for voter, seen in before.items() if seen.fetched_at_ms > heard_ms}
        self.observers = removed | self.observers
        self.commit()

    @property
    def is_removed(self) -> bool:
        """Whether the quorum has agreed that this leader is no voter any more."""
        logged = self._node.log.voters
        return (
            not self._node.is_voter and logged is not None and logged.end_offset <= self._node.high_watermark
        )

    def commit(self) -> None:
        """Raise the high watermark as far as a majority has come."""
        node = self._node
        offsets = {voter: progress.offset for voter, progress in self.voters.items()}
        offsets[node.node_id] = node.log.flushed_offset
        offset = node.voters.reached_by_majority(offsets)
        if offset <= self.epoch_start_offset or not node.raise_high_watermark(offset):
            return
        if not self.is_established:
            self.is_established = True
            node.emit(LeadershipEstablished(node.epoch))
        self._wake(lambda parked: parked.fetch.high_watermark < offset)

    # ---- time

    def is_cut_off(self) -> bool:
        """Whether no majority has been heard of within the fetch timeout."""
        return self._node.now_ms >= self._quorum_lost_at_ms()

    def announce(self) -> None:
        """Announce the leader to the voters that do not fetch."""
        node = self._node
        if node.now_ms < self._begin_at_ms:
            return
        self._begin_at_ms = node.now_ms + self._begin_pause_ms
        self._begin_pause_ms = min(2 * self._begin_pause_ms, node.settings.begin_interval_ms)
        silent_since_ms = node.now_ms - node.settings.begin_interval_ms
        for voter, progress in self.voters.items():
            if progress.fetched_at_ms <= silent_since_ms or progress.offset == NO_OFFSET:
                node.send(voter, BeginEpoch(voter, node.epoch, node.node_id, self._endpoints()))

    def answer_due(self) -> None:
        """Answer the fetches that have waited long enough; forget the observers that are gone."""
        now_ms = self._node.now_ms
        self._wake(lambda parked: parked.deadline_ms <= now_ms)
        gone_ms = now_ms - self._node.settings.observer_session_ms
        self.observers = {node: seen for node, seen in self.observers.items() if seen.fetched_at_ms > gone_ms}

    @property
    def next_deadline_ms(self) -> int:
        parked_ms = min((parked.deadline_ms for parked in self._parked), default=NEVER)
        return min(parked_ms, self._begin_at_ms if self.voters else NEVER, self._quorum_lost_at_ms())

    def _quorum_lost_at_ms(self) -> int:
        others_needed = self._node.voters.majority - self._node.is_voter
        if not others_needed:
            return NEVER
        latest_first = sorted((progress.fetched_at_ms for progress in self.voters.values()), reverse=True)
        return latest_first[others_needed - 1] + self._node.settings.quorum.fetch_timeout_ms

    def _endpoints(self) -> tuple[Endpoint, ...]:
        own = self._node.voters.node(self._node.node_id)
        return () if own is None else own.endpoints

    # ---- answers

    def _wake(self, is_due: Callable[[Parked], bool]) -> None:
        due = [parked for parked in self._parked if is_due(parked)]
        if due:
            self._parked = [parked for parked in self._parked if not is_due(parked)]
            for parked in due:
                self._reply_records(parked)

    def _reply_records(self, parked: Parked) -> None:
        node, fetch = self._node, parked.fetch
        answer = FetchAnswer(
            ErrorCode.NONE, node.epoch, node.node_id, node.high_watermark, node.log.log_start_offset
        )
        max_bytes = min(fetch.max_bytes, node.settings.fetch_max_bytes)
        node.reply_from_disk(ReplyRecords(parked.ticket, answer, fetch.fetch_offset, max_bytes))

    def _redirection(self, verdict: EpochEnd | SnapshotId) -> FetchAnswer:
        node = self._node
        return FetchAnswer(
            ErrorCode.NONE,
            node.epoch,
            node.node_id,
            node.high_watermark,
            node.log.log_start_offset,
            diverging=verdict if isinstance(verdict, EpochEnd) else None,
            snapshot_id=verdict if isinstance(verdict, SnapshotId) else None,
        )

    def _append_leader_change(self) -> None:
        node = self._node
        voters = tuple(sorted(node.voters.ids))
        node.change_log(AppendLeaderChange(node.epoch, node.node_id, voters, self._granting))
