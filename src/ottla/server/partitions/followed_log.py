"""The log of a hosted partition while another broker leads: its fetcher appends and truncates it."""

from ottla.log.segments.truncation_job import TruncationJob
from ottla.replication.events import LeaderHighWatermark, LogEndOffsetMoved
from ottla.server.partitions.hosted_partition import HostedPartition


class FollowedLog:
    """One partition as a follower changes it. The caller has checked that the partition still follows."""

    __slots__ = ("_log", "_partition", "_replica")

    def __init__(self, partition: HostedPartition) -> None:
        self._partition = partition
        self._log = partition.log
        self._replica = partition.replica

    def append(self, records: memoryview, now_ms: int) -> None:
        """Append records of the leader. KafkaError if they cannot be appended; then nothing has changed."""
        self._log.append_replicated(records, now_ms)
        self._partition.counts.replicated_in(len(records))
        self._partition.waiters.appended(len(records))
        self._replica.step(LogEndOffsetMoved(self._log.log_end_offset), now_ms)

    def truncate(self, offset: int, now_ms: int) -> TruncationJob | None:
        """Truncate the log.

        The caller runs the job in a thread to make the truncation durable before the next append.
        """
        job = self._log.begin_truncate(offset)
        self._partition.log_was_truncated(now_ms)
        return job

    def begin_at(self, offset: int, now_ms: int) -> None:
        """Delete all records: the leader's log begins later."""
        self._log.truncate_fully(offset)
        self._partition.log_was_truncated(now_ms)

    def leader_high_watermark(self, high_watermark: int, now_ms: int) -> None:
        """The leader sent its high watermark, and the records that came with it are in the log."""
        self._partition.note_lag(max(0, high_watermark - self._log.log_end_offset))
        if high_watermark > self._replica.high_watermark:
            self._partition.step(LeaderHighWatermark(high_watermark), now_ms)
