"""A town: three shipped nodes with default settings, one partition on all of them, and a client that always writes.

For tests that measure how long a partition takes no writes with acks=all when something breaks, on a network and
disks as they mostly are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise

from tests.simulation.stories.settings import HOSTS_PORT, bootstrap, voters_setting
from tests.simulation.world.node import Node
from tests.simulation.world.scheduler import World

import ottla
from ottla.controller.image import PartitionImage
from ottla.errors import KafkaError
from ottla.model import ACKS_ALL
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.connection import Connection

NODES = 3
TOPIC = "orders"
PROBE_S = 0.01
# The newest version that names topics, so that a probe needs no metadata.
VERSION = 9


class Town:
    """Nodes that are both voters and brokers, partitions on all of them, and a client that always writes."""

    def __init__(
        self,
        seed: int,
        partitions: int = 1,
        *,
        nodes: int = NODES,
        probe_s: float = PROBE_S,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """A write goes out each `probe_s`. `settings` are of every node."""
        self.world = World(seed)
        self.world.network.late_share = 0.0
        self.nodes = [
            Node(self.world, number, _settings(number, nodes, settings or {}))
            for number in range(1, nodes + 1)
        ]
        self.client = self.world.start("probe", "probe")
        # When each acknowledged write to a partition was sent.
        self.acknowledged: list[list[float]] = [[] for _ in range(partitions)]
        self._connections: dict[tuple[int, int], Connection] = {}
        self._probe_s = probe_s
        self._is_quiet = False

    def open(self, *, leads_from_controller: bool | None = None, replicas: int | None = None) -> None:
        """Until all nodes are in sync and writes come back.

        The first partition is led by the controller, or by another node, if that is asked for; then it may have
        fewer replicas than there are nodes.
        """
        for node in self.nodes:
            node.start()
        assert self.world.run(lambda: all(node.is_ready for node in self.nodes), 30)
        partitions = len(self.acknowledged)
        topic = ottla.NewTopic(TOPIC, partitions=partitions)
        if leads_from_controller is not None:
            controller = self.controller()
            order = sorted(self.nodes, key=lambda node: (node is controller) is not leads_from_controller)
            topic = ottla.NewTopic(TOPIC, assignments={0: [node.number for node in order[:replicas]]})
        self.world.complete(self.client, _create(topic, len(self.nodes)), self.world.now + 10)
        for partition in range(partitions):
            self.client.create_task(self._write_always(partition))
        self.live_on(self.world.dice.uniform(1, 2))
        assert all(len(sent) > 0.5 / self._probe_s for sent in self.acknowledged)

    def live_on(self, seconds: float) -> None:
        """Let so much time pass."""
        self.world.run(lambda: False, self.world.now + seconds)

    def fall_quiet(self) -> None:
        """Nothing more is written."""
        self._is_quiet = True
        self.live_on(1)

    def placed(self, partition: int = 0) -> PartitionImage:
        """A partition in the newest image of a running node: how clients find the leader is not measured."""
        images = [
            node.broker.quorum.image for node in self.nodes if node.is_running and node.broker is not None
        ]
        topic = max(images, key=lambda image: image.last_offset).topics_by_name[TOPIC]
        return topic.partitions[partition]

    def leader(self, partition: int = 0) -> Node:
        return self.nodes[self.placed(partition).leader - 1]

    def controller(self) -> Node:
        return next(node for node in self.nodes if node.is_controller)

    def longest_gap_ms(self, since_s: float) -> int:
        """The longest time, from a moment until now, in which some partition acknowledged no write."""
        gaps = []
        for sent in self.acknowledged:
            marks = [since_s, *(sent_s for sent_s in sent if sent_s > since_s), self.world.now]
            gaps.append(max(after - before for before, after in pairwise(marks)))
        return int(max(gaps) * 1000)

    async def _write_always(self, partition: int) -> None:
        while True:
            leader = self.placed(partition).leader
            if leader > 0 and not self._is_quiet and self.nodes[leader - 1].is_running:
                self.client.create_task(self._write(leader, partition))
            await asyncio.sleep(self._probe_s)

    async def _write(self, leader: int, partition: int) -> None:
        sent_s = self.world.now
        with suppress(ConnectionError, TimeoutError, KafkaError):
            connection = self._connections.get((leader, partition))
            if connection is None or not connection.is_open:
                connection = await Connection.open("127.0.0.1", HOSTS_PORT + leader, timeout_ms=1_000)
                self._connections[leader, partition] = connection
            answer = await connection.ask(_one_record(partition), VERSION)
            if answer.responses[0].partition_responses[0].error_code == 0:
                self.acknowledged[partition].append(sent_s)


def _settings(number: int, nodes: int, more: Mapping[str, str]) -> dict[str, str]:
    return {
        **more,
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{HOSTS_PORT + number}",
        "log.dir": f"/data/{number}",
        "controller.quorum.voters": voters_setting(nodes),
        "default.replication.factor": str(nodes),
        "min.insync.replicas": "2",
    }


def _one_record(partition: int) -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"coffee", ())])
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    return ProduceRequest(
        acks=ACKS_ALL, timeout_ms=1_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )


async def _create(topic: ottla.NewTopic, nodes: int) -> None:
    async with ottla.Admin(bootstrap(nodes)) as admin:
        ottla.succeeded(await admin.create_topics([topic]))
