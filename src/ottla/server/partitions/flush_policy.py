"""When a log is flushed (fsync), and what may be acknowledged, or counted as committed, only after that.

    setting                        effect
    flush.messages=1               every append is acknowledged after an fsync
    flush.messages, flush.bytes    an fsync is due after that much; no request waits for it
    flush.ms                       an fsync is due that long after the last one; housekeeping looks
    ottla.flush.on.acks.all        acks=all is acknowledged after an fsync on every in-sync replica

Where acknowledged means flushed and there are several replicas, the leader's own share in the high watermark
is its flushed offset, so that the high watermark never passes a record that a power loss could take from
every replica.
"""

from ottla.config import LONG_MAX, TopicConfig
from ottla.log.log import Log


class FlushPolicy:
    """The flush settings of one partition, and what they ask for as its log stands."""

    __slots__ = (
        "_config",
        "_counts_flushed",
        "_flushes_acks_all",
        "_flushes_always",
        "_has_limits",
        "_log",
        "is_by_time",
    )

    def __init__(self, log: Log) -> None:
        self._log = log
        self.configure(log.tail.config, replicas=1)

    def configure(self, config: TopicConfig, replicas: int) -> None:
        """Take over the topic's settings and the number of the partition's replicas."""
        self._config = config
        self._flushes_always = config.flush_messages == 1
        self._flushes_acks_all = self._flushes_always or config.ottla_flush_on_acks_all
        self._counts_flushed = self._flushes_acks_all and replicas > 1
        # Nearly all topics have none, and every append asks.
        self._has_limits = (
            self._counts_flushed or config.flush_messages < LONG_MAX or config.ottla_flush_bytes < LONG_MAX
        )
        # Records from before the setting was turned on are flushed by the clock: no append may follow them.
        self.is_by_time = config.flush_ms < LONG_MAX or self._counts_flushed

    def must_flush(self, acks_all: bool) -> bool:
        """Whether an append may be acknowledged only after an fsync."""
        return self._flushes_acks_all if acks_all else self._flushes_always

    @property
    def is_due(self) -> bool:
        """Whether the unflushed part is so large that the settings ask for an fsync.

        A segment that is full is always flushed: after a crash only the last segment has to be scanned then.
        Where only flushed records count as committed, no record waits for another reason to be flushed.
        """
        log, durability = self._log, self._log.durability
        if durability.flushed_offset < log.extent.segments.active.base_offset:
            return True
        if not self._has_limits:
            return False
        config = self._config
        return (
            durability.unflushed_messages >= config.flush_messages
            or (self._counts_flushed and durability.flushed_offset < log.log_end_offset)
            or config.ottla_flush_bytes <= durability.unflushed_bytes
        )

    def is_overdue(self, now_ms: int) -> bool:
        """Whether the oldest unflushed record has waited for flush.ms, or need not wait at all."""
        durability = self._log.durability
        if self._counts_flushed:
            return durability.flushed_offset < self._log.log_end_offset
        return (
            durability.unflushed_messages > 0
            and now_ms - durability.unflushed_since_ms >= self._config.flush_ms
        )

    @property
    def counted_offset(self) -> int | None:
        """This replica's share in the high watermark where only flushed records count.

        None where all records do.
        """
        return self._log.durability.flushed_offset if self._counts_flushed else None
