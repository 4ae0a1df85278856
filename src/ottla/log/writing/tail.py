"""The end of one log: the active segment, its roll, and the settings that appends follow (STO-5).

A roll is atomic in that each step leaves a directory that opens to the same batches: the indexes of the full
segment are trimmed, the producer state at its end is written, then the files of the new segment are created.
Nothing here waits for the disk; the next flush makes all of it durable, and recovery trusts none of it
before.
"""

from typing import Final
from zlib import crc32

from ottla.config import TopicConfig
from ottla.log.batch_validation import Limits
from ottla.log.producers.snapshot_files import SnapshotFiles
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.writing.durability import Durability

NO_LIMIT: Final = (1 << 63) - 1


class Tail:
    """The active segment of one log, and the topic settings."""

    __slots__ = ("_durability", "_extent", "_snapshots", "config", "limits", "version")

    def __init__(
        self, extent: Extent, durability: Durability, snapshots: SnapshotFiles, config: TopicConfig
    ) -> None:
        self._extent = extent
        self._durability = durability
        self._snapshots = snapshots
        self.config = config
        self.limits = Limits.of(config)
        # Rises when the log's end moves other than by an append, or a setting changes: the writer reloads
        # then.
        self.version = 0

    def configure(self, config: TopicConfig) -> None:
        """Take a changed topic configuration; it applies from the next append on."""
        self.config = config
        self.limits = Limits.of(config)
        self.version += 1

    def note_truncation(self) -> None:
        """The log's end moved down."""
        self.version += 1

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Seal the active segment and begin one at `base_offset`.

        After an OSError the old one is still active.
        """
        segments, full = self._extent.segments, self._extent.segments.active
        if not full.size_bytes and full.base_offset == base_offset:
            return full
        full.seal(self.config.segment_index_bytes)
        self._snapshots.write(base_offset)
        fresh = Segment.create(self._extent.location, base_offset, now_ms=now_ms)
        full.end_with_roll(base_offset, now_ms)
        self._durability.note_names()
        segments.add(fresh)
        self.version += 1
        if not full.size_bytes:
            segments.remove(full)
            full.remove_files()
        return fresh

    def roll_if_due(self, now_ms: int) -> bool:
        """Roll if the active segment is older than segment.ms although nothing is appended.

        Whether it was.
        """
        is_due = self.is_roll_due(now_ms)
        if is_due:
            self.roll(self._extent.end_offset, now_ms)
        return is_due

    def is_roll_due(self, now_ms: int) -> bool:
        """Whether the active segment is older than segment.ms by the wall clock."""
        last_timestamp = self.last_timestamp_before_roll(now_ms)
        has_records = bool(self._extent.segments.active.size_bytes)
        return has_records and last_timestamp != NO_LIMIT and now_ms > last_timestamp

    def is_index_full(self, pending: int = 0) -> bool:
        """Whether an index of the active segment has no space left after the pending entries."""
        active, max_bytes = self._extent.segments.active, self.config.segment_index_bytes
        return active.index.is_full(max_bytes, pending) or active.time_index.is_full(max_bytes, pending)

    def age_limit_ms(self) -> int:
        """The maximum age of the active segment: segment.ms, less a jitter that spreads rolls."""
        config = self.config
        if not config.segment_jitter_ms:
            return config.segment_ms
        bound = min(config.segment_jitter_ms, config.segment_ms)
        # The same segment always gets the same jitter, without a random number.
        seed = f"{self._extent.location.name}/{self._extent.segments.active.base_offset}"
        jitter_ms = crc32(seed.encode()) % bound if bound > 0 else 0
        return config.segment_ms - jitter_ms

    def last_timestamp_before_roll(self, now_ms: int) -> int:
        """The largest timestamp that the active segment may take before it is too old (segment.ms)."""
        active = self._extent.segments.active
        if not active.size_bytes:
            return NO_LIMIT
        age_limit_ms = self.age_limit_ms()
        if active.first_timestamp >= 0:
            return active.first_timestamp + age_limit_ms
        # Records without timestamps: the wall clock counts.
        return -2 if now_ms - active.created_ms > age_limit_ms else NO_LIMIT
