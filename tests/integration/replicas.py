"""A controller and several brokers in the test's loop: each a shipped `Broker` with a port, a directory and
real connections.

The controller (node 0) leads nothing itself. Connections to it pass a proxy, so that a broker can be cut off
from it (`cut_off`) and let in again while clients and other brokers reach the broker as before. `kill` ends a
broker as kill -9 does: nothing is flushed, no mark of a clean stop is left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.integration.peer import batch, produce_request

from ottla.config import BrokerConfig
from ottla.controller.commands import FenceBrokers
from ottla.controller.image import ClusterImage, PartitionImage
from ottla.localcluster.ports import HOST, free_ports
from ottla.localcluster.proxy import ClusterProxy, isolating
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.produce import PartitionProduceResponse
from ottla.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.records.batch import iter_batches
from ottla.runtime.disk import Disk, OsDisk
from ottla.runtime.runtime import Runtime
from ottla.server.broker import Broker
from ottla.server.gate.services import Services
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum
from ottla.server.replicas.fetchers import Fetchers
from ottla.wire.connection import Connection

CONTROLLER = 0
DEADLINE_S = 20.0


async def until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition, not for a time."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(0.005)


class Node:
    """One broker, and a look into its parts."""

    def __init__(self, config: BrokerConfig, disk: Disk | None) -> None:
        self.node_id = config.node.id
        self.broker = Broker(config, Runtime(disk=disk or OsDisk()))
        self.is_running = True
        self.is_cut_off = False

    @property
    def port(self) -> int:
        return self.broker.port

    @property
    def quorum(self) -> Quorum:
        return self.broker.quorum

    @property
    def partitions(self) -> Partitions:
        return self.broker.partitions

    @property
    def hosting(self) -> Hosting:
        return self.broker._built.hosting

    @property
    def fetchers(self) -> Fetchers:
        return self.broker._built.fetchers

    @property
    def services(self) -> Services:
        return self.broker._built.services

    async def kill(self) -> None:
        self.is_running = False
        await self.broker.abort()

    def partition(self, topic: str = "t", index: int = 0) -> HostedPartition:
        found = self.partitions.find(topic, index)
        assert found is not None, f"{topic}-{index} is not on node {self.node_id}"
        return found

    def values(self, topic: str = "t", index: int = 0) -> list[bytes | None]:
        """All values in this node's log, committed or not."""
        log = self.partition(topic, index).log
        values: list[bytes | None] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(offset, 1 << 24, upper_offset=log.log_end_offset, at_least_one=True)
            assert found is not None
            for stored in iter_batches(found.file.read(found.position, found.size)):
                values += [record.value for record in stored.records()]
            offset = found.next_offset
        return values


class Overheard:
    """Requests of one type that a node sends to others, before they go out; may change their answers.

    An answer that `change` turns into None is lost with its connection.
    """

    def __init__(self, node: Node, request: type[Any], purpose: str = "") -> None:
        self._ask = node.quorum.peers.ask
        self._type = request
        self._purpose = purpose
        self.requests: list[tuple[str, Any]] = []
        self._under_way: set[tuple[int, str]] = set()
        self.change: Callable[[Any], Any] = lambda response: response
        node.quorum.peers.ask = self.ask  # type: ignore[method-assign]

    async def ask(self, node_id: int, request: Any, *, purpose: str, **options: Any) -> Any:
        if not isinstance(request, self._type) or not purpose.startswith(self._purpose):
            return await self._ask(node_id, request, purpose=purpose, **options)
        assert (node_id, purpose) not in self._under_way, "one request of a purpose at a time"
        self._under_way.add((node_id, purpose))
        self.requests.append((purpose, request))
        try:
            response = await self._ask(node_id, request, purpose=purpose, **options)
        finally:
            self._under_way.discard((node_id, purpose))
        changed = self.change(response)
        if changed is None:
            raise ConnectionResetError("lost")
        return changed


