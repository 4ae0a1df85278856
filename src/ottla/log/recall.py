"""Finds the batches that a producer snapshot has forgotten (PRO-4).

A snapshot keeps only the last batch of each producer, and an idempotent producer may send its last five again. So when
a producer that came from a snapshot sends what does not come next, its earlier batches are looked up in the log
itself, before it is refused. That happens once per producer and start, and looks at headers only, in the last few
megabytes before what is known: what was in flight when the broker stopped cannot lie further back.
"""

from collections.abc import Iterator
from typing import Final

from ottla.errors import KafkaError
from ottla.log.producer_state import BATCHES_KEPT, SEQUENCE_MASK, ProducedBatch, ProducerEntry
from ottla.log.segment import Segment
from ottla.log.state import LogState, logger
from ottla.records.batch import CONTROL, BatchHeader, CorruptRecord

# Five batches of a mebibyte, which is as large as they get by default, and as much again of other producers.
_WINDOW_BYTES: Final = 10 << 20


def recall_batches(state: LogState, producer_id: int, staged: ProducerEntry | None) -> bool:
    """Give a producer its earlier batches back; False if there is nothing to look for.

    `staged` is the copy that an append works on: it learns what the log's own entry learns.
    """
    entry = state.producers.get(producer_id)
    if entry is None or entry.is_whole or not entry.batches:
        return False
    entry.is_whole = True
    earlier = _earlier_batches(state, producer_id, entry)
    entry.recall(earlier)
    if staged is not None and staged.epoch == entry.epoch:
        staged.recall(earlier)
    return bool(earlier)


def _earlier_batches(state: LogState, producer_id: int, entry: ProducerEntry) -> list[ProducedBatch]:
    """The batches before the oldest known one, newest first, as long as their sequences join."""
    oldest = entry.batches[0]
    found: list[ProducedBatch] = []
    try:
        for header in headers_before(state, oldest.base_offset):
            if header.producer_id != producer_id or header.attributes & CONTROL:
                continue
            batch = produced_batch(header)
            following = found[-1] if found else oldest
            joins = (batch.last_sequence + 1) & SEQUENCE_MASK == following.first_sequence
            if header.producer_epoch != entry.epoch or not joins:
                break
            found.append(batch)
            if len(found) + len(entry.batches) >= BATCHES_KEPT:
                break
    except (OSError, CorruptRecord, KafkaError) as problem:
        logger.warning(
            "%s: earlier batches of producer %d cannot be read: %s", state.name, producer_id, problem
        )
    return found


def produced_batch(header: BatchHeader) -> ProducedBatch:
    """What a header says about its batch's place in the producer's sequence."""
    last_sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
    return ProducedBatch(
        header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )


def headers_before(state: LogState, offset: int) -> Iterator[BatchHeader]:
    """The headers of the batches before `offset`, newest first, over some megabytes."""
    left_bytes = _WINDOW_BYTES
    for segment in reversed(list(state.segments)):
        if segment.base_offset >= offset or not segment.size_bytes:
            continue
        headers, size_bytes = _tail(segment, offset, left_bytes)
        yield from reversed(headers)
        left_bytes -= size_bytes
        if left_bytes <= 0:
            return


def _tail(segment: Segment, offset: int, size_bytes: int) -> tuple[list[BatchHeader], int]:
    """The headers of the last `size_bytes` of a segment before `offset`, and how many bytes those are."""
    end = segment.size_bytes
    if segment.next_offset > offset:
        placed = segment.find(offset)
        end = end if placed is None else placed.position
    start = segment.index.floor_position(max(0, end - size_bytes), segment.size_bytes)
    headers = []
    for placed in segment.walk(start):
        if placed.position >= end:
            break
        headers.append(placed.header)
    return headers, end - start
