"""Takes the producers of a log back to before a cut by looking at what is cut, not at all that is left.

A follower cuts the last few batches when its leader changes, and producers wait meanwhile. Reading the active segment again from
its last snapshot would take seconds where it is large. What is cut is small, and only the producers in it change: each keeps those
of its last batches that lie before the cut. One that keeps none is looked for in the last megabytes before the
cut. Where that does not tell, the caller rebuilds everything (`replay.load_producers`):
- transactions: a marker that is cut may reopen one, and only the whole story says where that began
- a producer whose newest batch before the cut lies far back
"""

from collections.abc import Sequence
from typing import Final

from ottla.log.producers.producer_state import BATCHES_KEPT, ProducedBatch, ProducerEntry
from ottla.log.state import LogState
from ottla.log.writing.producer_lookup import headers_before, produced_batch
from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader

# More than a follower is ever behind by a few fetches. To read the rest again takes longer than this then.
_LARGEST_CUT_BYTES: Final = 32 << 20


def headers_from(state: LogState, offset: int) -> list[BatchHeader] | None:
    """The headers of what is about to be cut off at `offset`; None if that is too much to look at."""
    first, *others = state.segments.from_offset(offset)
    placed = first.find(offset)
    position = first.size_bytes if placed is None else placed.position
    size_bytes = first.size_bytes - position + sum(segment.size_bytes for segment in others)
    if size_bytes > _LARGEST_CUT_BYTES:
        return None
    pieces = [first.walk(position), *(segment.walk() for segment in others)]
    return [found.header for piece in pieces for found in piece]


def rewind_producers(state: LogState, cut: Sequence[BatchHeader]) -> bool:
    """The log has just lost these batches at its end. False, and nothing has changed, if that does not say enough."""
    if any(header.attributes & (CONTROL | TRANSACTIONAL) for header in cut):
        return False
    first: dict[int, BatchHeader] = {}
    for header in cut:
        if header.producer_id >= 0:
            first.setdefault(header.producer_id, header)
    kept: dict[int, ProducerEntry] = {}
    unknown, new = set(), []
    for producer_id, header in first.items():
        known = state.producers.get(producer_id)
        if known is not None and known.coordinator_epoch >= 0:
            return False
        entry = _before(known, state.log_end_offset)
        if entry is not None:
            kept[producer_id] = entry
        elif header.base_sequence == header.producer_epoch == 0:
            new.append(producer_id)
        else:
            unknown.add(producer_id)
    if unknown and not _look_for(state, unknown, kept):
        return False
    for producer_id in new:
        state.producers.forget(producer_id)
    state.producers.install(kept)
    return True


def _before(entry: ProducerEntry | None, end_offset: int) -> ProducerEntry | None:
    """The producer with what it had sent before the end; None if that is not remembered."""
    batches = (
        [batch for batch in entry.batches if batch.base_offset < end_offset] if entry is not None else []
    )
    return _entry(entry.epoch, batches) if entry is not None and batches else None


def _entry(epoch: int, batches: Sequence[ProducedBatch]) -> ProducerEntry:
    """A producer of which these batches are known; what came before is recalled when it matters."""
    entry = ProducerEntry(epoch)
    for batch in batches:
        entry.add(batch)
    entry.is_whole = len(batches) == BATCHES_KEPT
    return entry


def _look_for(state: LogState, unknown: set[int], kept: dict[int, ProducerEntry]) -> bool:
    """Find the newest batch of each of these producers before the log's end; False if one is not found."""
    for header in headers_before(state, state.log_end_offset):
        if header.producer_id in unknown:
            if header.attributes & (CONTROL | TRANSACTIONAL):
                return False
            kept[header.producer_id] = _entry(header.producer_epoch, [produced_batch(header)])
            unknown.remove(header.producer_id)
            if not unknown:
                return True
    return False
