"""A broker's receiving half around one connection: gate, handlers, partitions and logs, and metadata that a
test changes.

`Side` is one broker with one client; a test runs two of them with the same metadata and compares what the
clients get. The answers of a read that needs no waiting are there when `exchange` returns; others come after
a change of metadata or a `commit`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from tests.unit.server.connected import LISTENER, ConnectedClient

from ottla.config import BrokerConfig
from ottla.controller.image import (
    BrokerImage,
    ClusterImage,
    ConfigResource,
    Endpoint,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.errors import ErrorCode
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.model import TopicPartition
from ottla.replication.events import FollowerFetched
from ottla.replication.isolation import ControllerSilent
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.threads import OsThreads
from ottla.runtime.unsynced_disk import UnsyncedDisk
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.handlers import Registered
from ottla.server.gate.quotas import Quotas
from ottla.server.gate.request_counts import RequestCounts
from ottla.server.net.connection import Connection
from ottla.server.partitions.file_removal import Remover
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.partition_table import Partitions

NODE, OTHER = 1, 2
_NEVER_ADDED = TopicPartition("orders", 1)
# More than a leader waits for the controller and its followers.
_LONG_MS = 3_600_000


@dataclass(slots=True)
class Metadata:
    """The controller's decisions so far, as images."""

    image: ClusterImage = field(
        default_factory=lambda: ClusterImage(
            "cluster",
            brokers={
                node_id: BrokerImage(
                    node_id, node_id, UUID(int=node_id), (Endpoint(LISTENER, f"host-{node_id}", 9092),)
                )
                for node_id in (NODE, OTHER)
            },
        )
    )
    created: int = 0

    def create(self, name: str, partitions: int, replicas: tuple[int, ...]) -> None:
        """A topic, with another id than any before it."""
        if name not in self.image.topics_by_name:
            self.created += 1
            placed = (PartitionImage(index, replicas, replicas, replicas[0]) for index in range(partitions))
            self._put(TopicImage(name, UUID(int=0x0771A << 64 | self.created), tuple(placed)))

    def delete(self, name: str) -> None:
        by_name = {known: topic for known, topic in self.image.topics_by_name.items() if known != name}
        self._replace(by_name)

    def place(self, name: str, index: int, **changes: Any) -> None:
        """Another leader, other replicas or other in-sync replicas of a partition, in a new epoch."""
        topic = self.image.topics_by_name.get(name)
        placed = None if topic is None else topic.partition(index)
        if topic is None or placed is None:
            return
        leads_anew = changes.get("leader", placed.leader) != placed.leader
        changed = replace(
            placed,
            leader_epoch=placed.leader_epoch + leads_anew,
            partition_epoch=placed.partition_epoch + 1,
            **changes,
        )
        partitions = [*topic.partitions]
        partitions[index] = changed
        self._put(replace(topic, partitions=tuple(partitions)))

    def configure(self, name: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, name)
        self.image = replace(self.image, configs={**self.image.configs, resource: dict(settings)})

    def _put(self, topic: TopicImage) -> None:
        self._replace({**self.image.topics_by_name, topic.name: topic})

    def _replace(self, by_name: dict[str, TopicImage]) -> None:
        by_id = {topic.topic_id: topic for topic in by_name.values()}
        self.image = replace(self.image, topics_by_name=by_name, topics_by_id=by_id)


async def _verify(
    _: str, __: int, ___: int, partitions: Collection[Any], *, adds: bool
) -> dict[Any, ErrorCode]:
    """The coordinator is another broker, and knows every partition but one."""
    return {
        partition: ErrorCode.TRANSACTION_ABORTABLE if partition == _NEVER_ADDED else ErrorCode.NONE
        for partition in partitions
    }


class Side:
    """One broker and one client of it."""

    def __init__(self, path: Path, registered: Registered) -> None:
        self.image = Metadata().image
        self.now_ms = 0
        config = BrokerConfig.from_properties({"node.id": str(NODE), "log.dir": str(path)})
        self._directory = LogDirectory(UnsyncedDisk(), str(path), OpenFiles())
        self._directory.open(NODE, uuid4, "cluster")
        self._flusher, self._remover = Flusher(OsThreads()), Remover(OsThreads())
        self.partitions = Partitions(lambda: self.image)
        self._hosting = Hosting(config, self._directory, self.partitions, self._remover, lambda: self.now_ms)
        services: Any = SimpleNamespace(
            config=config,
            quorum=SimpleNamespace(image=self.image),
            rights=None,
            quotas=Quotas(config.quotas, lambda: self.now_ms),
            partitions=self.partitions,
            flusher=self._flusher,
            requests=RequestCounts(),
            transactions=SimpleNamespace(verify=_verify),
            now_ms=lambda: self.now_ms,
        )
        self._services = services
        self._gate = Gate(services, registered)
        self._gate.open()
        self.connect()

    def connect(self) -> None:
        """A new connection of the client."""
        self._client = ConnectedClient(self._gate)

    @property
    def connection(self) -> Connection:
        return self._client.connection

    async def exchange(self, frames: bytes) -> bytes:
        """Send in one piece; the answers that do not have to wait."""
        await self._client.send(frames)
        return self._client.received()

    async def answers(self) -> bytes:
        """The bytes that the client can receive now."""
        await self._client.turns()
        return self._client.received()

    async def apply(self, image: ClusterImage) -> None:
        """Hear what the controller decided."""
        before, self.image = self.image, image
        self._services.quorum.image = image
        await self._hosting.apply(before, image)

    def commit(self) -> None:
        """The followers have everything that the partitions led here have."""
        for partition in self.partitions:
            if partition.replica.is_leader and partition.replica.followers:
                caught_up = FollowerFetched(OTHER, OTHER, partition.log.log_end_offset)
                partition.step(caught_up, self.now_ms)

    def cut_off(self, is_cut_off: bool) -> None:
        """This broker has lost the controller and its followers, or found them again."""
        silent_ms = _LONG_MS if is_cut_off else 0
        for partition in self.partitions:
            partition.step(ControllerSilent(silent_ms), monotonic_ms() + silent_ms)

    def logs(self) -> dict[str, bytes]:
        """The records of every partition, as they lie on disk."""
        found = {}
        for partition in self.partitions:
            log = partition.log
            stored = log.read(
                log.log_start_offset, 1 << 24, upper_offset=log.log_end_offset, at_least_one=True
            )
            found[partition.name] = b"" if stored is None else stored.file.read(stored.position, stored.size)
        return found

    async def close(self) -> None:
        self._client.close()
        await self._flusher.stop()
        self._remover.stop()
        for partition in self.partitions:
            partition.close()
        self._directory.close(clean=False)
