"""One partition as its leader sees it: leadership, in-sync replicas, the end for readers. Pure.

    event                  effects
    HoleFound              TruncateTo or AcceptHole, before Assigned (log_holes.py)
    Assigned               HighWatermarkAdvanced, if the ISR shrank; CommitsRefused, if it shrank too far.
    (Epochs never go
                           back: older ones are ignored.)
    LogEndOffsetMoved      HighWatermarkAdvanced, if this replica is the whole ISR; HighWatermarkLowered, on a follower
    FollowerFetched        HighWatermarkAdvanced, ProposeIsr to let the follower in
    FollowerLost           HighWatermarkAdvanced, if it waited for a follower that is no member
    IsrAnswered            HighWatermarkAdvanced, ProposeIsr, CommitsRefused
    LeaderHighWatermark    HighWatermarkAdvanced; on a follower, up to its own log end
    Tick                   ProposeIsr to put laggards out, or again after a pause; HighWatermarkAdvanced; StepDown, if
                           too many members are silent for too long
    ControllerSilent       CommitsRefused, if in-sync followers are silent, too (isolation.py)
    LogBroken              StepDown, if another member could lead (isolation.py)
    LogWorks               none
    FlushHangs             StepDown, if enough other members could lead (isolation.py)

The high watermark is the least log end offset over the maximal ISR (isr.py). It also waits, shortly, for a
follower that has caught up and is about to join: else it would run ahead of it for ever. It does not move
while the ISR is smaller than min.insync.replicas: what readers see was on that many replicas. A follower
joins when its log goes to the high watermark and to where this leader's epoch began; it leaves when it has
not been caught up for replica.lag.time.max.ms, or lacks records and has been silent for
ottla.replica.silence.max.ms. Where too few would be left, the leader waits for the controller to take dead members
out, and steps down if it does not: then they live, and do not reach this leader.

The hot path does not go through events: `append_error`, `fetch_error` and `readable_up_to` answer a value.
With one replica the high watermark is the log end offset.
"""

from collections.abc import Iterator
from typing import Final

from ottla.errors import ErrorCode
from ottla.model import ACKS_ALL, NO_BROKER_EPOCH, NO_EPOCH, NO_LEADER
from ottla.replication.events import (
    Assigned,
    CommitsRefused,
    Effect,
    Event,
    FollowerFetched,
    FollowerLost,
    HighWatermarkAdvanced,
    HighWatermarkLowered,
    LeaderHighWatermark,
    LogEndOffsetMoved,
    Tick,
)
from ottla.replication.follower_state import NEVER_MS, FollowerState
from ottla.replication.isolation import (
    ControllerSilent,
    FlushHangs,
    Isolation,
    LogBroken,
    LogWorks,
    step_down,
)
from ottla.replication.isr import Isr, IsrAnswered, ProposeIsr
from ottla.replication.log_holes import HoleFound, settle_hole

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NEVER: Final = 1 << 62

REPLICA_LAG_TIME_MAX_MS: Final = 30_000
REPLICA_SILENCE_MAX_MS: Final = 3_000
# Twice replica.fetch.wait.max.ms: a follower that is there has asked again by then.
JOIN_WAIT_MS: Final = 1000
# Half of broker.session.timeout.ms: another leader may be elected when a session is over.
ISOLATION_PATIENCE_MS: Final = 4_500


