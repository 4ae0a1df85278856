"""A node's part in the quorum without its broker: a directory, and the quorum that is opened on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from ottla.config import BrokerConfig, LogConfig
from ottla.controller.image import ClusterImage
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationRequest, Listener
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from ottla.runtime.clock import OsClock
from ottla.runtime.disk import Disk, OsDisk
from ottla.runtime.runtime import Runtime
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.opening import open_directory, open_quorum
from ottla.server.quorum.quorum import Quorum
from ottla.server.quorum.state_file import QuorumStateFile

NOW_MS = 1_700_000_000_000
DEADLINE_S = 10.0


def opened(path: Path, disk: Disk | None = None) -> LogDirectory:
    directory = LogDirectory(disk or OsDisk(), str(path), OpenFiles())
    open_directory(BrokerConfig(logs=LogConfig(dirs=str(path))), directory, uuid4)
    return directory


def metadata_log(directory: LogDirectory, disk: Disk | None = None) -> MetadataLog:
    disk = disk or OsDisk()
    file = QuorumStateFile(disk, f"{directory.path}/__cluster_metadata-0")
    return MetadataLog(directory, disk, file, lambda: NOW_MS)


class _Still(OsClock):
    """A time of day that stands."""

    def wall_ms(self) -> int:
        return NOW_MS


class Node:
    """A quorum that runs, and what it said."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.images: list[ClusterImage] = []
        self.halts: list[str] = []


@asynccontextmanager
async def running(
    path: Path, disk: Disk | None = None, delivers: bool = True, **settings: str
) -> AsyncIterator[Node]:
    """The quorum of one node that is alone."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.from_properties({"log.dirs": str(path), **names})
    directory = LogDirectory(disk or OsDisk(), str(path), OpenFiles())
    open_directory(config, directory, uuid4)
    node: Node

    async def on_image(before: ClusterImage, after: ClusterImage) -> None:
        node.images.append(after)

    quorum = open_quorum(
        config,
        directory,
        Runtime(clock=_Still(), disk=disk or OsDisk()),
        on_image,
        lambda why: node.halts.append(why),
    )
    node = Node(quorum)
    quorum.start()
    if delivers:
        quorum.deliver(quorum.image)
    try:
        yield node
    finally:
        await quorum.stop()
        await quorum.peers.close()
        directory.close()


async def join(quorum: Quorum, node_id: int = 1) -> None:
    """Register a broker and let it in."""
    registration = BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=quorum.image.cluster_id,
        listeners=[Listener("PLAINTEXT", "localhost", 9092)],
    )
    response = await quorum.submit(registration)
    assert response.error_code == 0
    beat = BrokerHeartbeatRequest(node_id, response.broker_epoch, response.broker_epoch)
    assert not (await quorum.submit(beat)).is_fenced


def creation(*names: str) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics, timeout_ms=5_000)


async def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not within {DEADLINE_S} s: {what}"
        await asyncio.sleep(0.002)
