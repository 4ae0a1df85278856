"""Takes the producers of a log back to before a truncation, from the truncated batches alone.

A follower truncates the last few batches when its leader changes, and producers wait meanwhile. Replaying a
large active segment from its last snapshot would take seconds. The truncated part is small, and only the
producers in it change: each keeps those of its last batches that lie before the truncation. A producer that
keeps none is looked up in the last megabytes before the truncation. The caller rebuilds all producers
(`producer_replay.load_producers`) where that is not enough:
- transactions: truncating a marker reopens its transaction, and only a full replay finds where that one began
- a producer whose newest batch before the truncation lies far back
"""

from collections.abc import Sequence
from typing import Final

from ottla.log.producers.producer_lookup import headers_before, produced_batch
from ottla.log.producers.producer_state import BATCHES_KEPT, ProducedBatch, ProducerEntry, Producers
from ottla.log.segments.segment_list import Segments
from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, CorruptRecord

# More than the few fetches by which a follower lags. For more than that a full replay is not slower.
_LARGEST_REWIND_BYTES: Final = 32 << 20


def headers_from(segments: Segments, offset: int) -> list[BatchHeader] | None:
    """The headers of the batches from `offset` on; None if there are too many to read, or one is damaged."""
    first, *others = segments.from_offset(offset)
    try:
        placed = first.find(offset)
        position = first.size_bytes if placed is None else placed.position
        size_bytes = first.size_bytes - position + sum(segment.size_bytes for segment in others)
        if size_bytes > _LARGEST_REWIND_BYTES:
            return None
        pieces = [first.walk(position), *(segment.walk() for segment in others)]
        return [found.header for piece in pieces for found in piece]
    except (OSError, CorruptRecord):
        return None


def rewind_producers(segments: Segments, producers: Producers, truncated: Sequence[BatchHeader]) -> bool:
    """Remove the batches that were just truncated from `producers`.

    False, with nothing changed, if that is not enough.
    """
    if any(header.attributes & (CONTROL | TRANSACTIONAL) for header in truncated):
        return False
    first: dict[int, BatchHeader] = {}
    for header in truncated:
        if header.producer_id >= 0:
            first.setdefault(header.producer_id, header)
    end_offset = segments.active.next_offset
    kept: dict[int, ProducerEntry] = {}
    unknown, new = set(), []
    for producer_id, header in first.items():
        known = producers.get(producer_id)
        if known is not None and known.coordinator_epoch >= 0:
            return False
        entry = _before(known, end_offset)
        if entry is not None:
            kept[producer_id] = entry
        elif header.base_sequence == header.producer_epoch == 0:
            new.append(producer_id)
        else:
            unknown.add(producer_id)
    if unknown and not _look_up(segments, unknown, kept):
        return False
    for producer_id in new:
        producers.forget(producer_id)
    producers.install(kept)
    return True


def _before(entry: ProducerEntry | None, end_offset: int) -> ProducerEntry | None:
    """The producer with its batches before the log's end; None if it remembers none."""
    batches = (
        [batch for batch in entry.batches if batch.base_offset < end_offset] if entry is not None else []
    )
    return _entry(entry.epoch, batches) if entry is not None and batches else None


def _entry(epoch: int, batches: Sequence[ProducedBatch]) -> ProducerEntry:
    """A producer with these batches; earlier ones are looked up in the log when they are needed."""
    entry = ProducerEntry(epoch, is_whole=len(batches) == BATCHES_KEPT)
    for batch in batches:
        entry.add(batch)
    return entry


def _look_up(segments: Segments, unknown: set[int], kept: dict[int, ProducerEntry]) -> bool:
    """Find the newest batch of each of these producers before the log's end; False if one is not found."""
    for header in headers_before(segments, segments.active.next_offset):
        if header.producer_id in unknown:
            if header.attributes & (CONTROL | TRANSACTIONAL):
                return False
            kept[header.producer_id] = _entry(header.producer_epoch, [produced_batch(header)])
            unknown.remove(header.producer_id)
            if not unknown:
                return True
    return False
