"""Three replicas of one partition, a controller, and messages that come late or never: all drawn from one
seed.

The replicas are the real machines over model logs. The controller is three lines: it compares and sets,
fences, and elects from the ISR. Metadata comes to each node in order, some time. Of everything else the
answer may be lost, and what was asked be done all the same, later.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.unit.replication.model_log import Entry, ModelLog

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.replication.divergence import judge_fetch
from ottla.replication.events import (
    Assigned,
    Event,
    FollowerFetched,
    HighWatermarkAdvanced,
    LeaderHighWatermark,
    LogEndOffsetMoved,
    Tick,
)
from ottla.replication.follower import (
    Append,
    BeginAt,
    FetchAnswered,
    FetchFrom,
    Follower,
    HighWatermarkMoved,
    LogStartMoved,
)
from ottla.replication.isr import IsrAnswered, ProposeIsr
from ottla.replication.log_holes import TruncateTo
from ottla.replication.partition import PartitionReplica

NODES = (1, 2, 3)
LAG_MS = 500


@dataclass(frozen=True, slots=True)
class Decided:
    """The partition as the controller has it."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Node:
    """One broker: what outlives a restart, and what does not."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log = ModelLog()
        self.broker_epoch = 0
        self.is_up = True
        self.heard = -1  # the last decision that it knows
        self.begin_life(0)

    def begin_life(self, high_watermark: int) -> None:
        self.replica = PartitionReplica(self.node_id, high_watermark, replica_lag_time_max_ms=LAG_MS)
        self.follower = Follower(self.node_id)


class ModelCluster:
    """The world. `act` does something at random; the checks are in `check`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes = {node_id: Node(node_id) for node_id in NODES}
        self.now_ms = 0
        self.history = [Decided(1, 0, 0, NODES)]
        self.committed: dict[int, Entry] = {}
        self.deleted_up_to = 0
        self.values = 0
        self.under_way: list[Callable[[], None]] = []

    # -- what happens

    def act(self) -> None:
        """One thing happens."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (30, self._produce),
            (40, self._fetch),
            (25, self._deliver),
            (20, self._hear),
            (10, self._tick),
            (2, self._fence),
            (2, self._crash),
            (4, self._restart),
            (1, self._prefer_another_leader),
            (1, self._delete_records),
        ]
        (action,) = self.random.choices([act for _, act in actions], [weight for weight, _ in actions])
        action()
        self.check()

    def heal(self) -> None:
        """Everybody lives, everything arrives, and there is time."""
        for node in self.nodes.values():
            if not node.is_up:
                self._begin_again(node)
        for turn in range(60):
            self.now_ms += 100
            while self.under_way:
                self._deliver(is_lossy=False)
            for node in self.nodes.values():
                while node.heard < len(self.history) - 1:
                    self._hear_one(node, node.heard + 1)
                self._ask(node, is_lossy=False)
                self._step(node, Tick())
                if turn == 20:
                    self._append(node)
            self.check()

    def _produce(self) -> None:
        node = self._any_up()
        if node is not None:
            self._append(node)

    def _append(self, node: Node) -> None:
        if node.replica.append_error(1):
            return
        for _ in range(self.random.randint(1, 3)):
            self.values += 1
            node.log.append(node.replica.leader_epoch, self.values)
        self._step(node, LogEndOffsetMoved(node.log.log_end_offset))

    def _fetch(self) -> None:
        node = self._any_up()
        if node is not None:
            self._ask(node, is_lossy=True)

    def _deliver(self, *, is_lossy: bool = True) -> None:
        if self.under_way:
            number = self.random.randrange(len(self.under_way)) if is_lossy else 0
            self.under_way.pop(number)()

    def _hear(self) -> None:
        node = self._any_up()
        if node is not None and node.heard < len(self.history) - 1:
            # Metadata comes in order; a node may take several decisions in at once, as an image.
            self._hear_one(node, self.random.randint(node.heard + 1, len(self.history) - 1))

    def _tick(self) -> None:
        self.now_ms += self.random.choice((1, 10, 60, 300))
        for node in self.nodes.values():
            if node.is_up and node.replica.next_deadline_ms <= self.now_ms:
                self._step(node, Tick())

    def _fence(self) -> None:
        """A broker lost its session, dead or not."""
        self._take_out(self.random.choice(NODES))

    def _crash(self) -> None:
        node = self._any_up()
        if node is None:
            return
        node.is_up = False
        known = self.history[-1]
        # Power was lost, too: unflushed records are gone. What only one replica has may be lost with it, so
        # not there.
        if known.isr != (node.node_id,) and self.random.random() < 0.5:
            self._take_out(node.node_id)
            node.log.truncate_to(self.random.randint(node.log.log_start_offset, node.log.log_end_offset))

    def _restart(self) -> None:
        down = [node for node in self.nodes.values() if not node.is_up]
        if down:
            self._begin_again(self.random.choice(down))

    def _begin_again(self, node: Node) -> None:
        """The broker registers again: it is out of every ISR that has other members."""
        node.is_up = True
        node.broker_epoch += 1
        node.begin_life(min(node.replica.high_watermark, node.log.log_end_offset))
        self._take_out(node.node_id)
        # It acts on no metadata that is older than its registration.
        node.heard = len(self.history) - 2

    def _prefer_another_leader(self) -> None:
        known = self.history[-1]
        chosen = self.random.choice(known.isr)
        self._decide(chosen, known.leader_epoch + 1, known.isr)

    def _delete_records(self) -> None:
        node = self._any_up()
        if node is not None and node.replica.is_leader and node.replica.leader_epoch == self._epoch():
            offset = self.random.randint(node.log.log_start_offset, node.replica.high_watermark)
            node.log.advance_start(offset)
            self.deleted_up_to = max(self.deleted_up_to, offset)

    # -- the controller

    def _epoch(self) -> int:
        return self.history[-1].leader_epoch

    def _decide(self, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
        epoch = self.history[-1].partition_epoch + 1
        self.history.append(Decided(leader, leader_epoch, epoch, isr))

    def _take_out(self, node_id: int) -> None:
        known = self.history[-1]
        isr = tuple(member for member in known.isr if member != node_id) or known.isr
        must_elect = known.leader in (node_id, -1)
        live = [member for member in isr if self.nodes[member].is_up]
        leader = (live or [-1])[0] if must_elect else known.leader
        self._decide(leader, known.leader_epoch + must_elect, isr)

    def _alter_partition(self, proposal: ProposeIsr) -> IsrAnswered:
        known = self.history[-1]
        if proposal.leader_epoch != known.leader_epoch:
            return IsrAnswered(proposal, ErrorCode.FENCED_LEADER_EPOCH)
        if proposal.partition_epoch != known.partition_epoch:
            return IsrAnswered(proposal, ErrorCode.INVALID_UPDATE_VERSION)
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            node = self.nodes[member]
            is_known = epoch == node.broker_epoch or (epoch == -1 and member in known.isr)
            if not node.is_up or not is_known:
                return IsrAnswered(proposal, ErrorCode.INELIGIBLE_REPLICA)
        self._decide(known.leader, known.leader_epoch, proposal.isr)
        now = self.history[-1]
        return IsrAnswered(proposal, ErrorCode.NONE, now.leader_epoch, now.partition_epoch, now.isr)

    # -- messages

    def _any_up(self) -> Node | None:
        up = [node for node in self.nodes.values() if node.is_up]
        return self.random.choice(up) if up else None

    def _hear_one(self, node: Node, number: int) -> None:
        node.heard = number
        known = self.history[number]
        event = Assigned(
            leader=known.leader,
            leader_epoch=known.leader_epoch,
            partition_epoch=known.partition_epoch,
            isr=known.isr,
            replicas=NODES,
            log_end_offset=node.log.log_end_offset,
        )
        self._step(node, event)
        node.follower.follow(known.leader, known.leader_epoch)

    def _step(self, node: Node, event: Event) -> None:
        before = node.replica.high_watermark
        for effect in node.replica.step(event, self.now_ms):
            if isinstance(effect, ProposeIsr):
                self._propose(node, node.broker_epoch, effect)
            else:
                assert isinstance(effect, HighWatermarkAdvanced), "nothing committed was cut off"
        assert node.replica.high_watermark >= before
        if node.replica.is_leader:
            for entry in node.log.entries:
                if entry.offset < node.replica.high_watermark:
                    assert self.committed.setdefault(entry.offset, entry) == entry

    def _propose(self, node: Node, life: int, proposal: ProposeIsr) -> None:
        def arrive() -> None:
            answer = self._alter_partition(proposal)
            self.under_way.append(lambda: hear(answer))

        def hear(answer: IsrAnswered) -> None:
            if node.is_up and node.broker_epoch == life and not is_given_up:
                is_given_up.append(True)
                self._step(node, answer)

        is_given_up: list[bool] = []
        self.under_way.append(arrive)
        if self.random.random() < 0.2:
            # The connection is lost, and what was asked may be done later, or was done.
            lost = IsrAnswered(proposal, ErrorCode.REQUEST_TIMED_OUT)
            self.under_way.append(lambda: hear(lost))

    def _ask(self, node: Node, *, is_lossy: bool) -> None:
        asked = node.follower.next_fetch(node.log, self.now_ms)
        leader = self.nodes.get(node.follower.leader)
        if asked is None or leader is None or not leader.is_up:
            return
        life = node.broker_epoch
        answer, records = self._answer(leader, node, asked)

        def arrive() -> None:
            if node.is_up and node.broker_epoch == life:
                self._answered(node, answer, records)

        if not is_lossy or self.random.random() < 0.8:
            self.under_way.append(arrive)

    def _answer(self, leader: Node, node: Node, asked: FetchFrom) -> tuple[FetchAnswered, list[Entry]]:
        replica, log = leader.replica, leader.log
        error = replica.fetch_error(asked.current_leader_epoch) or replica.follower_error(
            node.node_id, node.broker_epoch
        )
        if error:
            return FetchAnswered(asked, error), []
        verdict = judge_fetch(log, replica.leader_epoch, asked.fetch_offset, asked.last_fetched_epoch)
        if isinstance(verdict, EpochEnd):
            return FetchAnswered(asked, diverging=verdict), []
        if verdict is ErrorCode.NONE:
            self._step(leader, FollowerFetched(node.node_id, node.broker_epoch, asked.fetch_offset))
        records = log.read(asked.fetch_offset, self.random.randint(1, 6)) if not verdict else []
        watermark, start = replica.high_watermark, log.log_start_offset
        marker = b"records" if records else None
        return FetchAnswered(asked, verdict, watermark, start, records=marker), records

    def _answered(self, node: Node, answer: FetchAnswered, records: list[Entry]) -> None:
        for effect in node.follower.step(answer, node.log, self.now_ms):
            match effect:
                case Append():
                    node.log.append_replicated(records)
                case TruncateTo(offset):
                    node.log.truncate_to(offset)
                case BeginAt(offset):
                    node.log.begin_at(offset)
                case LogStartMoved(offset):
                    node.log.advance_start(offset)
                case HighWatermarkMoved(high_watermark):
                    self._step(node, LogEndOffsetMoved(node.log.log_end_offset))
                    self._step(node, LeaderHighWatermark(high_watermark))
        self._step(node, LogEndOffsetMoved(node.log.log_end_offset))

    # -- what must be true

    def check(self) -> None:
        """After everything that happens."""
        for member in self.history[-1].isr:
            self._check_holds_committed(self.nodes[member])
        for node in self.nodes.values():
            assert node.replica.high_watermark <= node.log.log_end_offset or not node.is_up
        for one, other in ((1, 2), (2, 3), (1, 3)):
            self._check_match(self.nodes[one].log, self.nodes[other].log)

    def _check_holds_committed(self, node: Node) -> None:
        held = {entry.offset: entry for entry in node.log.entries}
        for offset, entry in self.committed.items():
            if offset >= max(self.deleted_up_to, node.log.log_start_offset):
                assert held.get(offset) == entry, f"{node.node_id} is in sync without {entry}"

    def _check_match(self, one: ModelLog, other: ModelLog) -> None:
        """Where two logs have the same epoch at the same offset, they are equal up to there."""
        theirs = {entry.offset: entry for entry in other.entries}
        common = [entry for entry in one.entries if entry.offset in theirs]
        same = [entry for entry in common if theirs[entry.offset].epoch == entry.epoch]
        for entry in common:
            if same and entry.offset <= same[-1].offset:
                assert theirs[entry.offset] == entry
