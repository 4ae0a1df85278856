"""Keeps the logs on disk in step with the cluster image: opens, creates, configures and deletes partitions.

A deleted partition's directory is renamed before it is removed, so that a crash in the middle cannot bring half of it
back. Readers under way hold their files open and finish.

The image is the truth, whatever the disk does: a log that cannot be opened now (the disk may be full) is tried again
until it can, and its partition answers KAFKA_STORAGE_ERROR meanwhile.

A log takes milliseconds to begin or to end, and a topic may have a thousand: after each, requests have their turn.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from ottla.config import BrokerConfig, TopicConfig
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.image import ClusterImage, PartitionImage, ResourceType, TopicImage, topic_changes
from ottla.log.directory import LogDirectory
from ottla.replication.partition import Assigned, PartitionReplica
from ottla.server.partitions import HostedPartition, Partitions
from ottla.server.removal import Removable, Remover

logger = logging.getLogger(__name__)


class Hosting:
    """The partitions of one log directory."""

    def __init__(
        self,
        config: BrokerConfig,
        directory: LogDirectory,
        partitions: Partitions,
        remover: Remover,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._directory = directory
        self._partitions = partitions
        self._remover = remover
        self._now_ms = now_ms
        self._image: ClusterImage | None = None

    def open_all(self, image: ClusterImage) -> None:
        """Open the logs of everything the image places on this node; name what lies there without a topic."""
        self._image = image
        for topic in image.topics_by_name.values():
            for _ in self._host(image, topic):
                pass
        known = {partition.name for partition in self._partitions}
        for name in self._directory.partition_names():
            if name not in known and not name.startswith("__cluster_metadata-"):
                logger.warning("%s is in the data directory but belongs to no topic; it is left alone", name)

    async def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Carry a change of metadata out. It is decided: what the disk refuses is logged, and done later."""
        self._image = after
        changes = topic_changes(before, after)
        for topic in changes.removed:
            for _ in self._delete(topic):
                await asyncio.sleep(0)
        for topic in changes.changed:
            for _ in self._try_to_host(after, topic):
                await asyncio.sleep(0)
        if before.configs is not after.configs:
            self._configure(after)

    def retry(self) -> None:
        """Try again to open what could not be opened."""
        image = self._image
        if image is None:
            return
        for name in tuple(self._partitions.unopened):
            topic = image.topics_by_name.get(name)
            self._partitions.unopened.discard(name)
            for _ in self._try_to_host(image, topic) if topic is not None else ():
                pass

    def remove(self, name: str, doomed: Removable) -> None:
        """Have files removed that left a log."""
        self._remover.remove(name, doomed)

    def checkpoint(self) -> None:
        """Write down how far each log is flushed, where it starts and what is committed."""
        partitions = [partition for partition in self._partitions if not partition.is_closed]
        self._directory.checkpoint(
            recovery_points={(p.topic, p.index): p.log.flushed_offset for p in partitions},
            log_start_offsets={(p.topic, p.index): p.log.log_start_offset for p in partitions},
            high_watermarks={(p.topic, p.index): p.high_watermark.value for p in partitions},
        )

    def _try_to_host(self, image: ClusterImage, topic: TopicImage) -> Iterator[None]:
        try:
            yield from self._host(image, topic)
        except OSError as problem:
            self._partitions.unopened.add(topic.name)
            logger.error("a log of %s cannot be opened now: %s. It will be tried again.", topic.name, problem)

    def _host(self, image: ClusterImage, topic: TopicImage) -> Iterator[None]:
        """Bring the partitions of a topic in step, one log after the other; OSError when one cannot be opened."""
        config = self._topic_config(image, topic.name)
        for placed in topic.partitions:
            if self._config.node_id not in placed.replicas:
                continue
            hosted = self._partitions.find(topic.name, placed.index)
            is_new = hosted is None
            hosted = hosted or self._open(topic, placed, config)
            hosted.assign(_assigned(placed), self._now_ms())
            if is_new:
                self._partitions.add(hosted)
                yield

    def _configure(self, image: ClusterImage) -> None:
        configs: dict[str, TopicConfig] = {}
        for hosted in self._partitions:
            config = configs.get(hosted.topic) or self._topic_config(image, hosted.topic)
            configs[hosted.topic] = config
            if hosted.config != config:
                hosted.configure(config)

    def _topic_config(self, image: ClusterImage, topic: str) -> TopicConfig:
        """The settings in force: the topic's own, then this broker's, then all brokers', then the static ones."""
        settings = BrokerSettings(image, self._config.node_id, self._config)
        return settings.topic_config(image.config_of(ResourceType.TOPIC, topic))

    def _open(self, topic: TopicImage, placed: PartitionImage, config: TopicConfig) -> HostedPartition:
        log = self._directory.open_log(topic.name, placed.index, topic.topic_id, config, self._now_ms())
        replica = PartitionReplica(self._config.node_id, log.log_start_offset)
        return HostedPartition(topic.name, topic.topic_id, placed.index, log, replica)

    def _delete(self, topic: TopicImage) -> Iterator[None]:
        for placed in topic.partitions:
            hosted = self._partitions.find(topic.name, placed.index)
            if hosted is not None and hosted.topic_id == topic.topic_id:
                self._partitions.remove(hosted)
                try:
                    self._remover.remove(hosted.name, hosted.log.begin_delete())
                except OSError as problem:
                    logger.error("the files of %s could not all be removed: %s", hosted.name, problem)
                yield


def _assigned(placed: PartitionImage) -> Assigned:
    return Assigned(
        leader=placed.leader,
        leader_epoch=placed.leader_epoch,
        isr=tuple(placed.isr),
        replicas=tuple(placed.replicas),
    )
