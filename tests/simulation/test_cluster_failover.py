"""How long a partition takes no writes with acks=all when its leader goes, with the default settings, on a network and disks as they mostly are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.simulation.administrator import Administrator
from tests.simulation.broker_log import NO_PRODUCER, BrokerLog
from tests.simulation.clients import FIRST_CLIENT_ID, Client
from tests.simulation.cluster import US_PER_MS, Cluster
from tests.simulation.cluster_checks import ClusterChecks
from tests.simulation.node import Node
from tests.simulation.raft_checks import Checks
from tests.simulation.raft_codec import unchanged
from tests.simulation.raft_disk import RaftDisk, SimulatedLog
from tests.simulation.raft_node import World
from tests.simulation.site import Outgoing, Produce, Site, Timing, TopicPartition, is_joined
from tests.simulation.wire import REFUSED, Wire

from ottla.config import BrokerConfig
from ottla.controller.image import PartitionImage
from ottla.errors import ErrorCode
from ottla.model import ACKS_ALL
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet

CONFIG = BrokerConfig()
TIMING = Timing(
    heartbeat_ms=CONFIG.membership.heartbeat_interval_ms,
    session_ms=CONFIG.membership.session_timeout_ms,
    disconnect_grace_ms=CONFIG.membership.disconnect_grace_ms,
    lag_time_max_ms=CONFIG.replication.lag_time_max_ms,
    fetch_wait_ms=CONFIG.replication.fetch_wait_max_ms,
    request_timeout_ms=1_000,
    retry_ms=20,
    tick_ms=500,
    watch_ms=10,
    shutdown_ms=1_000,
)
SETTINGS = RaftSettings()
SEEDS = 8
MS = US_PER_MS
PROBE_MS = 10


class Town:
    """Three nodes that are both voters and brokers, one topic on all of them, and a client that always writes."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed)
        nodes: dict[int, Node] = {}
        voters = VoterSet([1, 2, 3])
        self.site = Site(
            cluster=self.cluster,
            raft=World(self.cluster, voters, SETTINGS, Checks(voters.majority), {}, unchanged),
            wire=Wire(self.cluster),
            checks=ClusterChecks(nodes),
            config=CONFIG,
            timing=TIMING,
            flushes=False,
            is_coded=False,
            balances=False,
            on_death=self._notice_death,
            new_log=BrokerLog,
            nodes=nodes,
        )
        for node_id in sorted(voters.ids):
            disk = RaftDisk(UUID(int=node_id), QuorumState(), SimulatedLog(is_joined))
            nodes[node_id] = Node(self.site, node_id, self.cluster.draw_clock(10), disk, None)
        self._client = Client(self.site, FIRST_CLIENT_ID)
        self._value = 0
        self.acknowledged: list[tuple[int, int]] = []  # when it was sent, when it was answered

    def _notice_death(self, node: Node, is_power_loss: bool) -> None:
        for other in self.site.nodes.values():
            if other is not node and not is_power_loss:
                close = partial(other.disconnected, node.node_id)
                self.cluster.pass_on(node.node_id, other.node_id, close)

    @property
    def partition(self) -> tuple[TopicPartition, PartitionImage]:
        ((topic, placed),) = self.site.checks.image.partitions()
        return TopicPartition(topic.topic_id, placed.index), placed

    def open(self) -> None:
        """Until everybody is in sync and writes come back."""
        for node in self.site.nodes.values():
            node.start()
        Administrator(Client(self.site, FIRST_CLIENT_ID + 1)).create_topic(1, 3, 2)
        schedule = self.cluster.schedule
        assert schedule.run(10_000 * MS, lambda: bool(list(self.site.checks.image.partitions())))
        self._write()
        schedule.run(schedule.now_us + self.cluster.random.randint(1_000, 2_000) * MS)
        assert len(self.acknowledged) > 50

    def _write(self) -> None:
        partition, placed = self.partition  # how clients find the leader is not measured
        if placed.leader >= 0:
            self._value += 1
            batch = Outgoing(NO_PRODUCER, -1, (self._value,))
            request = Produce(partition, ACKS_ALL, (batch,))
            self._client.ask(placed.leader, request, partial(self._answered, self.cluster.schedule.now_us))
        self._client.after(PROBE_MS, self._write)

    def _answered(self, sent_us: int, answer: Any) -> None:
        if answer is not None and answer is not REFUSED and answer[0].error is ErrorCode.NONE:
            self.acknowledged.append((sent_us, self.cluster.schedule.now_us))


def kill(node: Node) -> None:
    node.stop(is_power_loss=False)


def fall_silent(node: Node) -> None:
    node.stop(is_power_loss=True)


def gap_ms(seed: int, end: Callable[[Node], None], *, is_controller: bool) -> int:
    """From the end of a leader to the first answer to a write that came later."""
    for attempt in range(20):
        town = Town(1_000 * attempt + seed)
        town.open()
        leader = town.site.nodes[town.partition[1].leader]
        if leader.metadata.is_active is is_controller:
            break
    began_us = town.cluster.schedule.now_us
    end(leader)
    assert town.cluster.schedule.run(began_us + 60_000 * MS, lambda: town.acknowledged[-1][0] > began_us)
    return (town.cluster.schedule.now_us - began_us) // MS


@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize(("end", "bound_ms"), [(Node.shut_down, 150), (kill, 600), (fall_silent, 6_500)])
def test_writes_go_on_within(end: Callable[[Node], None], bound_ms: int, is_controller: bool) -> None:
    gaps = sorted(gap_ms(seed, end, is_controller=is_controller) for seed in range(SEEDS))
    assert gaps[-1] <= bound_ms, gaps
