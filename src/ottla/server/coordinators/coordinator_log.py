"""One partition of an internal topic as the log of a machine: a decision's records are appended, replayed, and
acknowledged when the in-sync replicas have them.

A log belongs to one leadership of its partition: when that leadership ends, nothing more is written.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_ALL
from ottla.records.builder import BatchOptions, build_batch
from ottla.records.control import TransactionMarker
from ottla.records.header import HEADER_BYTES
from ottla.records.record import Record
from ottla.server.partitions.acknowledgement import Acknowledgements
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition

logger = logging.getLogger(__name__)

# The most that a record's length, attributes, timestamp, offset, lengths of key and value and headers take.
_RECORD_OVERHEAD_BYTES = 32
# How long an answer waits for the in-sync replicas, as offsets.commit.timeout.ms in Kafka.
_COMMIT_TIMEOUT_S = 5.0

LogRecord = tuple[bytes, bytes | None]
Replay = Callable[[bytes, bytes | None], None]
ProducerOfBatch = tuple[int, int]  # producer id and epoch


class CoordinatorLog:
    """Writes for one machine; `replay` takes over each record that was appended."""

    def __init__(
        self,
        partition: HostedPartition,
        replay: Replay,
        flusher: Flusher,
        now_ms: Callable[[], int],
    ) -> None:
        self._partition = partition
        # Of the leadership that the machine answers under.
        self._committed = partition.high_watermark
        self._replay = replay
        self._flusher = flusher
        self._acknowledgements = Acknowledgements(flusher)
        self._now_ms = now_ms
        # The end of the last record that the machine has replayed.
        self.replayed_end = 0

    @property
    def is_current(self) -> bool:
        """Whether the leadership goes on."""
        partition = self._partition
        return (
            not partition.is_closed
            and partition.replica.is_leader
            and partition.high_watermark is self._committed
        )

    def begin(self) -> None:
        """The machine has replayed all that there is."""
        self.replayed_end = self._partition.log.log_end_offset

    def append(self, records: Sequence[LogRecord], *, is_atomic: bool = False) -> int:
        """Append and replay, batch by batch: if one cannot be written, those before it are in force.

        With `is_atomic` all records are one batch, or KafkaError(RECORD_LIST_TOO_LARGE) and none is written.
        """
        if is_atomic and len(list(_batches(records, self._limit_bytes))) > 1:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)
        return self._append(records, {}, self._replay)

    def append_within(self, records: Sequence[LogRecord], producer: ProducerOfBatch, replay: Replay) -> int:
        """Append records as part of a producer's transaction, and give each to `replay`.

        The batches have no order among a client's, so the sequence number is always 0, as in Kafka.
        """
        producer_id, epoch = producer
        options = BatchOptions(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        return self._append(records, options, replay)

    def append_marker(self, marker: TransactionMarker) -> int:
        """Append the marker that ends a producer's transaction, unless the log has it; the offset after it."""
        self._check_leadership()
        self.replayed_end = self._partition.append_marker(marker, self._now_ms())
        self._flush_if_due()
        return self.replayed_end

    def _append(self, records: Sequence[LogRecord], options: BatchOptions, replay: Replay) -> int:
        self._check_leadership()
        now_ms, end = self._now_ms(), 0
        for some in _batches(records, self._limit_bytes):
            numbered = [Record(n, now_ms, key, value) for n, (key, value) in enumerate(some)]
            batch = build_batch(numbered, **options)
            end = self._partition.append_own(memoryview(batch), now_ms).last_offset + 1
            self.replayed_end = end
            for key, value in some:
                replay(key, value)
        self._flush_if_due()
        return end

    @property
    def _limit_bytes(self) -> int:
        config = self._partition.config
        return min(config.max_message_bytes, config.segment_bytes)

    def _check_leadership(self) -> None:
        if not self.is_current:
            # Another leadership has begun: the log may hold records of other brokers, unknown to this
            # machine.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _flush_if_due(self) -> None:
        if self._partition.flush_policy.is_due:
            self._flusher.flush(self._partition)

    def is_acknowledged(self, end: int) -> bool:
        """Whether the in-sync replicas have all records before `end`."""
        return self._partition.is_acknowledged(end, acks_all=True)

    def when_acknowledged(self, end: int, done: Callable[[KafkaError | None], None]) -> None:
        """Call `done` when the in-sync replicas have all records before `end`, or will not for now."""
        self._acknowledgements.wait(
            (self._partition, end), ACKS_ALL, _COMMIT_TIMEOUT_S, lambda _, failure: done(failure)
        )


def _batches(records: Sequence[LogRecord], limit_bytes: int) -> Iterator[Sequence[LogRecord]]:
    """The records in order, split so that each part fits a batch; a larger record is a batch of its own."""
    start, size_bytes = 0, HEADER_BYTES
    for number, (key, value) in enumerate(records):
        record_bytes = len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES
        if size_bytes + record_bytes > limit_bytes and number > start:
            yield records[start:number]
            start, size_bytes = number, HEADER_BYTES
        size_bytes += record_bytes
    yield records[start:]
