"""The shards of one internal topic that this broker has: one for each partition that it leads.

Shards are loaded one after the other: the first ones serve while the last ones load, and all other requests
are served in between. A shard belongs to one leadership of its partition; another leadership begins with what
the log says then.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode, KafkaError
from ottla.server.coordinators.internal_topic import InternalTopic
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum

logger = logging.getLogger(__name__)


class Shard(Protocol):
    """One coordinator over one partition."""

    partition: HostedPartition

    @property
    def is_current(self) -> bool:
        """Whether the leadership that the shard answers under goes on."""

    def begin(self) -> None:
        """Answer from now on: the log is replayed, or there is nothing in it."""

    async def load(self) -> None:
        """Replay the log, then answer."""

    def unload(self) -> None:
        """This broker no longer coordinates: waiting requests are refused."""


S = TypeVar("S", bound=Shard)


class Shards(Generic[S]):
    """Loads shards as their partitions come, lets them go as they leave.

    `make` makes the shard of a partition; `loaded` is called after a shard's log was replayed.
    """

    def __init__(
        self,
        topic: InternalTopic,
        quorum: Quorum,
        partitions: Partitions,
        make: Callable[[HostedPartition], S],
        loaded: Callable[[S], None],
    ) -> None:
        self._topic = topic
        self._quorum = quorum
        self._partitions = partitions
        self._make = make
        self._when_loaded = loaded
        self._shards: dict[int, S] = {}
        self._unloaded: deque[S] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def all(self) -> list[S]:
        """All of this broker's."""
        return list(self._shards.values())

    def of(self, key: str) -> S:
        """The shard that answers for a key; KafkaError when it is not here."""
        index = self._topic.partition_of(key)
        if index is None or self._quorum.may_be_replaced:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        shard = self._shards.get(index)
        if shard is not None:
            return shard
        if self._topic.leader_of(key) != self._quorum.node_id or self._is_stopped:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        # The log may have been opened since: a full disk has room again, or the topic is just being created.
        self._take(index)
        if index not in self._shards:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._shards[index]

    def at(self, index: int) -> S | None:
        """The shard of a partition, if it is here."""
        return self._shards.get(index)

    def take_partitions(self, image: ClusterImage) -> None:
        """Coordinate what this broker leads, and nothing else."""
        for index, shard in list(self._shards.items()):
            if not shard.is_current:
                self._shards.pop(index).unload()
        topic = self._topic.in_image(image)
        for placed in topic.partitions if topic is not None else ():
            if placed.index not in self._shards:
                self._take(placed.index)

    async def stop(self) -> None:
        """Refuse all waiting requests."""
        self._is_stopped = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self._shards.values():
            shard.unload()

    def _take(self, index: int) -> None:
        partition = self._partitions.find(self._topic.name, index)
        if partition is None or not partition.replica.is_leader or self._is_stopped:
            return
        shard = self._shards[index] = self._make(partition)
        if not partition.log.log_end_offset:
            # Nothing to replay: the first client need not be told to come back.
            shard.begin()
            return
        self._unloaded.append(shard)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
            self._loading.add_done_callback(self._loaded)

    async def _load(self) -> None:
        while self._unloaded:
            shard = self._unloaded.popleft()
            try:
                await shard.load()
            except Exception:
                # What it coordinates stays without a coordinator; the others need not.
                logger.exception("%s could not be loaded", shard.partition.name)
                continue
            self._when_loaded(shard)

    def _loaded(self, _: asyncio.Task[None]) -> None:
        self._loading = None
