"""One partition as a consumer reads it: the application's position, and the batches fetched ahead of it.

    log start        position          fetch offset             high watermark
        |---------------|====================|-------------------------|
           handed out           buffered               to be fetched

Rules
- `position` is the next offset for the application, and the offset that a commit commits. It moves when
  records are handed out, and over offsets without a record for the application: control batches, aborted
  transactions, and offsets that compaction removed.
- Fetched batches stay as they came, compressed, until they are handed out: a buffer holds no more than the
  network brought.
- A wrong checksum, or invalid bytes, are an error at the place where they are reached.
- Batches of one leader are valid under the next one if that one has the same history (KIP-320):
  `is_proven_for` says whether that is known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from ottla.client.fetching.plan.fetched_batches import Decoded, FetchedBatches
from ottla.client.fetching.plan.record_batch import ConsumerRecord, OpenBatch, RecordBatch, joined, sliced
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_EPOCH, NO_OFFSET, TopicPartition
from ottla.protocol.messages.fetch import PartitionData
from ottla.records.corruption import CorruptRecord

__all__ = ["ConsumerRecord", "PartitionReader"]

# Batches with fewer records than this are decoded together: producers that do not wait write tiny ones.
SMALL_BATCH_RECORDS: Final = 500
# How often an answer of an earlier leader is doubted: for some seconds, which metadata may take to name a later one.
MOST_DOUBTS: Final = 50


class PartitionReader:
    """The application's position in a partition, and the batches between it and the fetch offset."""

    __slots__ = (
        "_batches",
        "_checks_crcs",
        "_doubts",
        "_leader_epoch",
        "_open",
        "_position",
        "_proven_epoch",
        "buffered_bytes",
        "committed",
        "error",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "is_blocked",
        "is_out_of_range",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "partition",
    )

    def __init__(self, partition: TopicPartition, *, check_crcs: bool = True) -> None:
        self.partition = partition
        self.fetch_offset: int = NO_OFFSET
        self.fetch_epoch: int = NO_EPOCH  # of the batch before the fetch offset
        self.high_watermark: int = NO_OFFSET
        self.last_stable_offset: int = NO_OFFSET
        self.log_start_offset: int = NO_OFFSET
        self.committed: int = NO_OFFSET  # by this consumer, or by the one before it; -1 if unknown
        self.buffered_bytes = 0
        self.error: KafkaError | None = None  # raised after the buffered batches
        self.is_blocked = False  # for a moment, after an error that passes
        self.is_paused = False
        self.is_out_of_range = False
        self._checks_crcs = check_crcs
        self._doubts = 0
        self._position: int | None = None  # as far as no open batch says more
        self._leader_epoch: int = NO_EPOCH
        self._proven_epoch: int = NO_EPOCH
        self._batches: deque[FetchedBatches] = deque()
        self._open: OpenBatch | None = None

    # ---- where it is

    @property
    def position(self) -> int | None:
        """The next offset for the application; None until it is known."""
        moved = None if self._open is None else self._open.position
        return self._position if moved is None else moved

    @property
    def leader_epoch(self) -> int:
        """The epoch of the batch before the position, for a commit; -1 if nothing was read yet."""
        opened = self._open
        return self._leader_epoch if opened is None or opened.position is None else opened.leader_epoch

    @property
    def needs_position(self) -> bool:
        """Whether a position has to be looked up before reading can continue."""
        return self._position is None or (self.is_out_of_range and self.is_drained)

    @property
    def is_drained(self) -> bool:
        """Whether the application has taken all fetched records."""
        return (self._open is None or not self._open.left) and not self._batches

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Continue at this offset; buffered batches are discarded."""
        self.forget_position()
        self._position = self.fetch_offset = offset
        self._leader_epoch = self.fetch_epoch = leader_epoch

    def forget_position(self) -> None:
        """Forget the position: it has to be looked up."""
        self._position, self.fetch_offset = None, NO_OFFSET
        self._leader_epoch = self.fetch_epoch = self._proven_epoch = NO_EPOCH
        self.is_out_of_range, self.error, self._doubts = False, None, 0
        self._drop_batches()
        self._open = None

    def take_back_last(self) -> None:
        """Continue with the last record that was handed out: it was not done."""
        last = None if self._open is None else self._open.last_offset
        if last is not None:
            self.seek(last)

    def note_commit(self, offset: int) -> None:
        """The group's committed offset, so that the same offset is not committed again."""
        self.committed = offset

    # ---- whether it is read

    def pause(self) -> None:
        """Hand out no records until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def block(self) -> None:
        """Fetch nothing until `unblock`: the leader gave an error that passes."""
        self.is_blocked = True

    def unblock(self) -> None:
        self.is_blocked = False

    def fail(self, error: KafkaError) -> None:
        """Raise `error` when the application has taken the buffered records."""
        self.error = error

    def doubts(self, leader_epoch: int) -> bool:
        """Whether the fetch offset may exist although a leader of this epoch says that it does not.

        Who gave the offset out led in a later epoch: old metadata named a former leader, which may be cut off and
        not know it. Not for ever, because a topic that was created again begins with a low epoch.
        """
        if leader_epoch >= self.fetch_epoch or self._doubts >= MOST_DOUBTS:
            return False
        self._doubts += 1
        return True

    def leave_range(self) -> None:
        """The leader has no records at the fetch offset: after the buffered records a position is needed."""
        self.is_out_of_range = True

    # ---- leaders

    def is_proven_for(self, leader_epoch: int) -> bool:
        """Whether the fetched batches are known to be part of this leader's log, or need no proof."""
        return self.fetch_epoch == NO_EPOCH or leader_epoch <= max(self._proven_epoch, self.fetch_epoch)

    def prove(self, leader_epoch: int) -> None:
        """A leader of this epoch has the fetched batches in its log."""
        self._proven_epoch = max(self._proven_epoch, leader_epoch)

    def truncate(self, end_offset: int, epoch: int) -> bool:
        """Discard the records after `end_offset`, where the log of our epoch ends.

        False if the application has read some of them.
        """
        position = self.position
        if position is None or position > end_offset:
            return False
        self.seek(position, min(self.leader_epoch, epoch))
        return True

    # ---- fetched

    def fetched(self, data: PartitionData) -> None:
        """Take in the answer to a fetch from `fetch_offset`."""
        self._doubts = 0
        self.high_watermark, self.log_start_offset = data.high_watermark, data.log_start_offset
        self.last_stable_offset = data.last_stable_offset
        if not data.records:
            return
        batches = FetchedBatches(data.records, self.fetch_offset, data.aborted_transactions)
        if batches.size_bytes:
            self._batches.append(batches)
            self.buffered_bytes += batches.size_bytes
            self.fetch_offset, self.fetch_epoch = batches.next_offset, batches.leader_epoch
        if batches.damage is not None:
            self.error = self._damaged(self.fetch_offset, batches.damage)

    # ---- handed out

    def opened(self) -> OpenBatch | None:
        """The batch to hand out, if there is one; raises the error at the position, once."""
        opened = self._open
        if opened is not None and opened.left:
            return opened
        self._settle()
        if self._open_next():
            return self._open
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return None

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Hand out up to `limit` records; raises the error at the position, once."""
        opened = self.opened() if limit else None
        if opened is None:
            return []
        taken = opened.take(limit)
        while len(taken) < limit and self._batches:
            self._settle()
            if not self._open_next() or self._open is None:
                break  # whatever is wrong there comes with the next call
            taken += self._open.take(limit - len(taken))
        return taken

    def take_batch(self, limit: int) -> RecordBatch | None:
        """Hand out up to `limit` records as one batch; None if there are none now."""
        parts, count = list[RecordBatch](), 0
        opened = self.opened()
        while opened is not None:
            batch, self._open = opened.split(limit - count)
            self._position, self._leader_epoch = batch.next_offset, batch.leader_epoch
            parts.append(batch)
            count += len(batch)
            if count >= min(limit, SMALL_BATCH_RECORDS) or not self._open_next():
                break
            opened = self._open
        return joined(parts) if parts else None

    def _settle(self) -> None:
        """Close the open batch: the position is after it."""
        if self._open is not None:
            self._position, self._leader_epoch = self._open.next_offset, self._open.leader_epoch
            self._open = None

    def _open_next(self) -> bool:
        """Decode the next batches that have something for the application; False if there are none now."""
        while self._batches:
            batches = self._batches[0]
            try:
                decoded = batches.decode(SMALL_BATCH_RECORDS, check_crcs=self._checks_crcs)
            except CorruptRecord as damage:
                self.error = self._damaged(batches.base_offset, damage)
                self._drop_batches()
                # An application that does not seek past the damage meets it again.
                self.fetch_offset, self.fetch_epoch = self._position or 0, self._leader_epoch
                return False
            self.buffered_bytes -= decoded.size_bytes
            if not batches.size_bytes:
                self._batches.popleft()
            if self._open_decoded(decoded):
                return True
            self._position, self._leader_epoch = decoded.next_offset, decoded.leader_epoch
        return False

    def _open_decoded(self, decoded: Decoded) -> bool:
        """Hand out records from the position on: a fetch returns whole batches, and may begin before it."""
        columns, position = decoded.columns, self._position or 0
        if columns.values and columns.offsets[0] < position:
            columns = sliced(columns, bisect_left(columns.offsets, position), len(columns.values))
        if not columns.values:
            return False
        self._open = OpenBatch(
            self.partition, columns, next_offset=decoded.next_offset, leader_epoch=decoded.leader_epoch
        )
        return True

    def _damaged(self, offset: int, damage: CorruptRecord) -> KafkaError:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{self.partition} is damaged at offset {offset}: {damage}"
        )

    def _drop_batches(self) -> None:
        self._batches.clear()
        self.buffered_bytes = 0
