"""A cluster to which everything happens at random, and what stays true of its metadata whatever happens
(CTL-3, CTL-4, REP-7).

The controller is driven as brokers and clients would drive it: brokers start, crash and stop, proposals of
leaders arrive late or never, operators move replicas and hold elections. Beside it runs a model of who holds
every acknowledged record of a partition. A broker that crashed lost some; what a leader proposes it has seen
to be true. Nobody may lead who lacks an acknowledged record, unless the election was announced as unclean or
nobody else was left.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.controller.cluster import (
    CLUSTER_ID,
    NODE_ID,
    Cluster,
    numbered_uuids,
    registration,
    topic,
    topic_on,
)

from ottla.config import BrokerConfig
from ottla.controller.commands import BalanceLeaders, FenceBrokers
from ottla.controller.controller import Controller
from ottla.controller.elections import ElectionType
from ottla.controller.image import ClusterImage, PartitionImage
from ottla.controller.records import decode_record, encode_record
from ottla.controller.snapshot import snapshot_records
from ottla.errors import ErrorCode
from ottla.localcluster.plan.rebalance import plan_rebalance
from ottla.model import NO_LEADER
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, UnregisterBrokerRequest
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)

# Few of everything, so that what happens meets.
NODES = (1, 2, 3)
NAMES = ("a", "b")
SOME_NODES = st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)

Key = tuple[UUID, int]


@dataclass
class Process:
    """A broker as it sees itself."""

    incarnation: int
    epoch: int


@dataclass
class Proposal:
    """A leader's proposal: until it is settled, new records wait for these members, too."""

    key: Key
    leader_epoch: int
    members: dict[int, int]  # and the epochs under which the leader knew them
    request: AlterPartitionRequest


@dataclass
class Holders:
    """The replicas that hold all acknowledged records of a partition."""

    nodes: set[int] = field(default_factory=set)