class Cluster:
    """The brokers by their ids, and their controller."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.directory = directory
        self._settings = settings
        self.nodes: dict[int, Node] = {}
        self._door, self._controller_port = free_ports(HOST, 2)
        self._ports: dict[int, int] = {}
        self._network = ClusterProxy(HOST)
        self._controller: Broker | None = None

    @property
    def controller(self) -> Broker:
        assert self._controller is not None, "the controller does not run"
        return self._controller

    @property
    def image(self) -> ClusterImage:
        """The cluster as the controller knows it."""
        return self.controller.quorum.image

    # ---- the cluster's life

    async def start_controller(self) -> None:
        await self._network.open_door(CONTROLLER, self._door, self._controller_port)
        controller = Broker(self._config(CONTROLLER, "controller", self._controller_port))
        async with asyncio.timeout(DEADLINE_S):
            await controller.start()
        self._controller = controller

    async def kill_controller(self) -> None:
        """No broker has a controller from now on."""
        controller, self._controller = self.controller, None
        await controller.abort()

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            await self.start_node(node_id)

    async def start_node(self, node_id: int, disk: Disk | None = None) -> Node:
        """Start a broker, and return when it serves."""
        if node_id not in self._ports:
            (self._ports[node_id],) = free_ports(HOST, 1)
        self._network.links.heal(node_id)
        node = Node(self._config(node_id, "broker", self._ports[node_id]), disk)
        async with asyncio.timeout(DEADLINE_S):
            await node.broker.start()
        self.nodes[node_id] = node
        await self._delivered()
        return node

    async def kill(self, node_id: int, *, notice: bool = True) -> None:
        """A broker dies; the controller notices, or not."""
        if not notice:
            self.cut_off(node_id)
        await self.nodes[node_id].kill()
        if notice:
            await until(lambda: self.image.brokers[node_id].is_fenced, f"node {node_id} is fenced")
            await self._delivered()

    async def fence(self, node_id: int) -> None:
        """The controller fences a broker that lives. Its next heartbeat lifts that, unless it is cut off."""
        await self.submit(FenceBrokers((node_id,)))

    def cut_off(self, node_id: int) -> None:
        """Nothing passes between a broker and the controller."""
        self.nodes[node_id].is_cut_off = True
        self._network.links.cut(isolating(node_id, [CONTROLLER]))

    async def let_in(self, node_id: int) -> None:
        """A broker hears of everything that it has missed, and the controller of the broker."""
        self.nodes[node_id].is_cut_off = False
        self._network.links.heal(node_id)
        await until(lambda: not self.image.brokers[node_id].is_fenced, f"node {node_id} is let in")
        await self._delivered()

    async def stop(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                await node.kill()
        if self._controller is not None:
            await self.kill_controller()
        await self._network.stop()

    def _config(self, node_id: int, role: str, port: int) -> BrokerConfig:
        return BrokerConfig.from_properties(
            {
                "node.id": str(node_id),
                "process.roles": role,
                "listeners": f"PLAINTEXT://{HOST}:{port}",
                "log.dir": str(self.directory / f"node-{node_id}"),
                "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{self._door}",
                "log.cleaner.enable": "false",
                **self._settings,
            }
        )

    async def _delivered(self) -> None:
        """Every broker that can hear has carried out what is decided."""
        offset = self.image.last_offset
        for node in self.nodes.values():
            if node.is_running and not node.is_cut_off:
                async with asyncio.timeout(DEADLINE_S):
                    await node.quorum.in_force(offset)

    async def until_led_by(self, node_id: int, topic: str = "t") -> None:
        """Wait until the controller has elected a broker, and the broker knows."""
        await until(lambda: self.placed(topic).leader == node_id, f"node {node_id} leads")
        await self._delivered()

    # ---- what is asked of it

    async def submit(self, request: Any) -> Any:
        """Have the controller decide, and everybody know who can hear."""
        response = await self.controller.quorum.submit(request)
        await self._delivered()
        return response

    async def create_topic(
        self, name: str = "t", *assignments: tuple[int, ...], **configs: str | int
    ) -> UUID:
        """A topic with one partition for each assignment; settings with _ for each dot."""
        request = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(assignments)
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                for key, value in configs.items()
            ],
        )
        response = await self.submit(CreateTopicsRequest(topics=[request], timeout_ms=1000))
        created = response.topics[0]
        assert created.error_code == 0, created.error_message
        topic_id: UUID = created.topic_id
        return topic_id

    def placed(self, topic: str = "t", index: int = 0) -> PartitionImage:
        return self.image.topics_by_name[topic].partitions[index]

    async def until_isr(self, *members: int, topic: str = "t", index: int = 0) -> None:
        await until(
            lambda: set(self.placed(topic, index).isr) == set(members),
            f"{topic}-{index} has the ISR {members}, not {self.placed(topic, index).isr}",
        )

    async def ask(self, node_id: int, request: Any, version: int | None = None) -> Any:
        async with await Connection.open(HOST, self.nodes[node_id].port) as connection:
            return await connection.ask(request, version)

    async def produce(
        self,
        *values: bytes,
        topic: str = "t",
        index: int = 0,
        node: int | None = None,
        version: int = 9,
        acks: int = -1,
        timeout_ms: int = 10_000,
        **options: Any,
    ) -> PartitionProduceResponse:
        """Produce one batch to the leader, or to a certain node; the partition's answer."""
        at = self.placed(topic, index).leader if node is None else node
        records = batch(*values, **options)
        request = produce_request(topic, records, partition=index, acks=acks, timeout_ms=timeout_ms)
        response = await self.ask(at, request, version)
        found: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return found


@asynccontextmanager
async def running(directory: Path, *node_ids: int, **settings: str | int) -> AsyncIterator[Cluster]:
    """A cluster for the length of a block; settings with _ for each dot."""
    cluster = Cluster(directory, {name.replace("_", "."): str(value) for name, value in settings.items()})
    try:
        await cluster.start_controller()
        await cluster.start(*node_ids)
        yield cluster
    finally:
        await cluster.stop()


def reassignment(topic: str, replicas: list[int]) -> AlterPartitionReassignmentsRequest:
    one = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=1000, topics=[ReassignableTopic(name=topic, partitions=[one])]
    )
