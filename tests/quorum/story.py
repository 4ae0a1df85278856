"""A story of a quorum: what its seed decides, from the number of voters to the last fault.

First there is trouble: nodes die, stand still, lose their disks; links are cut; messages are lost, late and doubled; clocks run
apart; leaders are asked to go; logs are cut behind snapshots. All the while clients write, and read from whoever says that it
leads. Then all is well again, and within a bound there must be a leader, a commit, and the same log everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from tests.quorum.checks import BrokenPromiseError, Checks, require
from tests.quorum.cluster import US_PER_MS, Cluster
from tests.quorum.codec import coded, unchanged
from tests.quorum.member import RaftMember, Trace, World
from tests.quorum.model_disk import ENTRY_BYTES, RaftDisk, SimulatedLog
from tests.quorum.network import CALM, Conditions

from ottla.config import QuorumConfig
from ottla.errors import KafkaError
from ottla.raft.events import Disconnected, Leave
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterNode, VoterSet

SETTINGS = RaftSettings(
    quorum=QuorumConfig(
        election_timeout_ms=150,
        election_backoff_max_ms=100,
        fetch_timeout_ms=300,
        request_timeout_ms=200,
        retry_backoff_ms=10,
    ),
    election_backoff_ms=5,
    fetch_max_wait_ms=100,
    fetch_max_bytes=6 * ENTRY_BYTES,
    snapshot_chunk_bytes=40,
    disconnect_grace_ms=10,
)
DRIFT_PER_MILLE = 100
TROUBLE_MS = 4_000
LIVENESS_MS = 10_000  # of healthy life; most need a tenth of it
MS = US_PER_MS
CODED_SHARE = 10  # every tenth story goes through Kafka's messages

WEATHER = (
    CALM,
    CALM,
    Conditions(max_delay_us=20 * MS),
    Conditions(max_delay_us=10 * MS, slow_delay_us=250 * MS, slow_share=0.1),
    Conditions(max_delay_us=10 * MS, loss_share=0.1),
    Conditions(
        max_delay_us=30 * MS, slow_delay_us=400 * MS, slow_share=0.1, double_share=0.3, loss_share=0.03
    ),
)
SPEED = ((100, 1 * MS), (100, 5 * MS), (1 * MS, 60 * MS))


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of a story."""

    seed: int
    steps: int
    leaders: int
    committed: int
    reads: int
    healed_ms: int
    voter_changes: int


def tell(seed: int) -> Ending:
    """Run one story. If it goes wrong, the message says how to see it again."""
    try:
        return RaftStory(seed).run()
    except Exception as problem:
        again = f"python -m tests.quorum --seed {seed} --trace"
        raise BrokenPromiseError(f"seed {seed}: {problem!r}; again: {again}") from problem


