"""The partitions this broker hosts: each a log, a replica that decides, and those who wait for it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol
from uuid import UUID

from ottla.config import LONG_MAX, TopicConfig
from ottla.controller.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.log.append import Appended
from ottla.log.leader_epochs import EpochEnd
from ottla.log.log import Log
from ottla.log.reading import FileRange
from ottla.replication.partition import (
    ACKS_ALL,
    READ_COMMITTED,
    Assigned,
    LogEndOffsetMoved,
    PartitionReplica,
)
from ottla.server.watermark import Watermark

logger = logging.getLogger(__name__)


class Reader(Protocol):
    """Somebody who waits for new records in a long poll."""

    def on_append(self, size_bytes: int) -> None:
        """More can be read now."""

    def wake(self) -> None:
        """Do not wait any longer."""


class HostedPartition:
    """One partition on this broker. Thin: the log stores, the replica decides, this joins them."""

    __slots__ = (
        "_config",
        "_min_insync_replicas",
        "flushed",
        "flushes_by_time",
        "high_watermark",
        "index",
        "is_closed",
        "log",
        "readers",
        "replica",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: UUID, index: int, log: Log, replica: PartitionReplica) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.replica = replica
        self._config = log.config
        self.flushes_by_time = log.config.flush_ms < LONG_MAX
        self._min_insync_replicas = log.config.min_insync_replicas
        self.high_watermark = Watermark(replica.high_watermark)
        self.flushed = Watermark(log.flushed_offset)
        self.readers: set[Reader] = set()
        self.is_closed = False

    @property
    def name(self) -> str:
        """As in directory names and log lines."""
        return f"{self.topic}-{self.index}"

    @property
    def config(self) -> TopicConfig:
        """The topic's settings in force."""
        return self._config

    @property
    def last_stable_offset(self) -> int:
        """Where a reader of committed records must stop."""
        return self.replica.readable_up_to(READ_COMMITTED, self.log.first_unstable_offset)

    def configure(self, config: TopicConfig) -> None:
        """Take changed settings over."""
        self._config = config
        self.flushes_by_time = config.flush_ms < LONG_MAX
        self.log.configure(config)
        self._set_min_insync_replicas()

    def assign(self, assigned: Assigned, now_ms: int) -> None:
        """Take the controller's decision over."""
        self.replica.step(assigned, now_ms)
        self._set_min_insync_replicas()
        self._log_end_offset_moved(0, now_ms)

    def append_error(self, acks: int) -> ErrorCode:
        """Why an append must be refused now, or NONE."""
        if self.is_closed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.replica.append_error(acks, self._min_insync_replicas)

    def append(self, record_sets: Sequence[memoryview], now_ms: int) -> list[Appended | KafkaError]:
        """Append a producer's record sets in order, with one write."""
        log = self.log
        end_before = log.log_end_offset
        outcomes = log.append(record_sets, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        if log.log_end_offset != end_before:
            self._log_end_offset_moved(sum(map(len, record_sets)), now_ms)
        return outcomes

    def append_own(self, batch: memoryview, now_ms: int) -> Appended:
        """Append a batch of the broker's own; KafkaError when it cannot be written."""
        error = self.append_error(ACKS_ALL)
        if error:
            raise KafkaError(error)
        appended = self.log.append_records(batch, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        self._log_end_offset_moved(len(batch), now_ms)
        return appended

    def read(self, offset: int, max_bytes: int, isolation_level: int, at_least_one: bool) -> FileRange | None:
        """Whole batches from `offset` on that this reader may see."""
        upper = self.replica.readable_up_to(isolation_level, self.log.first_unstable_offset)
        return self.log.read(offset, max_bytes, upper_offset=upper, at_least_one=at_least_one)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest leader epoch that is at most `epoch`, and where it ends; (-1, -1) if that is unknown.

        The log hears of an epoch with its first record; that it has begun where the log ends is known before.
        """
        epochs, end = self.log.leader_epochs, self.log.log_end_offset
        current = self.replica.leader_epoch
        if epochs.latest < epoch <= current:
            is_older = epoch < current and epochs.latest >= 0
            return EpochEnd(epochs.latest if is_older else epoch, end)
        return epochs.end_offset_for(epoch, end)

    def must_flush(self, acks_all: bool) -> bool:
        """Whether an append may be answered only after an fsync."""
        config = self._config
        return config.flush_messages == 1 or (acks_all and config.ottla_flush_on_acks_all)

    @property
    def is_flush_due(self) -> bool:
        """Whether so much is unflushed that the policy asks for an fsync.

        A segment that is full is always flushed: after a crash only the last one then has to be scanned.
        """
        log, config = self.log, self._config
        return (
            log.unflushed_messages >= config.flush_messages
            or log.flushed_offset < log.segments.active.base_offset
            or 0 < config.ottla_flush_bytes <= log.unflushed_bytes
        )

    def is_flush_overdue(self, now_ms: int) -> bool:
        """Whether the oldest unflushed record has waited for flush.ms."""
        log = self.log
        return (
            not self.is_closed
            and log.unflushed_messages > 0
            and now_ms - log.last_flush_ms >= self._config.flush_ms
        )

    def close(self) -> None:
        """Refuse appends and let go of everybody who waits; the log is closed or deleted by the caller."""
        self.is_closed = True
        gone = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is no longer served here")
        self.high_watermark.fail(gone)
        self.flushed.fail(gone)
        self.wake_readers()

    def wake_readers(self) -> None:
        """Let long polls answer with what there is."""
        for reader in tuple(self.readers):
            reader.wake()

    def _set_min_insync_replicas(self) -> None:
        # As in Kafka: more than there are replicas at all cannot be meant.
        self._min_insync_replicas = min(self._config.min_insync_replicas, len(self.replica.replicas))

    def _log_end_offset_moved(self, size_bytes: int, now_ms: int) -> None:
        for effect in self.replica.step(LogEndOffsetMoved(self.log.log_end_offset), now_ms):
            self.high_watermark.advance(effect.high_watermark)
            if self.readers:
                for reader in tuple(self.readers):
                    reader.on_append(size_bytes)


class Partitions:
    """Finds a hosted partition by name or by topic id; tells the two ways of not finding one apart."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        self._by_id: dict[tuple[UUID, int], HostedPartition] = {}
        # The topics that have a log which could not be opened.
        self.unopened: set[str] = set()

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def by_name(self, topic: str, index: int) -> HostedPartition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or another error for a partition that exists and is not open."""
        partition = self._by_name.get((topic, index))
        if partition is not None:
            return partition
        known = self._image().topics_by_name.get(topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        raise self._absence(known, index)

    def by_id(self, topic_id: UUID, index: int) -> HostedPartition:
        """Raises UNKNOWN_TOPIC_ID; where only the partition is unknown, as `by_name` does."""
        partition = self._by_id.get((topic_id, index))
        if partition is not None:
            return partition
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        raise self._absence(topic, index)

    def find(self, topic: str, index: int) -> HostedPartition | None:
        """The partition if it is hosted here."""
        return self._by_name.get((topic, index))

    def add(self, partition: HostedPartition) -> None:
        """Serve a partition from now on."""
        self._by_name[partition.topic, partition.index] = partition
        self._by_id[partition.topic_id, partition.index] = partition

    def remove(self, partition: HostedPartition) -> None:
        """Stop serving it."""
        del self._by_name[partition.topic, partition.index]
        del self._by_id[partition.topic_id, partition.index]
        partition.close()

    def _absence(self, topic: TopicImage, index: int) -> KafkaError:
        """Why a partition of a known topic is not here."""
        if topic.partition(index) is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic.name} has no partition {index}"
            )
        name = f"{topic.name}-{index}"
        if topic.name in self.unopened:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} cannot be opened now")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {name} is about to be opened")
