"""A member of the metadata quorum: carries out what the raft machine asks for, over the log, the disk and
other nodes.

It keeps to the rules at the top of `ottla.raft.events`. Votes and flushes run in one thread of their own, in
order; what others are asked goes through `Peers`, fetches on a connection of their own, because they wait at
the leader. A voter whose disk remembers nothing asks the others whether the quorum is new before it votes
(`quorum_founding`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.protocol.apis import api_of
from ottla.protocol.declaration import declaration_of
from ottla.raft import events
from ottla.raft.events import Effect, Event
from ottla.raft.messages import Answer, BeginEpoch, Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer
from ottla.raft.quorum_state import QuorumState
from ottla.raft.replica import RaftReplica
from ottla.raft.voters import VoterSet
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.ordered_set import OrderedSet
from ottla.runtime.runtime import Runtime
from ottla.server.quorum.fetched_snapshot import FetchedSnapshot
from ottla.server.quorum.founding import Founding
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.state_file import QuorumStateFile
from ottla.server.quorum.tenant import Quorate, Tenant
from ottla.server.quorum.vote_writer import VoteWriter

if TYPE_CHECKING:
    from ottla.protocol.messages.quorum import DescribeQuorumResponse

logger = logging.getLogger(__name__)

VOTES: Final = "quorum"
FETCHES: Final = "quorum-fetch"
_FAREWELL_S: Final = 0.1
_COMPLAINT_S: Final = 5.0
_OTHER_CLUSTER: Final = (
    "Node {} is of another cluster than this node, whose directory is of the cluster {}: give all nodes the same "
    "ottla.cluster.id, and this one an empty directory."
)
# A full disk is not asked again at once, nor the leader for the same records; well below the fetch timeout.
_REFUSED_APPEND_PAUSE_S: Final = 0.3
_CHANGE_LOG: Final = (
    events.AppendLeaderChange,
    events.AppendVoters,
    events.AppendRecords,
    events.TruncateTo,
    events.ResetLog,
)


# What a leader whose disk failed still does: nothing of it needs the disk.
_FAREWELL: Final = (events.Send, events.Reply, events.LeaderChanged)


class QuorumMember:
    """The shell of one `RaftReplica`. `start` once, `stop` once."""

    def __init__(
        self, quorum: Quorate, log: MetadataLog, file: QuorumStateFile, peers: Peers, runtime: Runtime
    ) -> None:
        self._quorum = quorum
        self._random = runtime.random
        self._log = log
        self._file = file
        self._peers = peers
        memory = file.read() if quorum.is_controller else None
        self._replica = self._new_replica(memory)
        is_question = memory is None and self.is_voter and (self.is_alone or log.log_end_offset == 0)
        self._founding = Founding(quorum.identity.node_id, quorum.voters) if is_question else None
        self._tenant: Tenant | None = None
        self._tickets: OrderedSet[asyncio.Future[Answer]] = OrderedSet()
        self._thread = runtime.threads.pool(1, "ottla-metadata")
        self._votes = VoteWriter(file, self._thread, self._refuse_tickets, is_alone=self.is_alone)
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._writing: OrderedSet[asyncio.Task[None]] = OrderedSet()  # of them, those that wait for the disk
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._fetched = FetchedSnapshot(log.snapshots)
        self._complain_at = 0.0
        self._is_append_refused = False
        self._has_failed = False
        self._is_stopped = False
        self._do: dict[type[Any], Callable[[Any], None]] = {
            events.PersistVote: self._persist_vote,
            events.Send: self._send,
            events.Reply: lambda effect: self._answer(effect.ticket, effect.answer),
            events.ReplyRecords: self._reply_records,
            events.ReplySnapshot: self._reply_snapshot,
            events.AppendLeaderChange: self._append_control,
            events.AppendVoters: self._append_control,
            events.AppendRecords: self._append_records,
            events.TruncateTo: lambda effect: log.truncate_to(effect.offset),
            events.Flush: lambda effect: self._write(self._flush()),
            events.WriteSnapshot: lambda effect: self._fetched.add(effect.position, effect.data),
            events.FinishSnapshot: self._finish_snapshot,
            events.ResetLog: self._reset_log,
            events.HighWatermarkAdvanced: lambda effect: self._told.committed(effect.high_watermark),
            events.LeaderChanged: lambda effect: self._told.led_by(effect.leader_id, effect.epoch),
            events.LeadershipEstablished: lambda effect: self._told.established(effect.epoch),
            events.Halt: lambda effect: self._halt(effect.reason),
        }

    # ---- what it is

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self._quorum.identity)

    @property
    def is_alone(self) -> bool:
        """Whether this node is the whole quorum."""
        return self.is_voter and len(self.voters.ids) == 1

    @property
    def replica(self) -> RaftReplica:
        """The machine, for descriptions."""
        return self._replica

    @property
    def is_out_of_room(self) -> bool:
        """Whether the disk has no room for what the quorum decides: this node does not know the latest."""
        return self._log.is_full or self._votes.is_waiting_for_room

    @property
    def voters(self) -> VoterSet:
        """The voters of this moment."""
        return self._replica.voters

    @property
    def unheard_founders(self) -> list[int]:
        """The voters whom a new voter has not heard yet; none if it need not."""
        return [] if self._founding is None else self._founding.unheard

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    def now_ms(self) -> int:
        """The machine's time: it goes on evenly, and has nothing to do with the time of day."""
        return monotonic_ms()

    def describe(self, time_of_day_ms: int) -> DescribeQuorumResponse:
        """The answer to DescribeQuorum. `time_of_day_ms` is what to add to the machine's time."""
        from ottla.raft.description import describe_quorum

        directory_id = self._quorum.identity.directory_id
        return describe_quorum(
            self._replica, self._log.log_end_offset, directory_id, self.now_ms(), time_of_day_ms
        )

    # ---- its life

    def start(self, tenant: Tenant) -> None:
        """Take part. One voter alone has founded, and leads, as soon as its disk lets it."""
        self._tenant = tenant
        self._peers.watch(self._disconnected)
        if self._founding is not None and self._founding.is_proven:
            self._write(self._found())
        else:
            self._step(events.Tick())

    async def leave(self) -> None:
        """Hand the leadership over, stand for election no more, and tell the other voters."""
        if self.is_alone or self._tenant is None:
            return
        before = OrderedSet(self._tasks)
        was_leader = self._replica.is_leader
        self._step(events.Leave())
        if was_leader and (farewells := self._tasks.without(before)):
            await asyncio.wait(farewells, timeout=_FAREWELL_S)

    async def stop(self) -> None:
        """Do nothing any more; what is being written is finished first."""
        self._is_stopped = True
        self._votes.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._tasks.without(self._writing):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    # ---- what it is asked

    def append(self, records: list[Any]) -> int:
        """Append a decision's records, as the leader; their end offset. KafkaError if the disk refuses."""
        if self._has_failed or self._is_stopped:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata log takes no writes any more")
        try:
            end_offset = self._log.append(records, self._replica.epoch)
        except KafkaError as problem:
            self._leader_append_failed(problem)
            raise
        self._step(events.LogChanged())
        return end_offset

    def change_voters(self, voters: VoterSet) -> int:
        """Name other voters, as the leader; the end offset of the record that does."""
        self._step(events.ChangeVoters(voters))
        return self._log.log_end_offset

    async def answer(self, message: Any) -> Any:
        """The answer to another node's question, as Kafka's message."""
        # Messages are imported when the first of them travels: a node that is alone starts faster without.
        from ottla.raft.requests import read_request
        from ottla.raft.responses import response_message

        try:
            request = read_request(message, self._quorum.cluster_id)
        except KafkaError as refused:
            api = api_of(declaration_of(type(message)).key)
            assert api is not None
            return api.response(error_code=refused.code)
        if self._has_failed or self._is_stopped:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "this node takes no part in the quorum any more")
        if isinstance(request, BeginEpoch) and request.endpoints:
            # The leader may be a voter that the log here does not name yet.
            self._peers.learn(request.leader_id, Address(*request.endpoints[0][1:]))
        ticket = asyncio.get_running_loop().create_future()
        self._tickets.add(ticket)
        try:
            self._step(events.Received(ticket, request))
            return response_message(request, await ticket)
        finally:
            self._tickets.discard(ticket)

    # ---- events

    def _step(self, event: Event) -> None:
        if self._is_stopped or self._has_failed:
            return
        effects = self._replica.step(event, self.now_ms())
        try:
            self._carry_out(effects)
        except (OSError, KafkaError) as problem:
            self._fail(problem)
        self._set_alarm()

    def _carry_out(self, effects: list[Effect]) -> None:
        is_changed = self._is_append_refused = False
        for effect in effects:
            self._do[type(effect)](effect)
            is_changed |= type(effect) in _CHANGE_LOG
        if is_changed and not self._is_append_refused:
            self._step(events.LogChanged())

    def _leader_append_failed(self, problem: KafkaError) -> None:
        """A leader whose disk is full resigns. One whose disk fails otherwise halts."""
        if self._log.is_broken or not (self.is_alone or self._log.is_full):
            self._fail(problem)
        elif not self.is_alone:
            logger.error("%s: another voter should be the controller", problem.message)
            self._step(events.LogFull())

    def _set_alarm(self) -> None:
        deadline_ms = self._replica.next_deadline_ms
        if deadline_ms is None or self._is_stopped or self._has_failed:
            return
        if self._alarm is not None:
            if self._alarm_ms <= deadline_ms:
                return
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_at(deadline_ms / 1000 + 0.0005, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._step(events.Tick())

    def _disconnected(self, node_id: int, purpose: str) -> None:
        # The connection to a living leader is never idle; others are closed when they have not been used for
        # long.
        if purpose == FETCHES:
            self._step(events.Disconnected(node_id))

    # ---- what is said

    def _send(self, effect: events.Send) -> None:
        self._in_task(self._ask(effect, self._replica))

    async def _ask(self, effect: events.Send, replica: RaftReplica) -> None:
        from ottla.raft.requests import request_message
        from ottla.raft.responses import read_response

        purpose = FETCHES if isinstance(effect.request, Fetch | FetchSnapshot) else VOTES
        event: Event = events.Unanswered(effect.request_id)
        try:
            message = request_message(effect.request, self._quorum.cluster_id)
            response = await self._peers.ask(
                effect.to, message, purpose=purpose, timeout_ms=effect.timeout_ms
            )
            answer = read_response(response)
            event = events.Answered(effect.request_id, answer)
            self._hear_founder(effect.to, answer)
        except KafkaError as refused:
            self._refused(effect.to, refused)
        except OSError as problem:
            logger.debug("node %d does not answer: %s", effect.to, problem)
        if replica is self._replica:
            self._step(event)

    def _refused(self, node_id: int, refused: KafkaError) -> None:
        """Another node does not count this one among its quorum: that is for a person to put right."""
        if refused.code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            refused = KafkaError(refused.code, _OTHER_CLUSTER.format(node_id, self._quorum.cluster_id))
            if not self.is_voter:
                self._has_failed = True
                self._told.failed(refused)
        now = asyncio.get_running_loop().time()
        if now >= self._complain_at:
            self._complain_at = now + _COMPLAINT_S
            logger.error("node %d refuses a question of the quorum: %s", node_id, refused.message)

    def _reply_records(self, effect: events.ReplyRecords) -> None:
        records = self._log.read(effect.offset, effect.max_bytes)
        self._answer(effect.ticket, replace(effect.answer, records=records))

    def _reply_snapshot(self, effect: events.ReplySnapshot) -> None:
        found = self._log.snapshots.piece(effect.snapshot_id, effect.position, effect.max_bytes)
        error = ErrorCode.NONE
        if found is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif effect.position >= found[0]:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        size, data = found or (0, b"")
        answer = FetchSnapshotAnswer(
            error, effect.epoch, effect.leader_id, effect.snapshot_id, size, effect.position, data
        )
        self._answer(effect.ticket, answer)

    def _answer(self, ticket: asyncio.Future[Answer], answer: Answer) -> None:
        if not ticket.done():
            ticket.set_result(answer)

    # ---- the disk

    def _persist_vote(self, effect: events.PersistVote) -> None:
        self._write(self._vote_persisted(effect))

    async def _vote_persisted(self, effect: events.PersistVote) -> None:
        try:
            if await self._votes.write(effect):
                self._step(events.VotePersisted(effect.number))
        except OSError as problem:
            self._fail(problem)

    async def _flush(self) -> None:
        while (job := self._log.begin_flush()) is None:
            await asyncio.sleep(_REFUSED_APPEND_PAUSE_S)
            if self._is_stopped:
                return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
        except OSError as problem:
            self._log.fail_flush(problem)
            self._fail(problem)
            return
        self._log.complete_flush(job)
        self._step(events.Flushed())

    def _append_control(self, effect: events.AppendLeaderChange | events.AppendVoters) -> None:
        try:
            self._log.append_control(effect)
        except KafkaError as problem:
            if self.is_alone or not self._log.is_full:
                raise
            logger.error("%s: another voter should be the controller", problem.message)
            self._is_append_refused = True
            asyncio.get_running_loop().call_soon(self._step, events.LogFull())

    def _append_records(self, effect: events.AppendRecords) -> None:
        try:
            self._log.append_fetched(effect.records)
        except KafkaError as problem:
            if self._log.is_failing and not self._log.is_full:
                raise
            logger.error("what the leader sent could not be appended: %s", problem)
            self._is_append_refused = True
            refused = events.AppendRefused(is_full=self._log.is_full)
            asyncio.get_running_loop().call_later(_REFUSED_APPEND_PAUSE_S, self._step, refused)

    # ---- snapshots that others have

    def _finish_snapshot(self, effect: events.FinishSnapshot) -> None:
        self._write(self._keep_snapshot(effect, self._fetched.take()))

    async def _keep_snapshot(self, effect: events.FinishSnapshot, content: bytes) -> None:
        is_kept = await self._fetched.keep(effect.snapshot_id, content)
        attempt = effect.attempt
        self._step(events.SnapshotReady(attempt) if is_kept else events.SnapshotRefused(attempt))

    def _reset_log(self, effect: events.ResetLog) -> None:
        self._log.snapshots.replace(effect.snapshot_id)
        self._log.begin_at(effect.snapshot_id)
        self._told.load(effect.snapshot_id)

    # ---- founding

    def _hear_founder(self, node_id: int, answer: Answer) -> None:
        founding = self._founding
        if founding is None or not isinstance(answer, FetchAnswer):
            return
        founding.heard(node_id, max(answer.epoch, self._replica.epoch))
        if not founding.is_open:
            self._founding = None
            logger.warning("this voter has no memory of a quorum that exists: it votes when it has caught up")
        elif founding.is_proven:
            self._write(self._found())

    async def _found(self) -> None:
        """Nobody ever voted: begin with an empty memory, once it is written down."""
        self._founding = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.write, QuorumState())
        except OSError as problem:
            self._fail(problem)
            return
        if (self.is_alone or self._replica.epoch == 0) and not self._is_stopped:
            self._replica = self._new_replica(QuorumState())
        self._step(events.Tick())

    def _new_replica(self, memory: QuorumState | None) -> RaftReplica:
        _, identity, voters, _, settings = self._quorum
        return RaftReplica(identity, voters, self._log, memory, settings, self._random.randrange)

    # ---- the end

    @property
    def _told(self) -> Tenant:
        assert self._tenant is not None
        return self._tenant

    def _fail(self, problem: Exception) -> None:
        """The disk failed: what is on it is unknown, so nothing more is said or done here."""
        if self._has_failed:
            return
        self._has_failed = True
        self._resign()
        text = problem.message if isinstance(problem, KafkaError) else getattr(problem, "strerror", None)
        is_damaged = isinstance(problem, KafkaError) and problem.code is ErrorCode.CORRUPT_MESSAGE
        done = "read" if is_damaged else "made durable"
        reason = f"the metadata could not be {done}: {text or problem}"
        logger.error("%s", reason)
        self._refuse_tickets()
        self._told.failed(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason))

    def _resign(self) -> None:
        """Tell the other voters that this one leads no more. They would find out; so they need not wait."""
        if self._replica.is_leader and not self.is_alone:
            for effect in self._replica.step(events.Leave(), self.now_ms()):
                if isinstance(effect, _FAREWELL):
                    self._do[type(effect)](effect)

    def _halt(self, reason: str) -> None:
        self._has_failed = True
        self._refuse_tickets()
        self._told.halted(reason)

    def _refuse_tickets(self) -> None:
        """A waiting caller gets a closed connection rather than no answer: it looks for another leader at
        once.
        """
        for ticket in self._tickets:
            if not ticket.done():
                ticket.set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata log failed"))

    def _write(self, work: Coroutine[Any, Any, None]) -> None:
        self._writing.add(self._in_task(work))

    def _in_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._writing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("the quorum's member failed", exc_info=error)
            self._halt(f"an error in the quorum's member: {error!r}")
