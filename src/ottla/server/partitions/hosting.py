"""Keeps the logs on disk in step with the cluster image: opens, assigns, configures, deletes partitions.

The directory of a deleted partition is renamed before it is removed, so that a crash in the middle cannot
bring half of it back. Reads under way hold their files open and finish. A replica that was moved away is
deleted in the same way.

The image is the truth, whatever the disk does: a log that cannot be opened now (the disk may be full) is
tried again until it can, and its partition answers KAFKA_STORAGE_ERROR meanwhile.

An image from before this start does not name the current leaders: the log may have lost its tail since, and
another broker may have been elected. So logs are opened at once, but leaders and followers are assigned only
when the image has the registration of this start.

Opening or deleting a log takes milliseconds, and a topic may have a thousand logs: requests are served after
each.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from uuid import UUID

from ottla.config import BrokerConfig, TopicConfig
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.image import ClusterImage, PartitionImage, ResourceType, TopicImage, topic_changes
from ottla.controller.remote_log import RemoteLog
from ottla.log.directory import LogDirectory
from ottla.model import TopicPartition
from ottla.replication.events import Assigned
from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo
from ottla.replication.partition import PartitionReplica
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.disk import is_out_of_room
from ottla.server.partitions.file_removal import Removable, Remover
from ottla.server.partitions.hosted_partition import HostedPartition, Propose, propose_nothing
from ottla.server.partitions.partition_table import Partitions

logger = logging.getLogger(__name__)

_METADATA_PREFIX = "__cluster_metadata-"
_NOTHING_REMOTE = RemoteLog()


class Hosting:
    """The partitions of one log directory."""

    def __init__(
        self,
        config: BrokerConfig,
        directory: LogDirectory,
        partitions: Partitions,
        remover: Remover,
        now_ms: Callable[[], int],
        *,
        incarnation_id: UUID | None = None,
        propose: Propose = propose_nothing,
    ) -> None:
        self._config = config
        self._directory = directory
        self._partitions = partitions
        self._remover = remover
        self._now_ms = now_ms
        self._incarnation_id = incarnation_id
        self._propose = propose
        # A follower for which there is nothing is silent for the wait of its fetch: that says nothing.
        self._isolation_patience_ms = max(
            config.membership.session_timeout_ms // 2, 2 * config.replication.fetch_wait_max_ms
        )
        self._image: ClusterImage | None = None
        self._watchers: list[Callable[[], None]] = []
        # Whether partitions are assigned. Without an id of this start (a broker that is alone) from the
        # beginning.
        self.is_active = incarnation_id is None

    def open_all(self, image: ClusterImage) -> None:
        """Open the logs of everything the image places on this node; name what lies there without a topic."""
        self._image = image
        for topic in image.topics_by_name.values():
            for _ in self._host(image, topic):
                pass
        for name in self._strays():
            if self._directory.topic_id_of(name) not in image.topics_by_id:
                logger.warning("%s is in the data directory but belongs to no topic; it is left alone", name)

    def lost_replicas(self, *, keeps_writes: bool) -> list[HostedPartition]:
        """The replicas whose logs lack records that they held; asked before their roles are taken.

        A log that ends below its last known high watermark has lost committed records, and so may have one with damage
        before whole batches. With `keeps_writes` (the machine has run since they were written) a damaged last batch was
        in the log once, too.
        """
        found = []
        for hosted in self._partitions:
            extent = hosted.log.extent
            hole, end = extent.first_lost_offset, extent.end_offset
            is_damaged = hole is not None or (keeps_writes and extent.has_damaged_tail)
            if is_damaged or end < self._directory.high_watermark(hosted.topic, hosted.index):
                found.append(hosted)
        return found

    async def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Carry a change of metadata out. It is decided: what the disk refuses is logged, and done later."""
        self._image = after
        if before.remote_logs is not after.remote_logs:
            self._configure_tiers(after)
        changes = topic_changes(before, after)
        for topic in changes.removed:
            for _ in self._delete(topic):
                await asyncio.sleep(0)
        changed = changes.changed
        if not self.is_active and self._is_registered(after):
            self.is_active = True
            changed = list(after.topics_by_name.values())
            self._remove_deleted(after)
            self._remove_strays(after)
        for topic in changed:
            for _ in self._try_to_host(after, topic):
                await asyncio.sleep(0)
        if before.configs is not after.configs:
            self._configure(after)
            self._configure_tiers(after)

    def when_opened(self, watcher: Callable[[], None]) -> None:
        """Be told when a log was opened that could not be opened before."""
        self._watchers.append(watcher)

    def retry(self) -> None:
        """Try again to open what could not be opened."""
        image, unopened = self._image, tuple(self._partitions.unopened)
        if image is None or not unopened:
            return
        for name in unopened:
            topic = image.topics_by_name.get(name)
            self._partitions.unopened.discard(name)
            for _ in self._try_to_host(image, topic) if topic is not None else ():
                pass
        for watcher in self._watchers:
            watcher()

    def remove(self, name: str, doomed: Removable) -> None:
        """Have files removed that left a log."""
        self._remover.remove(name, doomed)

    def checkpoint(self) -> None:
        """Write down how far each log is flushed, where it starts and what is committed."""
        partitions = [partition for partition in self._partitions if not partition.is_closed]
        self._directory.checkpoint(
            recovery_points={
                TopicPartition(p.topic, p.index): p.log.durability.flushed_offset for p in partitions
            },
            log_start_offsets={TopicPartition(p.topic, p.index): p.log.log_start_offset for p in partitions},
            high_watermarks={TopicPartition(p.topic, p.index): p.high_watermark.value for p in partitions},
        )

    def prepare_cuts(self, cuts: dict[HostedPartition, int]) -> None:
        """Before truncations: lower checkpoints on disk that are above them. OSError if that fails."""
        self._directory.lower_checkpoints(
            {TopicPartition(p.topic, p.index): offset for p, offset in cuts.items()}
        )

    def _is_registered(self, image: ClusterImage) -> bool:
        """Whether the image is from after this start."""
        known = image.brokers.get(self._config.node.id)
        return known is not None and known.incarnation_id == self._incarnation_id

    def _try_to_host(self, image: ClusterImage, topic: TopicImage) -> Iterator[None]:
        try:
            yield from self._host(image, topic)
        except OSError as problem:
            self._partitions.unopened.add(topic.name)
            if is_out_of_room(problem):
                self._directory.note_failure(problem)
            logger.error("a log of %s cannot be opened now: %s. It will be tried again.", topic.name, problem)

    def _host(self, image: ClusterImage, topic: TopicImage) -> Iterator[None]:
        """Bring the partitions of a topic in step, one log after the other.

        OSError when one cannot be opened.
        """
        config: TopicConfig | None = None
        for placed in topic.partitions:
            hosted = self._partitions.find(topic.name, placed.index)
            if self._config.node.id not in placed.replicas:
                if hosted is not None and self.is_active:
                    self._remove(hosted, "it was moved to other brokers")
                    yield
                continue
            is_new = hosted is None
            if hosted is None:
                config = config or self._topic_config(image, topic.name)
                hosted = self._open(topic, placed, config)
            if self.is_active:
                self._assign(hosted, placed)
            if is_new:
                self._partitions.add(hosted)
                yield

    def _assign(self, hosted: HostedPartition, placed: PartitionImage) -> None:
        replica = hosted.replica
        hosted.moves_to(placed.adding_replicas)
        if (replica.leader_epoch, replica.partition_epoch) == (placed.leader_epoch, placed.partition_epoch):
            return
        lost = hosted.log.extent.first_lost_offset
        if lost is not None and placed.leader == self._config.node.id:
            # Before the role is taken: the epoch begins where the log ends then. A follower does so before a
            # fetch.
            self._settle_hole(hosted, placed, lost)
        assigned = Assigned(
            leader=placed.leader,
            leader_epoch=placed.leader_epoch,
            isr=tuple(placed.isr),
            replicas=tuple(placed.replicas),
            partition_epoch=placed.partition_epoch,
            is_recovering=placed.is_recovering,
            damaged=frozenset(filter(placed.is_damaged_on, placed.replicas)),
        )
        hosted.assign(assigned, monotonic_ms())

    def _settle_hole(self, hosted: HostedPartition, placed: PartitionImage, lost: int) -> None:
        """Carry out what the replica decides about records that a crash took from the middle of its log."""
        acks_are_durable = hosted.flush_policy.must_flush(acks_all=True)
        hole = HoleFound(lost, placed.leader, placed.replicas, acks_are_durable=acks_are_durable)
        for effect in hosted.replica.step(hole, monotonic_ms()):
            match effect:
                case AcceptHole():
                    hosted.log.accept_loss()
                case TruncateTo(offset):
                    logger.error(
                        "%s leads, and lost records from %d on in a crash: it is truncated there",
                        hosted.name,
                        offset,
                    )
                    self.prepare_cuts({hosted: offset})
                    hosted.truncate_to(offset, monotonic_ms())

    def _configure(self, image: ClusterImage) -> None:
        configs: dict[str, TopicConfig] = {}
        for hosted in self._partitions:
            config = configs.get(hosted.topic) or self._topic_config(image, hosted.topic)
            configs[hosted.topic] = config
            if hosted.config != config:
                checked = hosted.checks_schemas
                hosted.configure(config)
                if hosted.checks_schemas != checked:
                    self._partitions.checks_changed()

    def _configure_tiers(self, image: ClusterImage) -> None:
        """Tell each partition what the object store holds of it."""
        if self._config.tiers.enable:
            for hosted in self._partitions:
                hosted.tier_is(self._remote_part(image, hosted))

    def _remote_part(self, image: ClusterImage | None, hosted: HostedPartition) -> RemoteLog | None:
        if image is None or not (self._config.tiers.enable and hosted.config.remote_storage_enable):
            return None
        topic = image.remote_logs.get(hosted.topic_id)
        return _NOTHING_REMOTE if topic is None else topic.partitions.get(hosted.index, _NOTHING_REMOTE)

    def _topic_config(self, image: ClusterImage, topic: str) -> TopicConfig:
        """The settings in force.

        The topic's own, then this broker's, then all brokers', then the static ones.
        """
        settings = BrokerSettings(image, self._config.node.id, self._config)
        return settings.topic_config(image.config_of(ResourceType.TOPIC, topic))

    def _open(self, topic: TopicImage, placed: PartitionImage, config: TopicConfig) -> HostedPartition:
        log = self._directory.open_log(topic.name, placed.index, topic.topic_id, config, self._now_ms())
        committed = self._directory.high_watermark(topic.name, placed.index)
        replica = PartitionReplica(
            self._config.node.id,
            min(max(committed, log.log_start_offset), log.log_end_offset),
            replica_lag_time_max_ms=self._config.replication.lag_time_max_ms,
            min_insync_replicas=config.min_insync_replicas,
            isolation_patience_ms=self._isolation_patience_ms,
            replica_silence_max_ms=self._config.replication.silence_max_ms,
        )
        hosted = HostedPartition(topic.name, topic.topic_id, placed.index, log, replica, self._propose)
        # Before it is served: a reader of remote records must not hear that they are gone.
        hosted.tier_is(self._remote_part(self._image, hosted))
        return hosted

    def _delete(self, topic: TopicImage) -> Iterator[None]:
        for placed in topic.partitions:
            hosted = self._partitions.find(topic.name, placed.index)
            if hosted is not None and hosted.topic_id == topic.topic_id:
                self._remove(hosted, None)
                yield

    def _remove(self, hosted: HostedPartition, reason: str | None) -> None:
        if reason is not None:
            logger.info("%s is removed from this broker: %s", hosted.name, reason)
        self._partitions.remove(hosted)
        try:
            self._remover.remove(hosted.name, hosted.log.begin_delete())
        except OSError as problem:
            logger.error("the files of %s could not all be removed: %s", hosted.name, problem)

    def _strays(self) -> list[str]:
        """Logs on disk that are not open."""
        hosted = {partition.name for partition in self._partitions}
        return [
            name
            for name in self._directory.partition_names()
            if name not in hosted and not name.startswith(_METADATA_PREFIX)
        ]

    def _remove_deleted(self, image: ClusterImage) -> None:
        """Remove what was opened by an older image, and whose topic was deleted since."""
        for hosted in tuple(self._partitions):
            if hosted.topic_id not in image.topics_by_id:
                self._remove(hosted, None)

    def _remove_strays(self, image: ClusterImage) -> None:
        """Remove what was moved away or deleted while this broker was down.

        A log of a topic that the metadata does not have is deleted only where other nodes keep the metadata,
        too: a node that is alone and lost its metadata must not throw the rest away with it.
        """
        is_alone = len(self._config.node.voters) <= 1 and self._config.node.is_voter
        for name in self._strays():
            topic = image.topics_by_id.get(self._directory.topic_id_of(name) or UUID(int=0))
            if topic is None and is_alone:
                continue
            placed = topic.partition(int(name.rpartition("-")[2])) if topic is not None else None
            if placed is not None and self._config.node.id in placed.replicas:
                continue
            logger.warning("%s is not placed on this broker any more; it is removed", name)
            try:
                self._remover.remove(name, self._directory.begin_delete(name))
            except OSError as problem:
                logger.error("the files of %s could not all be removed: %s", name, problem)