class ClusterLife(RuleBasedStateMachine):
    """Everything that can happen."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(brokers=0)
        self.processes: dict[int, Process] = {}
        self.marks: dict[int, int] = {}  # what a broker wrote down when it stopped
        self.incarnations = 0
        self.lives = dict.fromkeys(NODES, 0)  # how often a broker has come back from a crash
        self.holders: dict[Key, Holders] = {}
        self.reigns: dict[tuple[Key, int], tuple[int, int]] = {}  # who led in an epoch, in which of its lives
        self.proposals: list[Proposal] = []

    # ---- carrying commands out

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    def commit(self, request: Any) -> Any:
        before = self.image
        decision = self.cluster.decide(request)
        response = self.cluster.commit(request)
        for name, index in decision.unclean_elections:
            partition = self.cluster.partition(name, index)
            assert partition.isr == (partition.leader,)
            self.holders[self.cluster.topic(name).topic_id, index].nodes = {partition.leader}
        check_progress(before, self.image)
        for found, partition in self.image.partitions():
            self.holders.setdefault((found.topic_id, partition.index), Holders(set(partition.isr)))
        return response

    def is_up(self, node_id: int) -> bool:
        """Whether a broker runs and the cluster knows this very life of it."""
        process, known = self.processes.get(node_id), self.image.brokers.get(node_id)
        return process is not None and known is not None and process.epoch == known.epoch

    # ---- brokers

    @initialize(node_ids=SOME_NODES, replicas=st.integers(1, 3), unclean=st.booleans())
    def begin(self, node_ids: list[int], replicas: int, unclean: bool) -> None:
        for node_id in node_ids:
            self.start(node_id)
            self.beat(node_id)
        self.create("a", 2, min(replicas, len(node_ids)), unclean)

    @rule(node_id=st.sampled_from(NODES))
    def start(self, node_id: int) -> None:
        if node_id in self.processes:
            return
        self.incarnations += 1
        previous = self.marks.pop(node_id, -1)
        known = self.image.brokers.get(node_id)
        is_clean = known is not None and known.epoch == previous
        self.lives[node_id] += not is_clean
        request = registration(node_id, self.incarnations, previous)
        self.processes[node_id] = Process(self.incarnations, self.commit(request).broker_epoch)
        assert self.commit(request).broker_epoch == self.processes[node_id].epoch
        for found, partition in self.image.partitions():
            if partition.replicas == (node_id,) and not is_clean:
                self.holders[found.topic_id, partition.index].nodes = {node_id}

    @rule(node_id=st.sampled_from(NODES))
    def beat(self, node_id: int) -> None:
        if node_id in self.processes:
            epoch = self.processes[node_id].epoch
            response = self.commit(BrokerHeartbeatRequest(node_id, epoch, self.image.last_offset))
            if response.error_code:
                assert not self.is_up(node_id)

    @rule(node_id=st.sampled_from(NODES), lag=st.integers(1, 5))
    def beat_behind(self, node_id: int, lag: int) -> None:
        if node_id in self.processes:
            epoch = self.processes[node_id].epoch
            response = self.commit(BrokerHeartbeatRequest(node_id, epoch, epoch - lag))
            assert response.error_code or not response.is_caught_up

    @rule(node_id=st.sampled_from(NODES))
    def crash(self, node_id: int) -> None:
        if self.processes.pop(node_id, None) is not None:
            for holders in self.holders.values():
                holders.nodes.discard(node_id)

    @rule(node_id=st.sampled_from(NODES))
    def stop(self, node_id: int) -> None:
        if node_id not in self.processes:
            return
        epoch = self.processes[node_id].epoch
        request = BrokerHeartbeatRequest(node_id, epoch, self.image.last_offset, want_shut_down=True)
        response = self.commit(request)
        if not response.error_code:
            assert response.should_shut_down
            self.marks[node_id] = epoch
            del self.processes[node_id]

    @rule(node_id=st.sampled_from(NODES), is_clean=st.booleans())
    def bounce(self, node_id: int, is_clean: bool) -> None:
        """A quick restart."""
        if is_clean:
            self.stop(node_id)
        else:
            self.crash(node_id)
        self.start(node_id)
        self.beat(node_id)

    @rule(node_ids=SOME_NODES)
    def fence(self, node_ids: list[int]) -> None:
        self.commit(FenceBrokers(tuple(node_ids)))

    @rule(node_id=st.sampled_from(NODES))
    def unregister(self, node_id: int) -> None:
        if node_id not in self.processes:
            self.commit(UnregisterBrokerRequest(node_id))

    # ---- topics

    @rule(
        name=st.sampled_from(NAMES),
        partitions=st.integers(1, 2),
        replicas=st.integers(1, 3),
        unclean=st.booleans(),
    )
    def create(self, name: str, partitions: int, replicas: int, unclean: bool) -> None:
        wanted = topic(name, partitions, replicas, unclean_leader_election_enable=str(unclean).lower())
        self.commit_creation(wanted)

    @rule(name=st.sampled_from(NAMES), node_ids=SOME_NODES)
    def create_on(self, name: str, node_ids: list[int]) -> None:
        self.commit_creation(topic_on(name, node_ids))

    def commit_creation(self, wanted: Any) -> None:
        self.cluster.create(wanted)
        for found, partition in self.image.partitions():
            self.holders.setdefault((found.topic_id, partition.index), Holders(set(partition.isr)))

    @rule(name=st.sampled_from(NAMES))
    def grow(self, name: str) -> None:
        self.commit(CreatePartitionsRequest([CreatePartitionsTopic(name, 3, None)]))

    @rule(name=st.sampled_from(NAMES), is_really=st.booleans())
    def delete(self, name: str, is_really: bool) -> None:
        if is_really:
            self.commit(DeleteTopicsRequest(topics=[DeleteTopicState(name)]))

    # ---- leaders

    def leads(self, partition: PartitionImage) -> bool:
        return self.is_up(partition.leader) and not self.image.brokers[partition.leader].is_fenced

    @rule(which=st.integers(0, 5), members=SOME_NODES)
    def propose(self, which: int, members: list[int]) -> None:
        """A leader that has seen these followers catch up, or lost sight of the others."""
        led = [(found, each) for found, each in self.image.partitions() if self.leads(each)]
        if not led:
            return
        found, partition = led[which % len(led)]
        joining = {node_id for node_id in members if node_id in partition.replicas and self.is_up(node_id)}
        isr = sorted(joining | {partition.leader})
        key = (found.topic_id, partition.index)
        request = self.cluster.proposal(found.name, isr, partition.index)
        epochs = {node_id: self.image.brokers[node_id].epoch for node_id in isr}
        self.proposals.append(Proposal(key, partition.leader_epoch, epochs, request))
        self.holders[key].nodes |= joining

    @rule(which=st.integers(0, 5))
    def step_down(self, which: int) -> None:
        led = [(found, each) for found, each in self.image.partitions() if self.leads(each)]
        if not led:
            return
        found, partition = led[which % len(led)]
        others = [node_id for node_id in partition.isr if node_id != partition.leader]
        answer = (
            self.commit(self.cluster.proposal(found.name, others, partition.index)).topics[0].partitions[0]
        )
        after = self.cluster.partition(found.name, partition.index)
        if answer.error_code == ErrorCode.NEW_LEADER_ELECTED:
            assert after.leader in others
        else:
            assert after == partition

    @precondition(lambda self: self.proposals)
    @rule(which=st.integers(0, 5))
    def lose(self, which: int) -> None:
        """A proposal never arrives."""
        self.proposals.pop(which % len(self.proposals))

    @precondition(lambda self: self.proposals)
    @rule(which=st.integers(0, 5), is_clean=st.booleans())
    def bounce_a_member(self, which: int, is_clean: bool) -> None:
        """A member restarts while the proposal travels, which arrives then."""
        proposal = self.proposals[which % len(self.proposals)]
        self.bounce(max(proposal.members), is_clean)
        self.settle(which)

    @precondition(lambda self: self.proposals)
    @rule(which=st.integers(0, 5))
    def settle(self, which: int) -> None:
        """A proposal arrives, and holds for what it was made for and for nothing else."""
        proposal = self.proposals.pop(which % len(self.proposals))
        before = self.image
        response = self.commit(proposal.request)
        if response.error_code:
            return
        (answer,) = response.topics[0].partitions
        if answer.error_code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            partition = before.topics_by_id[proposal.key[0]].partitions[proposal.key[1]]
            asked = proposal.request.topics[0].partitions[0]
            assert (asked.leader_epoch, asked.partition_epoch) == (
                partition.leader_epoch,
                partition.partition_epoch,
            )
            for node_id, epoch in proposal.members.items():
                assert before.brokers[node_id].epoch == epoch

    @rule(which=st.integers(0, 5))
    def acknowledge(self, which: int) -> None:
        """A record is written to every replica that is, or may be, in sync, and then acknowledged."""
        led = [(found, each) for found, each in self.image.partitions() if self.leads(each)]
        if not led:
            return
        found, partition = led[which % len(led)]
        key = (found.topic_id, partition.index)
        awaited = {node_id: self.image.brokers[node_id].epoch for node_id in partition.isr}
        for proposal in self.proposals:
            if proposal.key == key and proposal.leader_epoch == partition.leader_epoch:
                awaited |= proposal.members
        if all(
            node_id in self.processes and self.processes[node_id].epoch == epoch
            for node_id, epoch in awaited.items()
        ):
            self.holders[key].nodes = set(awaited)

    # ---- operators

    @rule(name=st.sampled_from(NAMES), index=st.integers(0, 1), wanted=SOME_NODES | st.none())
    def move(self, name: str, index: int, wanted: list[int] | None) -> None:
        self.reassign([(name, index, wanted)])

    @rule()
    def rebalance(self) -> None:
        self.reassign(plan_rebalance(self.image))

    def reassign(self, moves: Iterable[tuple[str, int, Any]]) -> None:
        topics: dict[str, ReassignableTopic] = {}
        for name, index, wanted in moves:
            replicas = None if wanted is None else list(wanted)
            topics.setdefault(name, ReassignableTopic(name)).partitions.append(
                ReassignablePartition(index, replicas)
            )
        self.commit(AlterPartitionReassignmentsRequest(topics=list(topics.values())))

    @rule(kind=st.integers(0, 1), name=st.sampled_from(NAMES), is_everything=st.booleans())
    def elect(self, kind: int, name: str, is_everything: bool) -> None:
        some = [TopicPartitions(name, [0, 1])]
        self.commit(ElectLeadersRequest(kind, None if is_everything else some))

    @rule()
    def balance(self) -> None:
        self.commit(BalanceLeaders(0))

    # ---- what stays true

    @invariant()
    def partitions_are_sound(self) -> None:
        eligible = self.image.eligible_brokers
        for _, partition in self.image.partitions():
            assert partition.isr or partition.leader == NO_LEADER
            assert set(partition.elr) <= set(partition.replicas) - set(partition.isr)
            assert len(set(partition.isr)) == len(partition.isr)
            assert set(partition.isr) <= set(partition.replicas)
            assert len(set(partition.replicas)) == len(partition.replicas)
            assert set(partition.adding_replicas) | set(partition.removing_replicas) <= set(
                partition.replicas
            )
            assert not set(partition.adding_replicas) & set(partition.removing_replicas)
            if partition.leader in eligible:
                assert set(partition.isr) <= eligible
            else:
                assert eligible.isdisjoint(partition.isr + partition.elr), "a complete replica could lead"
            assert partition.leader == NO_LEADER or partition.leader in partition.isr

    @invariant()
    def whoever_leads_holds_every_acknowledged_record(self) -> None:
        for found, partition in self.image.partitions():
            holders = self.holders[found.topic_id, partition.index].nodes
            if self.leads(partition):
                assert partition.leader in holders
                assert {node_id for node_id in partition.isr if self.is_up(node_id)} <= holders

    @invariant()
    def an_epoch_has_one_leader_and_one_of_its_lives(self) -> None:
        """One that crashed may give offsets to other records than before: that has to be another epoch."""
        for found, partition in self.image.partitions():
            if self.leads(partition):
                reign = (partition.leader, self.lives[partition.leader])
                key = (found.topic_id, partition.index), partition.leader_epoch
                assert self.reigns.setdefault(key, reign) == reign

    @invariant()
    def the_log_and_a_snapshot_are_the_state(self) -> None:
        replayed, loaded = (
            Controller(NODE_ID, CLUSTER_ID, BrokerConfig(), numbered_uuids()) for _ in range(2)
        )
        for offset, record in enumerate(self.cluster.log):
            replayed.replay(decode_record(encode_record(record)), offset)
        assert replayed.image == self.image
        values = [encode_record(record) for record in snapshot_records(self.image)]
        loaded.load_snapshot(map(decode_record, values), self.image.last_offset, self.image.last_epoch)
        assert loaded.image == self.image

    def teardown(self) -> None:
        """When all brokers are back and have caught up, every partition is led and in sync, and no move is
        left. A partition without a complete replica waits for a decision, and for nothing else.
        """
        self.proposals.clear()
        for node_id in NODES:
            if not self.is_up(node_id) or self.image.brokers[node_id].in_controlled_shutdown:
                self.crash(node_id)
                self.start(node_id)
            self.beat(node_id)
        for found, waiting in list(self.image.partitions()):
            if waiting.leader == NO_LEADER:
                assert not waiting.isr + waiting.elr
                decided = [TopicPartitions(found.name, [waiting.index])]
                self.commit(ElectLeadersRequest(ElectionType.UNCLEAN, decided))
            partition = self.cluster.partition(found.name, waiting.index)
            assert partition.leader != NO_LEADER
            answer = self.cluster.alter(found.name, partition.replicas, partition.index)
            assert answer.error_code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
            done = self.cluster.partition(found.name, partition.index)
            assert not done.is_moving
            assert set(done.isr) == set(done.replicas) == set(partition.target_replicas)


def check_progress(before: ClusterImage, after: ClusterImage) -> None:
    """Numbers that never go back, and do not rise without a reason."""
    for topic_id, found in before.topics_by_id.items():
        later = after.topics_by_id.get(topic_id)
        for old, new in zip(found.partitions, later.partitions if later else (), strict=False):
            if old == new:
                continue
            assert new.partition_epoch > old.partition_epoch
            assert new.leader_epoch >= old.leader_epoch
            if new.leader != old.leader:
                assert new.leader_epoch > old.leader_epoch
    for node_id, broker in before.brokers.items():
        known = after.brokers.get(node_id)
        assert known is None or known.epoch >= broker.epoch


TestClusterLife = ClusterLife.TestCase
TestClusterLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
