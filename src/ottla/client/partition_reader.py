"""One partition as a consumer reads it: where the application is, and what was fetched ahead of it.

    log start        position          fetch offset             high watermark
        |---------------|====================|-------------------------|
         handed out           buffered               to be fetched

Rules
- `position` is the next offset for the application, and what a commit commits. It moves when records are handed out, and
  over what is none for the application: control batches, and offsets that compaction took.
- What was fetched stays as it came, compressed, until it is handed out: a buffer holds no more than the network brought.
- A checksum that is wrong, or bytes that make no sense, are an error at the place where they are reached.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ottla.client.metadata import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import PartitionData
from ottla.records.batch import BatchView, CorruptRecord, iter_batches
from ottla.records.record import Header

UNKNOWN = -1


class ConsumerRecord(NamedTuple):
    """A record, and where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class PartitionReader:
    """Where the application is in a partition, and the batches between there and where fetching goes on."""

    __slots__ = (
        "_batches",
        "_leader_epoch",
        "_next",
        "_records",
        "_records_end",
        "_records_epoch",
        "buffered_bytes",
        "committed",
        "error",
        "fetch_offset",
        "high_watermark",
        "is_blocked",
        "is_out_of_range",
        "log_start_offset",
        "partition",
        "position",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        self.fetch_offset: int = UNKNOWN
        self.high_watermark: int = UNKNOWN
        self.log_start_offset: int = UNKNOWN
        self.committed: int = UNKNOWN  # by this consumer, or by the one before it; -1 if nobody knows
        self.buffered_bytes = 0
        self.error: KafkaError | None = None  # what stands behind the buffered batches
        self.is_blocked = False  # for a moment, after an error that passes
        self.is_out_of_range = False
        self._leader_epoch: int = UNKNOWN
        self._batches: deque[BatchView] = deque()
        self._records: list[ConsumerRecord] = []  # of the batch that is being handed out
        self._records_end: int = UNKNOWN
        self._records_epoch: int = UNKNOWN
        self._next = 0

    def seek(self, offset: int, leader_epoch: int = UNKNOWN) -> None:
        """Go on at this offset; what was buffered is forgotten."""
        self.forget_position()
        self.position = self.fetch_offset = offset
        self._leader_epoch = leader_epoch

    def forget_position(self) -> None:
        """The position is no longer one: it has to be looked up."""
        self.position, self.fetch_offset, self._leader_epoch = None, UNKNOWN, UNKNOWN
        self.is_out_of_range, self.error = False, None
        self._drop_batches()
        self._records, self._next = [], 0

    @property
    def leader_epoch(self) -> int:
        """The epoch of the batch before the position, which goes into a commit; -1 if nothing was read yet."""
        return self._leader_epoch

    @property
    def needs_position(self) -> bool:
        """Whether a position has to be looked up before reading can go on."""
        return self.position is None or (self.is_out_of_range and self.is_drained)

    @property
    def is_drained(self) -> bool:
        """Whether the application has everything that was fetched."""
        return self._next >= len(self._records) and not self._batches

    def fetched(self, data: PartitionData) -> None:
        """Take in the answer to a fetch from `fetch_offset`."""
        self.high_watermark, self.log_start_offset = data.high_watermark, data.log_start_offset
        try:
            for batch in iter_batches(data.records or b"", allow_partial_end=True):
                if batch.next_offset > self.fetch_offset:
                    self._batches.append(batch)
                    self.buffered_bytes += batch.size_bytes
                    self.fetch_offset = batch.next_offset
        except CorruptRecord as damage:
            self.error = self._damaged(self.fetch_offset, damage)

    def take_one(self) -> ConsumerRecord | None:
        """The next record of the batch that is open, if there is one: the short way for a loop over records."""
        at = self._next
        if at >= len(self._records):
            return None
        record = self._records[at]
        self._next = at = at + 1
        self._leader_epoch = self._records_epoch
        self.position = self._records_end if at == len(self._records) else record[2] + 1
        return record

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Hand out up to `limit` records; raises the error that stands at the position, once."""
        taken: list[ConsumerRecord] = []
        while len(taken) < limit and (self._next < len(self._records) or self._open_batch(bool(taken))):
            part = self._records[self._next : self._next + limit - len(taken)]
            self._next += len(part)
            taken += part
            self._leader_epoch = self._records_epoch
            is_last = self._next == len(self._records)
            self.position = self._records_end if is_last else part[-1].offset + 1
        if not taken and self.is_drained and self.error is not None:
            error, self.error = self.error, None
            raise error
        return taken

    def _open_batch(self, has_records: bool) -> bool:
        """Decode the next batch that has something for the application; False if there is none now."""
        while self._batches:
            batch = self._batches[0]
            try:
                records = self._decoded(batch)
            except CorruptRecord as damage:
                if has_records:  # they come first; the damage is met again
                    return False
                self.error = self._damaged(batch.base_offset, damage)
                self._drop_batches()
                self.fetch_offset = self.position or 0  # who does not seek past it meets it again
                return False
            self._batches.popleft()
            self.buffered_bytes -= batch.size_bytes
            self._records, self._next = records, 0
            self._records_end, self._records_epoch = batch.next_offset, batch.partition_leader_epoch
            if records:
                return True
            self.position, self._leader_epoch = batch.next_offset, batch.partition_leader_epoch
        return False

    def _decoded(self, batch: BatchView) -> list[ConsumerRecord]:
        if batch.is_control:
            return []
        if not batch.crc_is_valid():
            raise CorruptRecord(
                f"the checksum says {batch.crc:08x}, the bytes say {batch.computed_crc():08x}"
            )
        topic, partition = self.partition
        position = self.position or 0
        return [
            ConsumerRecord(topic, partition, *record)
            for record in batch.records()
            if record.offset
            >= position  # a fetch answers whole batches, and may begin before what was asked for
        ]

    def _damaged(self, offset: int, damage: CorruptRecord) -> KafkaError:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{self.partition} is damaged at offset {offset}: {damage}"
        )

    def _drop_batches(self) -> None:
        self._batches.clear()
        self.buffered_bytes = 0
