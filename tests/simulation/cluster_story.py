"""A story of a whole cluster: what its seed decides, from the number of nodes to the last fault.

Three to five nodes, each a voter or an observer of the quorum and a broker. Clients write and read all the while, an administrator
moves things about, and there is trouble (`cluster_faults`). Then all is well again, and within a bound every partition must be
led, in sync everywhere and writable, and every client must have got what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from tests.simulation.administrator import Administrator
from tests.simulation.broker_log import BrokerLog, ReplicaLog
from tests.simulation.clients import FIRST_CLIENT_ID, CarelessProducer, Client, Consumer, Producer
from tests.simulation.cluster import US_PER_MS, Cluster
from tests.simulation.cluster_checks import ClusterChecks
from tests.simulation.cluster_faults import ClusterFaults
from tests.simulation.node import Node
from tests.simulation.raft_checks import BrokenPromiseError, Checks
from tests.simulation.raft_codec import unchanged
from tests.simulation.raft_disk import RaftDisk, SimulatedLog
from tests.simulation.raft_node import World
from tests.simulation.raft_story import DRIFT_PER_MILLE, SETTINGS
from tests.simulation.site import Site, Timing, TopicPartition, is_joined
from tests.simulation.wire import Wire

from ottla.config import BrokerConfig
from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import VoterSet

MS = US_PER_MS
TROUBLE_MS = 5_000
LIVENESS_MS = 12_000  # of healthy life; most need a twentieth of it
CONFIG = BrokerConfig()
FLUSHING = BrokerConfig.from_properties({"ottla.flush.on.acks.all": "true"})
NewLog = Callable[[], ReplicaLog]


@dataclass(frozen=True, slots=True)
class ClusterEnding:
    """What came of a story."""

    seed: int
    steps: int
    healed_ms: int
    committed: int
    counts: Mapping[str, int]


def tell_cluster(seed: int, new_log: NewLog = BrokerLog) -> ClusterEnding:
    """Run one story. If it goes wrong, the message says how to see it again."""
    try:
        return ClusterStory(seed, new_log).run()
    except Exception as problem:
        again = f"python -m tests.simulation.cluster_run --seed {seed} --trace"
        again += " --real-log" if new_log is not BrokerLog else ""
        raise BrokenPromiseError(f"seed {seed}: {problem!r}; again: {again}") from problem


class ClusterStory:
    """One seed's worth."""

    def __init__(self, seed: int, new_log: NewLog = BrokerLog) -> None:
        self.cluster = Cluster(seed)
        self.random = random = self.cluster.random
        self._value = 0
        self._disk_number = 0
        self.is_healed = False
        node_count = random.choice((3, 3, 3, 4, 5))
        voter_count = random.choice((1, 3, 3, 3)) if node_count < 5 else random.choice((3, 5))
        self.site = self._new_site(VoterSet(range(1, voter_count + 1)), new_log)
        self._has_racks = random.random() < 0.3
        for node_id in range(1, node_count + 1):
            self.add_node(QuorumState() if node_id <= voter_count else None)
        self._engage_clients()
        self.faults = ClusterFaults(self)
        self.site.on_death = self.faults.noticed_death

    def _new_site(self, voters: VoterSet, new_log: NewLog) -> Site:
        random, seed = self.random, self.cluster.seed
        nodes: dict[int, Node] = {}
        checks = ClusterChecks(nodes)
        raft = World(self.cluster, voters, SETTINGS, Checks(voters.majority), {}, unchanged)
        flushes = random.random() < 0.5
        site = Site(
            cluster=self.cluster,
            raft=raft,
            wire=Wire(self.cluster),
            checks=checks,
            config=FLUSHING if flushes else CONFIG,
            timing=Timing(),
            flushes=flushes,
            is_coded=seed % 10 == 0,
            balances=random.random() < 0.3,
            on_death=lambda node, is_power_loss: None,
            new_log=new_log,
            nodes=nodes,
        )
        checks.flushes = site.flushes
        return site

    def _engage_clients(self) -> None:
        random, site = self.random, self.site
        clients = [Client(site, FIRST_CLIENT_ID + number) for number in range(6)]
        self.clients = [client.node_id for client in clients]
        self.producers = [
            Producer(clients[number], number + 1, self._new_values)
            for number in range(random.choice((1, 2, 3)))
        ]
        self._careless = CarelessProducer(clients[3], self._new_values)
        self._carelessness = random.choice((0.0, 0.2, 0.5))
        self.consumers = [Consumer(clients[4]), Consumer(clients[4])]
        self.administrator = Administrator(clients[5])
        self._write_ms = random.choice((12, 25, 50))

    @property
    def nodes(self) -> dict[int, Node]:
        return self.site.nodes

    @property
    def checks(self) -> ClusterChecks:
        return self.site.checks

    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.topic_id, partition.index)
            for topic, partition in self.checks.image.partitions()
        ]

    def add_node(self, memory: QuorumState | None) -> Node:
        """One more machine, with a clock and a disk of its own."""
        node_id = len(self.nodes) + 1
        rack = f"rack-{node_id % 3}" if self._has_racks else None
        clock = self.cluster.draw_clock(DRIFT_PER_MILLE)
        node = Node(self.site, node_id, clock, self.new_disk(memory), rack)
        self.nodes[node_id] = node
        return node

    def new_disk(self, memory: QuorumState | None) -> RaftDisk:
        self._disk_number += 1
        return RaftDisk(UUID(int=self._disk_number), memory, SimulatedLog(is_joined))

    def _new_values(self, count: int) -> tuple[int, ...]:
        self._value += count
        return tuple(range(self._value - count, self._value))

    def trace(self, what: str) -> None:
        if self.site.trace is not None:
            self.site.trace(0, "*", what)

    # ---- telling it

    def run(self) -> ClusterEnding:
        """Tell it; BrokenPromiseError where it goes wrong."""
        schedule, random = self.cluster.schedule, self.random
        for node in self.nodes.values():
            schedule.after(random.randint(0, 50 * MS), node.start)
        for number in range(random.choice((1, 1, 2))):
            replicas = min(random.choice((3, 3, 3, 2)), len(self.nodes))
            min_isr = random.choice((1, 2)) if replicas > 1 else 1
            partitions = random.randint(1, 3)
            create = partial(self.administrator.create_topic, partitions, replicas, min_isr)
            schedule.after(number * 100 * MS, create)
        schedule.after(0, self._write)
        schedule.after(0, self._read)
        schedule.after(random.randint(100, 500) * MS, self.faults.strike)
        schedule.run(TROUBLE_MS * MS)
        self._heal()
        healed_us = schedule.now_us
        is_live = schedule.run(healed_us + LIVENESS_MS * MS, self._is_well)
        if not is_live:
            self.checks.never(self._illness())
        self.checks.compare_everything()
        committed = sum(truth.end_offset for truth in self.checks.truths.values())
        healed_ms = (schedule.now_us - healed_us) // MS
        return ClusterEnding(self.cluster.seed, schedule.steps, healed_ms, committed, self.checks.counts)

    def _write(self) -> None:
        random, partitions = self.random, self.partitions()
        if partitions and not self.is_healed:
            for _ in range(random.choice((1, 1, 3))):
                random.choice(self.producers).write(random.choice(partitions))
            if random.random() < self._carelessness:
                self._careless.write(random.choice(partitions))
        self.cluster.schedule.after(random.randint(1, 2 * self._write_ms) * MS, self._write)

    def _read(self) -> None:
        for partition in self.partitions():
            self.random.choice(self.consumers).poll(partition)
        self.cluster.schedule.after(self.random.randint(10, 50) * MS, self._read)

    # ---- and the end

    def _heal(self) -> None:
        self.is_healed = True
        self.trace("all is well from now on")
        self.faults.heal()
        for partition in self.partitions():
            for producer in self.producers:
                producer.write(partition)

    def is_settled(self) -> bool:
        """Everybody is there, and in sync with everybody."""
        image = self.checks.image
        for node in self.nodes.values():
            broker = image.brokers.get(node.node_id)
            if not node.is_up or node.is_paused or node.broker.is_stopping:
                return False
            if broker is None or not broker.is_eligible or not node.broker.is_admitted:
                return False
            if node.metadata.image.last_offset != image.last_offset:
                return False
        return all(
            partition.leader >= 0
            and len(partition.isr) == len(partition.replicas)
            and not partition.is_moving
            for _, partition in image.partitions()
        )

    def _is_well(self) -> bool:
        """And everything that was written is everywhere, and was read."""
        if not all(producer.is_idle for producer in self.producers) or not self.is_settled():
            return False
        topics = self.checks.image.topics_by_id
        for partition in self.partitions():
            replicas = topics[partition.topic_id].partitions[partition.partition_id].replicas
            if not all(self.checks.holds_all(node_id, partition) for node_id in replicas):
                return False
            end = self.checks.truth(partition).end_offset
            if any(consumer.positions.get(partition, 0) < end for consumer in self.consumers):
                return False
        return bool(topics)

    def _illness(self) -> str:
        image = self.checks.image
        fenced = [node_id for node_id, broker in image.brokers.items() if not broker.is_eligible]
        partitions = [partition for _, partition in image.partitions()]
        waiting = [producer.waiting for producer in self.producers]
        ends = {str(p): self.checks.truth(p).end_offset for p in self.partitions()}
        return (
            f"not well after {LIVENESS_MS} ms: fenced {fenced}, unsent {waiting}, committed {ends}, "
            f"read {[consumer.positions for consumer in self.consumers]}, {partitions}"
        )
