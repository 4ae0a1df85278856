"""What one log is at a moment: shared by the parts that append, read, flush, roll and cut it.

Only one thread touches it, the event loop's. A flush in another thread works on a job of its own (flush.py).
"""

import logging
from typing import Final
from zlib import crc32

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.batch_validation import Limits
from ottla.log.files.open_files import OpenFiles
from ottla.log.producers.producer_state import Producers
from ottla.log.segments.leader_epochs import LeaderEpochs
from ottla.log.segments.lost_offset import Loss
from ottla.log.segments.segment_list import Segments
from ottla.log.segments.truncation_job import CutJob
from ottla.runtime.disk import Disk
from ottla.runtime.ordered_set import OrderedSet

logger = logging.getLogger(__name__)

NO_LIMIT: Final = (1 << 63) - 1


class LogState:
    """The segments of a log and what is known about them."""

    __slots__ = (
        "appended_bytes",
        "begun_bytes",
        "config",
        "cut_job",
        "directory",
        "disk",
        "flushed_bytes",
        "flushed_offset",
        "is_failing",
        "layout_version",
        "leader_epochs",
        "limits",
        "log_start_offset",
        "loss",
        "name",
        "open_files",
        "producers",
        "refusal",
        "segments",
        "unflushed_since_ms",
        "unsynced_directories",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        open_files: OpenFiles,
        segments: Segments,
        leader_epochs: LeaderEpochs,
        loss: Loss,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.name = directory.rstrip("/").rpartition("/")[2]
        self.open_files = open_files
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.loss = loss
        self.producers = Producers()
        self.log_start_offset = segments[0].base_offset
        self.refusal: KafkaError | None = None
        self.is_failing = False
        self.cut_job: CutJob | None = None
        self.flushed_offset = 0
        self.appended_bytes = 0
        self.begun_bytes = 0
        self.flushed_bytes = 0
        self.unflushed_since_ms = 0
        # Directories in which files were created or renamed since they were last made durable.
        self.unsynced_directories: OrderedSet[str] = OrderedSet()
        # Rises when anybody but the appender moves the log's end or changes what an append must heed.
        self.layout_version = 0
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Take a changed configuration; it holds from the next append on."""
        self.config = config
        self.limits = Limits.of(config)
        self.layout_version += 1

    @property
    def is_unchanged(self) -> bool:
        """Whether everything is on disk as it was when the log was opened."""
        return (
            not self.appended_bytes
            and not self.unsynced_directories
            and self.leader_epochs.is_durable
            and self.flushed_offset == self.log_end_offset
        )

    @property
    def log_end_offset(self) -> int:
        return self.segments.active.next_offset

    def appended(self, size_bytes: int, now_ms: int) -> None:
        """So many bytes were written."""
        if self.appended_bytes == self.begun_bytes:
            self.unflushed_since_ms = now_ms
        self.appended_bytes += size_bytes

    def refuse(self, reason: str) -> None:
        """Accept no writes any more: what is on disk can no longer be known. Reads go on."""
        if self.refusal is None:
            logger.error("%s refuses writes until it is opened again: %s", self.name, reason)
            self.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} refuses writes: {reason}")

    def settle_cut(self) -> None:
        """See that the last cut is durable. OSError if it cannot be made so."""
        job, self.cut_job = self.cut_job, None
        if job is not None and not job.is_done:
            try:
                job.run()
            except OSError as problem:
                self.refuse(f"a cut could not be made durable ({problem})")
                raise

    def close(self) -> None:
        """Let go of all files, and accept no writes that nobody would expect any more."""
        for segment in self.segments:
            segment.close()
        if self.refusal is None:
            self.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} is closed")

    def age_limit_ms(self, base_offset: int) -> int:
        """How old a segment may become: segment.ms, less a jitter that spreads the rolls of many partitions."""
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        # The same segment always gets the same jitter, without drawing a random number.
        jitter_ms = crc32(f"{self.name}/{base_offset}".encode()) % bound if bound > 0 else 0
        return self.config.segment_ms - jitter_ms

    def last_timestamp_before_roll(self, now_ms: int) -> int:
        """The largest timestamp the active segment may still take before it is too old (segment.ms)."""
        active = self.segments.active
        if not active.size_bytes:
            return NO_LIMIT
        age_limit_ms = self.age_limit_ms(active.base_offset)
        if active.first_timestamp >= 0:
            return active.first_timestamp + age_limit_ms
        # Records without timestamps: the wall clock counts.
        return -2 if now_ms - active.created_ms > age_limit_ms else NO_LIMIT
