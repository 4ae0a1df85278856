"""How long a partition takes no writes with acks=all when its leader goes: shipped brokers with default settings, on a
network and disks as they mostly are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
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

pytestmark = pytest.mark.timeout(300)

NODES = 3
SEEDS = 6
TOPIC = "orders"
PROBE_S = 0.01
# The newest version that names topics, so that a probe needs no metadata.
VERSION = 9


class Town:
    """Three nodes that are both voters and brokers, one partition on all of them, and a client that always writes."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.network.late_share = 0.0
        self.nodes = [Node(self.world, number, _settings(number)) for number in range(1, NODES + 1)]
        self.client = self.world.start("probe", "probe")
        self.acknowledged: list[float] = []  # when each acknowledged write was sent
        self._connections: dict[int, Connection] = {}

    def open(self) -> None:
        """Until all nodes are in sync and writes come back."""
        for node in self.nodes:
            node.start()
        assert self.world.run(lambda: all(node.is_ready for node in self.nodes), 30)
        self.world.complete(self.client, _create_topic(), self.world.now + 10)
        self.client.create_task(self._write_always())
        settled_s = self.world.now + self.world.dice.uniform(1, 2)
        self.world.run(lambda: False, settled_s)
        assert len(self.acknowledged) > 50

    def placed(self) -> PartitionImage:
        """The partition in the newest image of a running node: how clients find the leader is not measured."""
        images = [
            node.broker.quorum.image for node in self.nodes if node.is_running and node.broker is not None
        ]
        topic = max(images, key=lambda image: image.last_offset).topics_by_name[TOPIC]
        return topic.partitions[0]

    def leader(self) -> Node:
        return self.nodes[self.placed().leader - 1]

    async def _write_always(self) -> None:
        while True:
            leader = self.placed().leader
            if leader > 0 and self.nodes[leader - 1].is_running:
                self.client.create_task(self._write(leader))
            await asyncio.sleep(PROBE_S)

    async def _write(self, leader: int) -> None:
        sent_s = self.world.now
        with suppress(ConnectionError, TimeoutError, KafkaError):
            connection = self._connections.get(leader)
            if connection is None or not connection.is_open:
                connection = await Connection.open("127.0.0.1", HOSTS_PORT + leader, timeout_ms=1_000)
                self._connections[leader] = connection
            answer = await connection.ask(_one_record(), VERSION)
            if answer.responses[0].partition_responses[0].error_code == 0:
                self.acknowledged.append(sent_s)


def _settings(number: int) -> dict[str, str]:
    return {
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{HOSTS_PORT + number}",
        "log.dir": f"/data/{number}",
        "controller.quorum.voters": voters_setting(NODES),
        "default.replication.factor": str(NODES),
        "min.insync.replicas": "2",
    }


def _one_record() -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"coffee", ())])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    return ProduceRequest(
        acks=ACKS_ALL, timeout_ms=1_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )


async def _create_topic() -> None:
    async with ottla.Admin(bootstrap(NODES)) as admin:
        ottla.succeeded(await admin.create_topics([ottla.NewTopic(TOPIC, partitions=1)]))


def kill(node: Node) -> None:
    node.kill()


def fall_silent(node: Node) -> None:
    """A machine without power says nothing."""
    node.kill(loses_power=True)


def gap_ms(seed: int, end: Callable[[Node], None], *, is_controller: bool) -> int:
    """From the end of a leader to the answer to the first write that was sent later."""
    for attempt in range(40):
        town = Town(1_000 * attempt + seed)
        town.open()
        leader = town.leader()
        assert leader.broker is not None
        if leader.broker.quorum.member.replica.is_leader is is_controller:
            break
        town.world.bury()
    world = town.world
    began_s = world.now
    end(leader)
    assert world.run(lambda: town.acknowledged[-1] > began_s and town.leader() is not leader, began_s + 60)
    took_s = world.now - began_s
    world.bury()
    return int(took_s * 1000)


@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize(("end", "bound_ms"), [(Node.stop, 150), (kill, 600), (fall_silent, 6_500)])
def test_writes_go_on_within(end: Callable[[Node], None], bound_ms: int, is_controller: bool) -> None:
    gaps = sorted(gap_ms(seed, end, is_controller=is_controller) for seed in range(SEEDS))
    assert gaps[-1] <= bound_ms, gaps
