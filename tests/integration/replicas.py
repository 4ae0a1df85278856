"""Several brokers in one loop that replicate over real sockets and real logs, and one controller in memory in
place of a quorum.

What the controller decides is replayed on every node in order; a node that is `cut_off` from it hears nothing
until it is let in again. `kill` ends a node as kill -9 does: nothing is flushed, no mark of a clean stop is
left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tests.integration.peer import batch, produce_request

from ottla.config import BrokerConfig, ConnectionConfig
from ottla.config.listeners import Listener as ListenerAddress
from ottla.controller.commands import FenceBrokers
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage, PartitionImage
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.model import Address
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest, Listener
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
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
from ottla.replication.fetch_session import FetchSessions
from ottla.runtime.disk import Disk, OsDisk
from ottla.runtime.runtime import Runtime
from ottla.server.apis.table import registered
from ottla.server.coordinators.coordinators import Coordinators
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.services import Services
from ottla.server.net import listener as listening
from ottla.server.partitions.file_removal import Remover
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition, Partitions
from ottla.server.partitions.hosting import Hosting
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.producer_ids import ProducerIds
from ottla.server.replicas.fetchers import Fetchers
from ottla.server.replicas.follower_sessions import FollowerSessions
from ottla.server.replicas.isr_proposals import Isr
from ottla.wire.connection import Connection

HOST = "127.0.0.1"
CLUSTER_ID = "a-cluster-of-few-nodes"
DEADLINE_S = 10.0


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition, not for a time."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(0.005)


class NodeQuorum:
    """The quorum as one node sees it: what was decided, as far as it has reached the node."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.controller = cluster.new_controller(node_id)
        self.broker_epoch = -1
        self.is_cut_off = False

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def controller_id(self) -> int:
        return -1 if self.is_cut_off else 0

    @staticmethod
    def is_metadata_fetch(_: Any) -> bool:
        return False

    async def submit(self, request: Any) -> Any:
        if self.is_cut_off:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        if isinstance(request, AlterPartitionRequest):
            self._cluster.proposals.append(request)
        return await self._cluster.submit(request)

    def submit_soon(self, request: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self.submit(request))


class Node:
    """One broker."""

    def __init__(self, cluster: Cluster, node_id: int, disk: Disk | None = None) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.quorum = NodeQuorum(cluster, node_id)
        properties = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:0",
            "log.dir": str(cluster.directory / f"node-{node_id}"),
            **cluster.settings,
        }
        self.config = config = BrokerConfig.from_properties(properties)
        files = OpenFiles()
        self.runtime = Runtime(disk=disk or OsDisk())
        self.directory = LogDirectory(self.runtime.disk, config.logs.directory, files)
        self.incarnation_id = uuid4()
        self.flusher = Flusher(self.runtime.threads)
        self.remover = Remover(self.runtime.threads)
        quorum: Any = self.quorum
        self.partitions = Partitions(lambda: self.quorum.image)
        self.isr = Isr(config, quorum, self.partitions)
        self.hosting = Hosting(
            config,
            self.directory,
            self.partitions,
            self.remover,
            wall_ms,
            incarnation_id=self.incarnation_id,
            propose=self.isr.propose,
        )
        self.peers = Peers(node_id, self._address_of)
        self.sessions = FollowerSessions(lambda: self.runtime.random.randrange(1, 1 << 31))
        self.fetchers = Fetchers(
            config, quorum, self.partitions, self.hosting, self.peers, self.flusher, self.sessions, wall_ms
        )
        self.coordinators = Coordinators(config, quorum, self.partitions, self.flusher, self.runtime)
        self.services = Services(
            config=config,
            quorum=quorum,
            partitions=self.partitions,
            fetch_sessions=FetchSessions(100, lambda: uuid4().int & 0x7FFF_FFFF),
            follower_sessions=self.sessions,
            flusher=self.flusher,
            producer_ids=ProducerIds(quorum),
            coordinators=self.coordinators,
            duties=quorum,
            load=quorum,
            disk=self.runtime.disk,
            now_ms=wall_ms,
        )
        self.listener: listening.Listener | None = None
        self.is_running = False

    @property
    def port(self) -> int:
        assert self.listener is not None
        return self.listener.port

    async def start(self, port: int = 0) -> None:
        """Open what is there, listen, register, follow."""
        self.directory.open(self.node_id, uuid4, CLUSTER_ID)
        self.hosting.open_all(self.quorum.image)
        limits = ConnectionConfig(listen_backlog_size=128, send_buffer_bytes=-1)
        self.listener = listening.Listener(
            ListenerAddress("PLAINTEXT", HOST, port),
            Gate(self.services, registered),
            limits,
            self.runtime.network,
        )
        self.listener.bind()
        self.listener.start_accepting()
        self.listener.open_gate()
        self.coordinators.start()
        self.isr.start()
        self.fetchers.start()
        self.is_running = True
        await self.cluster.register(self)

    async def kill(self) -> None:
        """Be gone, with nothing flushed and nobody told."""
        self.is_running = False
        if self.listener is not None:
            self.listener.stop_accepting()
            await self.listener.drain(0)
        await self.isr.stop()
        await self.fetchers.stop()
        await self.coordinators.stop()
        await self.peers.close()
        await self.flusher.stop()
        self.remover.stop()
        for partition in self.partitions:
            partition.close()
        self.directory.close(clean=False)

    def on_image(self, before: ClusterImage) -> Any:
        return self._on_image(before, self.quorum.image)

    async def _on_image(self, before: ClusterImage, after: ClusterImage) -> None:
        await self.hosting.apply(before, after)
        self.coordinators.apply(before, after)
        self.fetchers.apply(before, after)

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

    def _address_of(self, node_id: int) -> Address | None:
        other = self.cluster.nodes.get(node_id)
        return None if other is None else Address(HOST, other.port)


