"""The whole record batches in a fetch response, found by their headers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.corruption import CorruptRecord
from ottla.records.header import BATCH_OVERHEAD_BYTES, HEADER, HEADER_BYTES, BatchHeader, read_header

_SMALLEST_LENGTH: Final = HEADER_BYTES - BATCH_OVERHEAD_BYTES
_MAGIC: Final = 2
_unpack: Final = HEADER.unpack_from


class PlacedBatch(NamedTuple):
    """The place of a batch in the bytes of a response, and its header."""

    position: int
    end: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class RangeBatches:
    """The batches of one response that overlap a range of offsets, in order.

    The first and the last batch may extend beyond the range. `damage` describes invalid bytes after the
    batches. `next_offset` is where reading continues: the offset after the last batch, or the end of the
    range. `is_checked`: the checksums of the batches were verified.
    """

    records: memoryview
    start: int
    end: int
    batches: list[PlacedBatch]
    next_offset: int
    damage: CorruptRecord | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    is_checked: bool = False


def placed_batches(
    records: memoryview, start: int, end: int, aborted: Sequence[AbortedTransaction] | None = None
) -> RangeBatches:
    """The whole batches with offsets in [start, end), without a last batch that the broker cut off.

    With aborted transactions, batches before `start` are included: they may be markers that end a
    transaction.
    """
    position, size, next_offset = 0, len(records), start
    batches: list[PlacedBatch] = []
    while size - position >= HEADER_BYTES:
        header = BatchHeader._make(_unpack(records, position))
        behind = position + header[1] + BATCH_OVERHEAD_BYTES
        if header[3] != _MAGIC or header[1] < _SMALLEST_LENGTH:
            return RangeBatches(
                records, start, end, batches, next_offset, _damage(records, position), aborted
            )
        if behind > size or header[0] >= end:
            next_offset = end if behind <= size else next_offset
            break
        last_offset = header[0] + header[6]
        if last_offset >= start or aborted:
            batches.append(PlacedBatch(position, behind, header))
            next_offset = min(max(next_offset, last_offset + 1), end)
        position = behind
    return RangeBatches(records, start, end, batches, next_offset, None, aborted)


def _damage(records: memoryview, position: int) -> CorruptRecord:
    try:
        read_header(records, position)
    except CorruptRecord as damage:
        return damage
    return CorruptRecord("the header is invalid")  # pragma: no cover - it was found to make none