class RaftStory:
    """One seed's worth."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.cluster = Cluster(seed)
        self.random = self.cluster.random
        self._value = 0
        self._disk_number = 0
        self._healed_value: int | None = None
        self._silence_ms = 0
        self._pace_ms = self.random.choice((40, 150, 400))
        self._longest_delay_us = self.cluster.network.longest_delay_us
        voter_count = self.random.choice((1, 2, 3, 3, 3, 3, 3, 4, 5, 5))
        self._changes_voters = self.random.random() < 0.4
        observers = self.random.choice((1, 2) if self._changes_voters else (0, 0, 1, 2))
        voters = VoterSet(range(1, voter_count + 1))
        convey = coded if seed % CODED_SHARE == 0 else unchanged
        self.world = World(self.cluster, voters, SETTINGS, Checks(), {}, convey)
        self.world.trace = trace
        if self._changes_voters:
            self.world.standbys = frozenset(range(voter_count + 1, voter_count + observers + 1))
        for node_id in range(1, voter_count + observers + 1):
            founding = QuorumState() if node_id in voters or node_id in self.world.standbys else None
            self.members[node_id] = RaftMember(
                self.world, node_id, self.cluster.draw_clock(DRIFT_PER_MILLE), self._new_disk(founding)
            )
        self._faults = self._draw_faults()

    @property
    def members(self) -> dict[int, RaftMember]:
        return self.world.members

    @property
    def checks(self) -> Checks:
        return self.world.checks

    def run(self) -> Ending:
        """Tell it; BrokenPromiseError where it goes wrong."""
        schedule = self.cluster.schedule
        for member in self.members.values():
            schedule.after(self.random.randint(0, 100 * MS), member.start)
        schedule.after(self.random.randint(0, 500 * MS), self._fault)
        schedule.after(0, self._write)
        schedule.run(TROUBLE_MS * MS)
        self._heal()
        healed_us = schedule.now_us
        is_live = schedule.run(healed_us + LIVENESS_MS * MS, self._is_well)
        require(is_live, self._illness())
        healed_ms = (schedule.now_us - healed_us) // MS
        checks = self.checks
        return Ending(
            self.cluster.seed,
            schedule.steps,
            checks.leaders,
            len(checks.committed),
            checks.reads,
            healed_ms,
            checks.voter_changes,
        )

    # ---- clients

    def _write(self) -> None:
        """Some client writes to a node that says it leads; others read from all that do."""
        leaders = [m for m in self.members.values() if m.running is not None and m.running.is_leader]
        if leaders and (self._healed_value is None or self.random.random() < 0.5):
            self._propose(self.random.choice(leaders))
        for member in leaders:
            self._read(member)
        self.cluster.schedule.after(self.random.randint(5, 120) * MS, self._write)

    def _propose(self, member: RaftMember) -> None:
        if member.running is not None and member.running.is_leader:
            count = self.random.randint(1, 3)
            self._value += count
            member.propose(list(range(self._value - count, self._value)))

    def _read(self, member: RaftMember) -> None:
        replica = member.running
        if replica is None or not replica.is_established:
            return
        # A voter that elects another leader stops fetching from the old one; its last fetch may be on the way, or may
        # have waited in a process that stood still, for no longer than the old leader's patience.
        patience_us = SETTINGS.quorum.fetch_timeout_ms * MS * 1_000 // (1_000 - DRIFT_PER_MILLE)
        oldest_us = self.cluster.schedule.now_us - self._longest_delay_us - 2 * patience_us - 2 * MS
        self.checks.read(member.node_id, replica.high_watermark, oldest_us)

    # ---- trouble

    def _draw_faults(self) -> list[Callable[[], None]]:
        """Some kinds of faults, some more often than others: what is rare among all is common in some story."""
        kinds = [
            self._crash,
            self._crash_leader,
            self._pause,
            self._isolate,
            self._isolate_leader,
            self._cut_one_way,
            self._split,
            self._heal_links,
            self._change_weather,
            self._change_disks,
            self._dismiss_leader,
            self._lose_disk,
            self._damage_disk,
            self._take_snapshot,
            self._take_snapshot,
            self._fall_silent,
        ]
        chosen = self.random.sample(kinds, self.random.randint(2, len(kinds)))
        if self._changes_voters:
            chosen += [self._change_voters] * 2
        if self.random.random() < 0.3:
            self.world.death_share = 0.003
        if self.random.random() < 0.2:
            self.world.trim_share = 0.2
        return [*chosen, *self.random.choices(chosen, k=4), self._heal_links]

    def _fault(self) -> None:
        if self._healed_value is not None:
            return
        self._silence_ms = 0
        self.random.choice(self._faults)()
        delay_ms = self._silence_ms + self.random.randint(1, 2 * self._pace_ms)
        self.cluster.schedule.after(delay_ms * MS, self._fault)

    def _anyone(self) -> RaftMember:
        return self.random.choice(list(self.members.values()))

    def _leader(self) -> RaftMember:
        """The newest leader there is, or anyone."""
        leaders = [m for m in self.members.values() if m.replica is not None and m.replica.is_leader]
        return max(leaders, key=lambda m: m.replica.epoch if m.replica else 0) if leaders else self._anyone()

    def _crash(self) -> None:
        self._stop(self._anyone())

    def _crash_leader(self) -> None:
        """In the middle of a write, for that is when it hurts."""
        leader = self._leader()
        self._propose(leader)
        self.cluster.schedule.after(self.random.randint(0, 4 * MS), partial(self._stop, leader))

    def _stop(self, member: RaftMember) -> None:
        member.stop(is_power_loss=self.random.random() < 0.6)
        self._notice_death(member)
        self.cluster.schedule.after(self._down_us(), member.start)

    def _down_us(self) -> int:
        return self.random.choice((5, 50, 300, 1_000)) * self.random.randint(500, 1_500)

    def _notice_death(self, dead: RaftMember) -> None:
        for member in self.members.values():
            if member is not dead and dead.has_power:
                event = Disconnected(dead.node_id)
                self.cluster.pass_on(dead.node_id, member.node_id, partial(member.hear, event))

    def _pause(self) -> None:
        member = self.random.choice((self._leader(), self._anyone()))
        member.pause()
        self.cluster.schedule.after(self._down_us(), member.resume)

    def _isolate(self) -> None:
        self.cluster.network.part([self._anyone().node_id], self.members)

    def _isolate_leader(self) -> None:
        """It does not know, and writes on."""
        leader = self._leader()
        self.cluster.network.part([leader.node_id], self.members)
        for _ in range(self.random.choice((1, 6))):
            self._propose(leader)

    def _cut_one_way(self) -> None:
        member = self.random.choice((self._leader(), self._anyone()))
        others = self.random.sample(list(self.members), self.random.randint(1, len(self.members)))
        if self.random.random() < 0.5:
            self.cluster.network.cut([member.node_id], others)
        else:
            self.cluster.network.cut(others, [member.node_id])

    def _split(self) -> None:
        some = self.random.sample(list(self.members), self.random.randint(1, len(self.members)))
        self.cluster.network.part(some, set(self.members) - set(some))

    def _heal_links(self) -> None:
        self.cluster.network.heal()

    def _change_weather(self) -> None:
        network = self.cluster.network
        network.conditions = self.random.choice(WEATHER)
        self._longest_delay_us = max(self._longest_delay_us, network.longest_delay_us)

    def _change_disks(self) -> None:
        self.world.flush_us = self.random.choice(SPEED)
        self.world.persist_us = self.random.choice(SPEED)

    def _dismiss_leader(self) -> None:
        member = self._leader()
        member.hear(Leave())
        self.cluster.schedule.after(self.random.randint(5, 300) * MS, partial(self._stop, member))

    def _lose_disk(self) -> None:
        member = self._anyone()
        if self._may_forget(member):
            # The directory of a node that is added is a new voter: no vote was ever given from it.
            memory = QuorumState() if member.node_id in self.world.standbys else None
            self._change_disk(member, self._new_disk(memory))

    def _damage_disk(self) -> None:
        """Records that were flushed are gone, and that is noticed: such a voter must not trust its memory either."""
        member = self._anyone()
        if self._may_forget(member):
            member.stop(is_power_loss=True)
            new_disk = self._new_disk(None)
            member.disk.damage(self.random)
            member.disk.move_to(new_disk)
            if member.node_id in self.world.standbys:
                new_disk.memory = QuorumState(max(new_disk.log.last_epoch, 0))
            self._change_disk(member, new_disk)

    def _may_forget(self, member: RaftMember) -> bool:
        """A minority may be without memory at a time: a majority without one is not saved by anything. A node
        whose settings name no other would not find the others again.
        """
        return self.world.voters.ids != {member.node_id} and all(
            self._has_majority(each.voters, member) for each in self.members.values()
        )

    def _has_majority(self, voters: VoterSet, lost: RaftMember | None = None) -> bool:
        """Whether a majority of these voters remembers, without the one that is lost."""
        remembering = [each for each in self.members.values() if each.disk.memory is not None]
        return voters.is_majority(
            each.node_id for each in remembering if each is not lost and voters.has(each.identity)
        )

    def _change_disk(self, member: RaftMember, new_disk: RaftDisk) -> None:
        self.checks.disks_lost += member.is_controller
        member.lose_disk(new_disk)
        self._notice_death(member)
        self.cluster.schedule.after(self._down_us(), member.start)

    def _change_voters(self) -> None:
        """An administrator adds a node or removes one, as far as the leader lets it, and as enough disks are
        left.
        """
        leader, member = self._leader(), self._anyone()
        replica = leader.running
        if replica is None or not member.is_controller:
            return
        named = replica.voters.node(member.node_id)
        try:
            if named is None:
                voters = replica.voters_with(VoterNode(*member.identity))
            else:
                known = replica.voters.names_directories
                voters = replica.voters_without(named.key if known else member.identity)
        except KafkaError:
            return
        if self._has_majority(voters):
            self.checks.voter_changes += 1
            leader.change_voters(voters)

    def _take_snapshot(self) -> None:
        self._anyone().take_snapshot(trims=self.random.random() < 0.7)

    def _fall_silent(self) -> None:
        """No faults for a while."""
        self._heal_links()
        self._silence_ms = 700

    def _new_disk(self, memory: QuorumState | None) -> RaftDisk:
        self._disk_number += 1
        return RaftDisk(UUID(int=self._disk_number), memory, SimulatedLog(self.world.meanings))

    # ---- and the end

    def _heal(self) -> None:
        self.cluster.network.heal()
        self.cluster.network.conditions = CALM
        self.world.flush_us, self.world.persist_us = SPEED[0], SPEED[0]
        self.world.death_share = 0.0
        self._healed_value = self._value
        for member in self.members.values():
            member.resume()
            member.start()

    def _is_well(self) -> bool:
        """Something new is committed, everywhere, and every voter may vote."""
        committed = self.checks.committed
        if not committed or self._healed_value is None or committed[-1].value < self._healed_value:
            return False
        return all(
            member.replica is not None
            and member.applied_offset == len(committed)
            and (member.replica.can_vote or not member.replica.voters.has(member.identity))
            for member in self.members.values()
        )

    def _illness(self) -> str:
        nodes = [
            f"{member.node_id}: {member.replica.state.name} of {member.replica.leader_id} in {member.replica.epoch}, "
            f"{member.applied_offset} of {member.disk.log.log_end_offset}, votes: {member.replica.can_vote}"
            for member in self.members.values()
            if member.replica is not None
        ]
        return f"not well after {LIVENESS_MS} ms: {len(self.checks.committed)} committed; " + "; ".join(nodes)
