"""A driver of the Raft machine: it carries out the machine's effects on a model of a disk and a network.

It keeps to the rules of `ottla.raft.events`, and to nothing more: flushes and votes take as long as they like, and the process
may die between any two effects, or stand still while its messages pile up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from tests.quorum.checks import Checks, require
from tests.quorum.cluster import US_PER_MS, Clock, Cluster
from tests.quorum.model_disk import (
    Entry,
    Meanings,
    RaftDisk,
    digest_in,
    next_digest,
    snapshot_content,
)

from ottla.errors import ErrorCode
from ottla.raft.events import (
    Answered,
    AppendLeaderChange,
    AppendRecords,
    AppendVoters,
    ChangeVoters,
    Disconnected,
    Effect,
    Event,
    FinishSnapshot,
    Flush,
    Flushed,
    Halt,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipEstablished,
    LogChanged,
    PersistVote,
    Received,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    ResetLog,
    Send,
    SnapshotReady,
    SnapshotRefused,
    Tick,
    TruncateTo,
    Unanswered,
    VotePersisted,
    WriteSnapshot,
)
from ottla.raft.messages import (
    Answer,
    FetchSnapshotAnswer,
    ReplicaKey,
    Request,
    SnapshotId,
    Vote,
    VoteAnswer,
)
from ottla.raft.replica import RaftReplica
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet

# What a message is after it travelled: itself, or what the codec makes of it. An answer comes with its question.
Convey = Callable[[Any, Any], Any]
Trace = Callable[[int, str, Any], None]


class Ticket(NamedTuple):
    """Who waits for an answer: a request of one life of a node."""

    sender: RaftMember
    life: int
    request_id: int
    request: Request


@dataclass(slots=True)
class World:
    """What the members of one quorum share."""

    cluster: Cluster
    voters: VoterSet
    settings: RaftSettings
    checks: Checks
    members: dict[int, RaftMember]
    convey: Convey
    flush_us: tuple[int, int] = (100, 5_000)
    persist_us: tuple[int, int] = (100, 5_000)
    death_share: float = 0.0  # of effects before which the process dies
    power_loss_share: float = 0.5  # of those deaths
    trim_share: float = 0.0  # of commits after which the log is cut behind a snapshot
    trace: Trace | None = None
    meanings: Meanings = field(default_factory=Meanings)
    standbys: frozenset[int] = frozenset()  # nodes that may be made voters

    def disks_of(self, voters: VoterSet) -> list[RaftDisk]:
        return [self.members[voter].disk for voter in voters.ids]


class RaftMember:
    """A node: a disk that outlives it, and a machine that does not."""

    def __init__(self, world: World, node_id: int, clock: Clock, disk: RaftDisk) -> None:
        self.world = world
        self.node_id = node_id
        self.clock = clock
        self.disk = disk
        self.replica: RaftReplica | None = None
        self.life = 0
        self.has_power = True
        self.waiting: list[Event] | None = None  # while the process stands still
        self.applied_offset = 0
        self.spoken_epoch = 0  # the newest that others heard of from this disk while it could vote
        self._digest = 0
        self._alarm_us: int | None = None
        self._persisted_us = 0
        self._chunks = b""
        self._do: dict[type[Any], Callable[[Any], None]] = {
            PersistVote: self._persist_vote,
            Send: self._send,
            Reply: self._reply,
            ReplyRecords: self._reply_records,
            ReplySnapshot: self._reply_snapshot,
            AppendLeaderChange: self._append_leader_change,
            AppendVoters: self._append_voters,
            AppendRecords: self._append_records,
            TruncateTo: self._truncate_to,
            Flush: self._flush,
            WriteSnapshot: self._write_snapshot,
            FinishSnapshot: self._finish_snapshot,
            ResetLog: self._reset_log,
            HighWatermarkAdvanced: self._high_watermark_advanced,
            LeaderChanged: self._leader_changed,
            LeadershipEstablished: self._leader_changed,
            Halt: self._halt,
        }

    # ---- its life

    @property
    def identity(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.disk.directory_id)

    @property
    def is_controller(self) -> bool:
        """Whether it votes, or may be made a voter."""
        return self.node_id in self.world.voters or self.node_id in self.world.standbys

    @property
    def voters(self) -> VoterSet:
        """The voters as its log names them."""
        logged = self.disk.log.voters
        return self.world.voters if logged is None else logged.voters

    @property
    def running(self) -> RaftReplica | None:
        """The machine, if the process is there and not standing still."""
        return self.replica if self.waiting is None else None

    def start(self) -> None:
        if self.replica is not None:
            return
        self.life += 1
        self.disk.recover()
        memory = self.disk.memory if self.is_controller else None
        draw = self.world.cluster.random.randrange
        self.replica = RaftReplica(
            self.identity, self.world.voters, self.disk.log, memory, self.world.settings, draw
        )
        if memory is not None:
            require(
                self.replica.epoch >= self.spoken_epoch,
                f"{self.node_id} spoke of epoch {self.spoken_epoch} and is back in {self.replica.epoch}",
            )
        self._alarm_us = None
        self._digest = self.disk.digest_at_start()
        self.applied_offset = self.disk.log.log_start_offset
        self._step(Tick())

    def stop(self, *, is_power_loss: bool) -> None:
        """The process dies; with the power, what was not flushed is lost too."""
        if self.replica is None:
            return
        self.replica = self.waiting = None
        self.has_power = not is_power_loss
        self.life += 1
        if is_power_loss:
            self.disk.crash(self.world.cluster.random)
        else:
            self.disk.settle()

    def lose_disk(self, new_disk: RaftDisk) -> None:
        """The process dies, and its disk with it."""
        self.stop(is_power_loss=False)
        self.disk = new_disk
        self.spoken_epoch = 0

    def pause(self) -> None:
        if self.replica is not None and self.waiting is None:
            self.waiting = []

    def resume(self) -> None:
        waiting, self.waiting = self.waiting, None
        for event in (Tick(), *(waiting or ())):
            self.hear(event)

    # ---- events

    def hear(self, event: Event) -> None:
        if self.waiting is not None:
            self.waiting.append(event)
        elif self.replica is not None:
            self._step(event)

    def propose(self, values: list[int]) -> None:
        """Append, as the shell of a leader does with what it is asked to commit."""
        assert self.replica is not None
        assert self.replica.is_leader
        for value in values:
            self._append(Entry(self.replica.epoch, value))
        self._step(LogChanged())

    def change_voters(self, voters: VoterSet) -> None:
        """As the shell of a leader does when an administrator adds or removes a voter."""
        self._step(ChangeVoters(voters))

    def take_snapshot(self, *, trims: bool) -> None:
        """Write down what is applied; perhaps forget the records behind it."""
        log = self.disk.log
        if self.replica is None or self.applied_offset <= log.log_start_offset:
            return
        snapshot_id = SnapshotId(self.applied_offset, log.epoch_before(self.applied_offset))
        named = log.voters_at(self.applied_offset)
        if named is not None:
            self.world.meanings.of_snapshot[snapshot_id] = named
        self.disk.keep(snapshot_id, snapshot_content(snapshot_id, self._digest))
        if trims:
            log.advance_start(snapshot_id)

    def _step(self, event: Event) -> None:
        replica = self.replica
        assert replica is not None
        epoch, high_watermark, was_leader = replica.epoch, replica.high_watermark, replica.is_leader
        if self.world.trace is not None:
            self.world.trace(self.node_id, replica.state.name, event)
        effects = replica.step(event, self.clock.now_ms)
        require(replica.epoch >= epoch, f"the epoch of {self.node_id} goes back to {replica.epoch}")
        require(replica.high_watermark >= high_watermark, f"the watermark of {self.node_id} goes back")
        if replica.is_leader and not was_leader:
            self.world.checks.led(self.node_id, self.life, replica.epoch, self.disk.log)
        if effects:
            self._carry_out(effects)
        if self.replica is replica:
            self._set_alarm(replica)

    def _carry_out(self, effects: list[Effect]) -> None:
        life, world = self.life, self.world
        is_changed = False
        for effect in effects:
            if world.death_share and world.cluster.random.random() < world.death_share:
                self.stop(is_power_loss=world.cluster.random.random() < world.power_loss_share)
            if self.life != life:
                return
            kind = type(effect)
            if world.trace is not None:
                world.trace(self.node_id, "->", effect)
            self._do[kind](effect)
            is_changed |= kind in _CHANGE_LOG
        if is_changed and self.life == life:
            self._step(LogChanged())

    def _set_alarm(self, replica: RaftReplica) -> None:
        deadline_ms = replica.next_deadline_ms
        if deadline_ms is None:
            return
        time_us = self.clock.time_us(deadline_ms)
        if self._alarm_us is None or time_us < self._alarm_us:
            self._alarm_us = time_us
            self.world.cluster.schedule.at(time_us, partial(self._alarm, self.life, time_us))

    def _alarm(self, life: int, time_us: int) -> None:
        if life != self.life or self._alarm_us != time_us or self.replica is None:
            return
        self._alarm_us = None
        if self.waiting is not None:
            return  # it will look at its clock when it goes on
        deadline_ms = self.replica.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self.clock.now_ms:
            self.hear(Tick())
        if self.replica is not None and self.life == life:
            self._set_alarm(self.replica)

    # ---- what is said

    def _send(self, effect: Send) -> None:
        world, life = self.world, self.life
        self._speak(effect.request.epoch)
        if isinstance(effect.request, Vote) and not effect.request.is_pre_vote:
            self._promise(effect.request.epoch, effect.request.candidate)
        other = world.members[effect.to]
        request = world.convey(effect.request, None)
        ticket = Ticket(self, life, effect.request_id, request)
        world.cluster.pass_on(self.node_id, effect.to, partial(other.receive, ticket))
        lost = partial(self.answered, life, Unanswered(effect.request_id))
        world.cluster.schedule.after(effect.timeout_ms * US_PER_MS, lost)

    def receive(self, ticket: Ticket) -> None:
        """A question arrives. Where no process listens, the kernel says so, if there is power."""
        if self.replica is not None:
            self.hear(Received(ticket, ticket.request))
        elif self.has_power:
            refused = partial(ticket.sender.refused, ticket.life, ticket.request_id, self.node_id)
            self.world.cluster.pass_on(self.node_id, ticket.sender.node_id, refused)

    def refused(self, life: int, request_id: int, node_id: int) -> None:
        """A connection is refused."""
        self.answered(life, Unanswered(request_id))
        self.answered(life, Disconnected(node_id))

    def answered(self, life: int, event: Event) -> None:
        """An answer comes, or none will; a process that died meanwhile does not hear of it."""
        if life == self.life:
            self.hear(event)

    def _reply(self, effect: Reply) -> None:
        ticket, answer = effect.ticket, effect.answer
        self._speak(answer.epoch)
        if isinstance(answer, VoteAnswer) and answer.is_granted and not ticket.request.is_pre_vote:
            self._promise(ticket.request.epoch, ticket.request.candidate)
        self._answer(ticket, answer)

    def _answer(self, ticket: Ticket, answer: Answer) -> None:
        event = Answered(ticket.request_id, self.world.convey(answer, ticket.request))
        sender = ticket.sender
        self.world.cluster.pass_on(self.node_id, sender.node_id, partial(sender.answered, ticket.life, event))

    def _reply_records(self, effect: ReplyRecords) -> None:
        self._speak(effect.answer.epoch)
        records = self.disk.log.read(effect.offset, effect.max_bytes)
        self._answer(effect.ticket, replace(effect.answer, records=records))

    def _reply_snapshot(self, effect: ReplySnapshot) -> None:
        self._speak(effect.epoch)
        content = self.disk.snapshots.get(effect.snapshot_id)
        error = ErrorCode.NONE if content is not None else ErrorCode.SNAPSHOT_NOT_FOUND
        data = (content or b"")[effect.position : effect.position + effect.max_bytes]
        answer = FetchSnapshotAnswer(
            error,
            effect.epoch,
            effect.leader_id,
            effect.snapshot_id,
            len(content or b""),
            effect.position,
            data,
        )
        self._answer(effect.ticket, answer)

    def _speak(self, epoch: int) -> None:
        """What a voter says it must remember."""
        memory = self.disk.memory
        if memory is not None and self.is_controller:
            require(
                memory.epoch >= epoch, f"{self.node_id} speaks of epoch {epoch} and remembers {memory.epoch}"
            )
            self.spoken_epoch = max(self.spoken_epoch, epoch)

    def _promise(self, epoch: int, candidate: ReplicaKey) -> None:
        self.world.checks.voted(self.identity, epoch, candidate)
        memory = self.disk.memory
        is_kept = memory is not None and (
            memory.epoch > epoch or (memory.epoch, memory.voted) == (epoch, candidate)
        )
        require(is_kept, f"{self.node_id} votes for {candidate} in {epoch} and remembers {memory}")

    # ---- the disk

    def _persist_vote(self, effect: PersistVote) -> None:
        world, disk = self.world, self.disk
        disk.unwritten.append(effect.state)
        now_us = world.cluster.schedule.now_us
        self._persisted_us = max(self._persisted_us, now_us + world.cluster.random.randint(*world.persist_us))
        done = partial(self._vote_persisted, self.life, VotePersisted(effect.number))
        world.cluster.schedule.at(self._persisted_us, done)

    def _vote_persisted(self, life: int, event: VotePersisted) -> None:
        if life == self.life:
            self.disk.memory = self.disk.unwritten.pop(0)
            self.hear(event)

    def _flush(self, effect: Flush) -> None:
        cluster = self.world.cluster
        self.disk.log.begin_flush()
        delay_us = cluster.random.randint(*self.world.flush_us)
        cluster.schedule.after(delay_us, partial(self._flushed, self.life))

    def _flushed(self, life: int) -> None:
        if life == self.life:
            self.disk.log.end_flush()
            self.hear(Flushed())

    def _append_leader_change(self, effect: AppendLeaderChange) -> None:
        # Its value is the time, so that two of one epoch differ.
        self._append(Entry(effect.epoch, -1 - self.world.cluster.schedule.now_us))

    def _append_voters(self, effect: AppendVoters) -> None:
        self._append(Entry(effect.epoch, self.world.meanings.value_for(effect.voters)))

    def _append_records(self, effect: AppendRecords) -> None:
        log = self.disk.log
        next_offset, previous_epoch = log.log_end_offset, log.last_epoch
        for offset, entry in log.entries_of(effect.records):
            require(offset == next_offset, f"{self.node_id} is to append {offset} at {next_offset}")
            self.world.checks.wrote(offset, entry, previous_epoch)
            next_offset, previous_epoch = offset + 1, entry.epoch
        log.append_records(effect.records)

    def _append(self, entry: Entry) -> None:
        log = self.disk.log
        self.world.checks.wrote(log.log_end_offset, entry, log.last_epoch)
        log.append(entry)

    def _truncate_to(self, effect: TruncateTo) -> None:
        log = self.disk.log
        require(
            log.log_start_offset <= effect.offset <= log.log_end_offset,
            f"{self.node_id} is to cut its log at {effect.offset}",
        )
        log.truncate(effect.offset)

    def _write_snapshot(self, effect: WriteSnapshot) -> None:
        if effect.position == 0:
            self._chunks = b""
        self._chunks += bytes(effect.data)

    def _finish_snapshot(self, effect: FinishSnapshot) -> None:
        cluster = self.world.cluster
        delay_us = cluster.random.randint(*self.world.flush_us)
        cluster.schedule.after(delay_us, partial(self._snapshot_finished, self.life, effect, self._chunks))

    def _snapshot_finished(self, life: int, effect: FinishSnapshot, content: bytes) -> None:
        if life != self.life:
            return
        if digest_in(content, effect.snapshot_id) is None:
            self.hear(SnapshotRefused(effect.attempt))
            return
        self.disk.fetched = (effect.snapshot_id, content)
        self.hear(SnapshotReady(effect.attempt))

    def _reset_log(self, effect: ResetLog) -> None:
        assert self.disk.fetched is not None
        snapshot_id, content = self.disk.fetched
        require(snapshot_id == effect.snapshot_id, f"{self.node_id} is to load another snapshot than it has")
        self.disk.install(snapshot_id, content)
        self._digest = self.disk.digest_at_start()
        self.applied_offset = snapshot_id.end_offset
        self.world.checks.applied(self.node_id, self.applied_offset, self._digest)

    def _high_watermark_advanced(self, effect: HighWatermarkAdvanced) -> None:
        log, world, high = self.disk.log, self.world, effect.high_watermark
        now_us = world.cluster.schedule.now_us
        voters = self.voters
        disks = world.disks_of(voters)
        world.checks.advanced(self.applied_offset, high, log, disks, voters.majority, now_us)
        low = self.applied_offset
        for offset in range(low, high):
            entry = log.entry(offset)
            self._digest = next_digest(self._digest, entry.epoch, entry.value)
        self.applied_offset = max(low, high)
        world.checks.applied(self.node_id, self.applied_offset, self._digest)
        if world.trim_share and world.cluster.random.random() < world.trim_share:
            self.take_snapshot(trims=True)

    def _leader_changed(self, effect: LeaderChanged | LeadershipEstablished) -> None:
        """The checks look at leaders when they begin to lead."""

    def _halt(self, effect: Halt) -> None:
        require(False, f"{self.node_id} halts: {effect.reason}")


_CHANGE_LOG = frozenset({AppendLeaderChange, AppendVoters, AppendRecords, TruncateTo, ResetLog})