class PartitionReplica:
    """The replica of a partition that lives on `node_id`."""

    __slots__ = (
        "_damaged",
        "_effective_min_isr",
        "_isolation",
        "_isr",
        "_lag_time_max_ms",
        "_may_append",
        "_min_insync_replicas",
        "_own_share",
        "_silence_max_ms",
        "followers",
        "high_watermark",
        "is_recovering",
        "isr",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leadership_epoch",
        "log_end_offset",
        "node_id",
        "partition_epoch",
        "replicas",
    )

    def __init__(
        self,
        node_id: int,
        high_watermark: int,
        *,
        replica_lag_time_max_ms: int = REPLICA_LAG_TIME_MAX_MS,
        min_insync_replicas: int = 1,
        isolation_patience_ms: int = ISOLATION_PATIENCE_MS,
        replica_silence_max_ms: int = REPLICA_SILENCE_MAX_MS,
    ) -> None:
        self.node_id = node_id
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        # The first epoch of the leadership that goes on. A leader that is elected again in the very next
        # epoch goes on: no other broker can have led in between.
        self.leadership_epoch = NO_EPOCH
        self.leader_epoch_start_offset = 0
        self.partition_epoch = NO_EPOCH
        self.is_recovering = False
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.high_watermark = high_watermark
        self.log_end_offset = high_watermark
        self._own_share = high_watermark
        # Of the other replicas, by id, while this one leads.
        self.followers: dict[int, FollowerState] = {}
        self._damaged: frozenset[int] = frozenset()
        self._isr = Isr()
        self._lag_time_max_ms = replica_lag_time_max_ms
        self._silence_max_ms = replica_silence_max_ms
        self._min_insync_replicas = min_insync_replicas
        self._effective_min_isr = 1
        self._isolation = Isolation(isolation_patience_ms)
        self._may_append = False

    # -- questions

    @property
    def is_leader(self) -> bool:
        """Whether this node may append and answer readers."""
        return self.leader == self.node_id

    @property
    def high_watermark_is_known(self) -> bool:
        """False on a new leader until all that was committed before it is below its high watermark."""
        return self.high_watermark >= self.leader_epoch_start_offset or not self.is_leader

    def append_error(self, acks: int) -> ErrorCode:
        """Why an append must be refused, or NONE."""
        if not self._may_append:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == ACKS_ALL and len(self.isr) < self._effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def fetch_error(self, current_leader_epoch: int) -> ErrorCode:
        """Why a read must be refused, or NONE. The epoch is judged before the leadership."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.leader == self.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def follower_error(self, replica_id: int, broker_epoch: int = NO_BROKER_EPOCH) -> ErrorCode:
        """Why a follower's fetch must be refused, or NONE; asked after `fetch_error`."""
        if self.leader != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        follower = self.followers.get(replica_id)
        if follower is None:
            # It may have heard of its assignment before we did: it should ask again.
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if NO_BROKER_EPOCH < broker_epoch < follower.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def readable_up_to(self, isolation_level: int, first_unstable_offset: int | None) -> int:
        """The offset before which this reader may read: high watermark, or last stable offset."""
        if isolation_level == READ_COMMITTED and first_unstable_offset is not None:
            return min(self.high_watermark, first_unstable_offset)
        return self.high_watermark

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than the topic asks for (or than there are replicas)."""
        return len(self.isr) < self._effective_min_isr

    @property
    def next_deadline_ms(self) -> int:
        """When a Tick is due; NEVER if there is nothing to wait for."""
        return min(self._deadlines(), default=NEVER)

    # -- events

    def configure(self, min_insync_replicas: int) -> None:
        """Take the topic's min.insync.replicas over; it holds from the next event on."""
        self._min_insync_replicas = min_insync_replicas
        self._effective_min_isr = min(min_insync_replicas, len(self.replicas))

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; answer what should happen."""
        match event:
            case LogEndOffsetMoved():
                return self._log_end_offset_moved(event)
            case FollowerFetched():
                return self._follower_fetched(event, now_ms)
            case LeaderHighWatermark(high_watermark):
                return self._leader_high_watermark(high_watermark)
            case Assigned():
                return self._assigned(event, now_ms)
            case IsrAnswered():
                return self._isr_answered(event, now_ms)
            case FollowerLost(replica_id):
                return self._follower_lost(replica_id)
            case Tick():
                return self._tick(now_ms)
            case ControllerSilent(silent_ms):
                return self._controller_silent(silent_ms, now_ms)
            case LogBroken(is_lasting):
                return self._log_broken(is_lasting)
            case LogWorks():
                self._isolation.works()
                return []
            case FlushHangs():
                return self._flush_hangs()
            case HoleFound():
                return list(settle_hole(event, self.node_id))

    def _log_end_offset_moved(self, event: LogEndOffsetMoved) -> list[Effect]:
        self.log_end_offset = own_share = event.log_end_offset
        if event.durable_offset is not None:
            own_share = event.durable_offset
        self._own_share = own_share
        if self.leader != self.node_id:
            return self._cut(self.log_end_offset) if self.log_end_offset < self.high_watermark else []
        if self.followers:
            return self._advance()
        # The leader's own log is the only one there is: what it holds, the whole ISR holds.
        if own_share > self.high_watermark:
            self.high_watermark = own_share
            return [HighWatermarkAdvanced(own_share)]
        return []

    def _cut(self, log_end_offset: int) -> list[Effect]:
        """A follower's log lost records that were committed once: there is nothing left to promise."""
        self.high_watermark = log_end_offset
        return [HighWatermarkLowered(log_end_offset)]

    def _follower_fetched(self, event: FollowerFetched, now_ms: int) -> list[Effect]:
        follower = self.followers.get(event.replica_id)
        if follower is None or event.broker_epoch < follower.broker_epoch:
            return []
        is_caught_up = follower.fetched(event.fetch_offset, self.log_end_offset, event.broker_epoch, now_ms)
        if event.replica_id in self.isr:
            return self._advance()
        # A follower that the controller has just refused is not waited for.
        may_join = is_caught_up and event.replica_id not in self._damaged
        follower.ask_to_join(may_join=may_join and now_ms >= self._isr.retry_at_ms)
        # First the ISR: a member that is to be added counts from the moment it is proposed.
        return self._change_isr(now_ms) + self._advance()

    def _follower_lost(self, replica_id: int) -> list[Effect]:
        follower = self.followers.get(replica_id)
        if follower is None or follower.is_counted:
            return []
        follower.forget()
        return self._advance()

    def _leader_high_watermark(self, high_watermark: int) -> list[Effect]:
        high_watermark = min(high_watermark, self.log_end_offset)
        if self.leader == self.node_id or high_watermark <= self.high_watermark:
            return []
        self.high_watermark = high_watermark
        return [HighWatermarkAdvanced(high_watermark)]

    def _assigned(self, event: Assigned, now_ms: int) -> list[Effect]:
        if (event.leader_epoch, event.partition_epoch) < (self.leader_epoch, self.partition_epoch):
            return []
        is_new_epoch = event.leader_epoch > self.leader_epoch
        goes_on = event.leader == self.leader == self.node_id and event.leader_epoch == self.leader_epoch + 1
        if is_new_epoch and not goes_on:
            self.leadership_epoch = event.leader_epoch
        self._isolation.rejoined()
        self._may_append = event.leader == self.node_id
        self.leader = event.leader
        self.leader_epoch = event.leader_epoch
        self.is_recovering = event.is_recovering
        self.replicas = event.replicas
        self._damaged = event.damaged
        self.log_end_offset = event.log_end_offset
        self._own_share = event.log_end_offset if event.durable_offset is None else event.durable_offset
        self._effective_min_isr = min(self._min_insync_replicas, len(event.replicas))
        if is_new_epoch:
            self.leader_epoch_start_offset = event.log_end_offset
            self.followers = {}
        # An assignment that repeats an earlier answer changes nothing: a proposal made since then is still
        # under way.
        if event.partition_epoch > self.partition_epoch or set(event.isr) != set(self.isr):
            self._settle(event.partition_epoch, event.isr)
        self._meet_followers(is_new_epoch, now_ms)
        return (self._advance() + self._refuse_too_few()) if self.is_leader else []

    def _meet_followers(self, is_new_epoch: bool, now_ms: int) -> None:
        """Have a state for each replica but this one, if this one leads.

        Members of a new epoch begin as caught up.
        """
        known = self.followers
        others = [r for r in self.replicas if r != self.node_id] if self.is_leader else []
        self.followers = {
            other: known.get(other)
            or FollowerState(last_caught_up_ms=now_ms if is_new_epoch and other in self.isr else NEVER_MS)
            for other in others
        }
        self._count_members()

    def _isr_answered(self, event: IsrAnswered, now_ms: int) -> list[Effect]:
        if event.error is ErrorCode.NONE:
            is_news = event.leader_epoch == self.leader_epoch and event.partition_epoch > self.partition_epoch
            if is_news and self.is_leader:
                self._settle(event.partition_epoch, event.isr)
                self._count_members()
            elif event.proposal == self._isr.pending:
                self._isr.failed(ErrorCode.INVALID_UPDATE_VERSION, now_ms)
        elif event.proposal == self._isr.pending:
            if self._isr.failed(event.error, now_ms):
                self._give_joining_up()
            self._count_members()
        if not self.is_leader:
            return []
        return self._change_isr(now_ms) + self._advance() + self._refuse_too_few()

    def _refuse_too_few(self) -> list[Effect]:
        if not self.is_under_min_isr:
            return []
        return [CommitsRefused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]

    def _controller_silent(self, silent_ms: int, now_ms: int) -> list[Effect]:
        """Refuse writes while this leader is cut off, and accept them again when it is not."""
        if not self.is_leader:
            return []
        was_cut_off = self._isolation.is_cut_off
        members = (state.last_fetch_ms for other, state in self.followers.items() if other in self.isr)
        is_cut_off = self._isolation.judge(silent_ms, members, now_ms)
        self._may_append = not is_cut_off
        return [CommitsRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)] if is_cut_off and not was_cut_off else []

    def _log_broken(self, is_lasting: bool) -> list[Effect]:
        if not self._isolation.failed(is_lasting) or not self.is_leader:
            return []
        effect = step_down(self.node_id, self.isr, self.leader_epoch, self.partition_epoch)
        return [] if effect is None else [effect]

    def _flush_hangs(self) -> list[Effect]:
        if not self.is_leader or len(self.isr) <= self._effective_min_isr:
            return []
        effect = step_down(self.node_id, self.isr, self.leader_epoch, self.partition_epoch, is_whole=True)
        return [] if effect is None else [effect]

    def _tick(self, now_ms: int) -> list[Effect]:
        if not self.is_leader:
            return []
        for follower in self.followers.values():
            if follower.is_joining and now_ms - follower.last_fetch_ms > JOIN_WAIT_MS:
                follower.forget()
        return self._change_isr(now_ms) + self._advance()

    # -- in-sync replicas

    def _settle(self, partition_epoch: int, isr: tuple[int, ...]) -> None:
        """An ISR was decided."""
        for gone in set(self.isr).difference(isr):
            if gone in self.followers:
                self.followers[gone].forget()
        self.partition_epoch = partition_epoch
        self.isr = isr
        self._isr.settle(isr)

    def _count_members(self) -> None:
        maximal = self._isr.maximal
        for replica_id, follower in self.followers.items():
            follower.count(is_counted=replica_id in maximal, is_member=replica_id in self.isr)

    def _give_joining_up(self) -> None:
        for follower in self.followers.values():
            follower.give_up_joining()

    def _change_isr(self, now_ms: int) -> list[Effect]:
        """Propose the ISR as it should be, if it is another one and nothing else is under way."""
        state = self._isr
        if not state.may_change or now_ms < state.retry_at_ms or not self.is_leader:
            return []
        desired = state.next_members(self._desired_isr(now_ms))
        if self._is_cut_from_too_many(desired, now_ms):
            return self._leave_to_others(now_ms)
        if not state.differs_from(desired):
            return []
        epochs = tuple(self._broker_epoch(member) for member in desired)
        proposal = ProposeIsr(desired, epochs, self.leader_epoch, self.partition_epoch)
        state.propose(proposal)
        self._count_members()
        return [proposal]

    def _desired_isr(self, now_ms: int) -> tuple[int, ...]:
        return tuple(r for r in self.replicas if r == self.node_id or self._is_in_sync(r, now_ms))

    def _is_in_sync(self, replica_id: int, now_ms: int) -> bool:
        follower = self.followers[replica_id]
        if replica_id in self.isr:
            end = self.log_end_offset
            is_silent = follower.is_silent(end, now_ms, self._silence_max_ms)
            return not is_silent and follower.is_caught_up(end, now_ms, self._lag_time_max_ms)
        return follower.is_joining and follower.log_end_offset >= max(
            self.high_watermark, self.leader_epoch_start_offset
        )

    def _is_cut_from_too_many(self, desired: tuple[int, ...], now_ms: int) -> bool:
        """Whether so many members are silent that nothing could be committed without them."""
        if len(desired) >= self._effective_min_isr or len(self.isr) < self._effective_min_isr:
            return False
        end, silence_ms = self.log_end_offset, self._silence_max_ms
        gone = set(self.isr).difference(desired)
        return all(self.followers[member].is_silent(end, now_ms, silence_ms) for member in gone)

    def _leave_to_others(self, now_ms: int) -> list[Effect]:
        """Dead members are taken out by the controller, soon. If it keeps them, they live and do not reach this
        leader: one of them should lead.
        """
        end, patience_ms = self.log_end_offset, 2 * self._silence_max_ms
        silent = [
            m
            for m in self.isr
            if m in self.followers and self.followers[m].is_silent(end, now_ms, patience_ms)
        ]
        effect = step_down(self.node_id, self.isr, self.leader_epoch, self.partition_epoch, is_whole=True)
        return [effect] if effect is not None and silent and not self._isolation.is_cut_off else []

    def _broker_epoch(self, replica_id: int) -> int:
        follower = self.followers.get(replica_id)
        return NO_BROKER_EPOCH if follower is None else follower.broker_epoch

    # -- high watermark

    def _advance(self) -> list[Effect]:
        """Raise the high watermark to the end of the log that all counted replicas hold."""
        end = self._own_share
        if end <= self.high_watermark or len(self.isr) < self._effective_min_isr:
            return []
        for follower in self.followers.values():
            if follower.log_end_offset < end and (follower.is_counted or follower.is_joining):
                end = follower.log_end_offset
        if end <= self.high_watermark:
            return []
        self.high_watermark = end
        return [HighWatermarkAdvanced(end)]

    def _deadlines(self) -> Iterator[int]:
        state = self._isr
        if state.may_change and state.is_uncertain:
            yield state.retry_at_ms
        for replica_id, follower in self.followers.items():
            if replica_id not in self.isr:
                if follower.is_joining:
                    yield follower.last_fetch_ms + JOIN_WAIT_MS + 1
            elif state.may_change and follower.log_end_offset != self.log_end_offset:
                due_ms = follower.last_caught_up_ms + self._lag_time_max_ms + 1
                due_ms = min(due_ms, follower.last_heard_ms + self._silence_max_ms + 1)
                yield max(due_ms, state.retry_at_ms)
