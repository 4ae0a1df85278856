"""Appends batches of this broker's coordinators: the records of groups, and markers that end transactions.

Their order needs no check, but the epoch of a producer does: a transaction of an older epoch is over.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers.producer_state import Producers
from ottla.log.producers.transactions import EndedTransaction
from ottla.log.segments.extent import Extent
from ottla.log.writing.append import Appended
from ottla.log.writing.replicated import ReplicatedAppender
from ottla.model import NO_OFFSET
from ottla.records.batch import CONTROL, CorruptRecord, read_header
from ottla.records.control import TransactionMarker, build_marker


class CoordinatorAppender:
    """Appends coordinators' batches to one log."""

    __slots__ = ("_extent", "_producers", "_replicated")

    def __init__(self, replicated: ReplicatedAppender, extent: Extent, producers: Producers) -> None:
        self._replicated = replicated
        self._extent = extent
        self._producers = producers

    def append_batch(self, batch: memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Append one batch; its offsets and leader epoch are written into it."""
        try:
            header = read_header(batch)
        except CorruptRecord as problem:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from None
        known = self._producers.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch and not header.attributes & CONTROL:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} is at epoch {known.epoch}; the batch has {header.producer_epoch}",
            )
        return self._replicated.append_batch(batch, leader_epoch, now_ms)

    def append_marker(self, marker: TransactionMarker, leader_epoch: int, now_ms: int) -> int:
        """Append one marker, unless it is a duplicate; the log's end offset after it.

        The marker is replicated when the high watermark reaches that offset.
        """
        if self._producers.check_marker(marker):
            batch = build_marker(
                marker.ending,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                timestamp=now_ms,
            )
            self._replicated.append_batch(memoryview(batch), leader_epoch, now_ms)
        else:
            # No record, but the transaction is over: what is being verified now is of the past.
            ended = EndedTransaction(marker.producer_id, marker.producer_epoch, NO_OFFSET, NO_OFFSET)
            self._producers.follow([ended])
        return self._extent.end_offset