class Cluster:
    """The nodes, and the controller that all of them obey."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.directory = directory
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self.proposals: list[AlterPartitionRequest] = []
        self.log: list[list[Any]] = []
        self._decided = asyncio.Lock()
        self._heard: dict[int, int] = {}
        self.controller = self.new_controller(0)

    def new_controller(self, node_id: int) -> Controller:
        config = BrokerConfig.from_properties({"node.id": str(node_id), **self.settings})
        return Controller(node_id, CLUSTER_ID, config, uuid4)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    async def submit(self, request: Any) -> Any:
        """Decide, and let everybody know who can hear."""
        async with self._decided:
            decision = self.controller.command(request, wall_ms())
            if decision.records:
                self.log.append(list(decision.records))
                _replay(self.controller, decision.records)
                await self._deliver()
            return decision.response

    async def let_in(self, node_id: int) -> None:
        """A node hears of everything that it has missed."""
        self.nodes[node_id].quorum.is_cut_off = False
        async with self._decided:
            await self._deliver()

    async def _deliver(self) -> None:
        for node in list(self.nodes.values()):
            if node.is_running and not node.quorum.is_cut_off:
                await self.catch_up(node)

    async def catch_up(self, node: Node) -> None:
        for records in self.log[self._heard.get(node.node_id, 0) :]:
            before = node.quorum.image
            _replay(node.quorum.controller, records)
            await node.on_image(before)
        self._heard[node.node_id] = len(self.log)

    async def register(self, node: Node, previous_epoch: int = -1) -> None:
        request = BrokerRegistrationRequest(
            broker_id=node.node_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=node.incarnation_id,
            listeners=[Listener("PLAINTEXT", HOST, node.port, 0)],
            previous_broker_epoch=previous_epoch,
        )
        response = await self.submit(request)
        assert response.error_code == 0
        node.quorum.broker_epoch = response.broker_epoch
        await self.submit(
            BrokerHeartbeatRequest(
                broker_id=node.node_id,
                broker_epoch=response.broker_epoch,
                current_metadata_offset=self.image.last_offset,
            )
        )

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            await self.start_node(node_id)

    async def start_node(self, node_id: int, disk: Disk | None = None) -> Node:
        former = self.nodes.get(node_id)
        port = 0 if former is None else former.port
        node = self.nodes[node_id] = Node(self, node_id, disk)
        self._heard[node_id] = 0
        await node.start(port)
        return node

    async def kill(self, node_id: int, *, notice: bool = True) -> None:
        """A node dies; the controller notices, or not."""
        await self.nodes[node_id].kill()
        if notice:
            await self.fence(node_id)

    async def fence(self, node_id: int) -> None:
        await self.submit(FenceBrokers((node_id,)))

    async def stop(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                await node.kill()

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

    def leader(self, topic: str = "t", index: int = 0) -> Node:
        return self.nodes[self.placed(topic, index).leader]

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


def _replay(controller: Controller, records: list[Any]) -> None:
    for record in records:
        controller.replay(record, controller.image.last_offset + 1)


@asynccontextmanager
async def running(directory: Path, *node_ids: int, **settings: str | int) -> AsyncIterator[Cluster]:
    """A cluster for the length of a block; settings with _ for each dot."""
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    cluster = Cluster(directory, named)
    try:
        await cluster.start(*node_ids)
        yield cluster
    finally:
        await cluster.stop()


def reassignment(topic: str, replicas: list[int]) -> AlterPartitionReassignmentsRequest:
    one = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=1000, topics=[ReassignableTopic(name=topic, partitions=[one])]
    )
