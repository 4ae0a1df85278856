"""Finds batches of a producer in the log that its state no longer has (PRO-4).

A snapshot has only the last batch of each producer, and an idempotent producer may send its last five again.
So when a producer that was restored from a snapshot sends a batch out of sequence, its earlier batches are
looked up in the log before the batch is refused. That happens once per producer and start. It reads headers
only, in the last megabytes before the known batch: batches that were in flight when the broker stopped cannot
lie further back.

A batch older than the last five may arrive as well: a client that learns of a new leader while requests to
the old one hang sends later batches first, and the hanging ones again after their timeout. Kafka refuses
those, and the client retries until its delivery timeout. Here the batch is looked up in the log, and is a
duplicate if it is found. Its sequence alone would not prove that: a log accepts an unknown producer at any
sequence.
"""

import logging
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Final

from ottla.errors import KafkaError
from ottla.log.producers.producer_state import (
    BATCHES_KEPT,
    SEQUENCE_MASK,
    Incoming,
    ProducedBatch,
    ProducerEntry,
    Producers,
)
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments
from ottla.model import NO_SEQUENCE
from ottla.records.batch import CONTROL, BatchHeader, CorruptRecord

logger = logging.getLogger(__name__)

# Five batches of a mebibyte, which is the largest size by default, and the same again of other producers.
_WINDOW_BYTES: Final = 10 << 20
_PIECE_BYTES: Final = 256 << 10
# The most headers that are read for one batch, some ten milliseconds: a faulty client may cause it again and
# again.
_MOST_HEADERS: Final = 5000
_FARTHEST_SEQUENCE: Final = 1 << 30


def recall_batches(
    segments: Segments, producers: Producers, producer_id: int, staged: ProducerEntry | None
) -> bool:
    """Restore a producer's earlier batches from the log; False if none are missing or found.

    `staged` is the copy that an append works on: it gets the same batches as the producer's own entry.
    """
    entry = producers.get(producer_id)
    if entry is None or entry.is_whole or not entry.batches:
        return False
    earlier = _earlier_batches(segments, producer_id, entry)
    entry.recall(earlier)
    if staged is not None and staged.epoch == entry.epoch:
        staged.recall(earlier)
    return bool(earlier)


def _earlier_batches(segments: Segments, producer_id: int, entry: ProducerEntry) -> list[ProducedBatch]:
    """The batches before the oldest known one, newest first, as long as their sequences are adjacent."""
    oldest = entry.batches[0]
    found: list[ProducedBatch] = []
    try:
        for header in headers_before(segments, oldest.base_offset):
            if header.producer_id != producer_id or header.attributes & CONTROL:
                continue
            batch = produced_batch(header)
            following = found[-1] if found else oldest
            is_adjacent = (batch.last_sequence + 1) & SEQUENCE_MASK == following.first_sequence
            if header.producer_epoch != entry.epoch or not is_adjacent:
                break
            found.append(batch)
            if len(found) + len(entry.batches) >= BATCHES_KEPT:
                break
    except (OSError, CorruptRecord, KafkaError) as problem:
        logger.warning(
            "%s: earlier batches of producer %d cannot be read: %s", segments.active, producer_id, problem
        )
    return found


def sent_before(segments: Segments, incoming: Incoming, entry: ProducerEntry | None) -> ProducedBatch | None:
    """The same batch, appended before the remembered ones; None if it is not found."""
    wanted = incoming.batch
    if entry is None or entry.epoch != incoming.epoch or not entry.batches:
        return None
    distance = (entry.batches[0].first_sequence - wanted.last_sequence) & SEQUENCE_MASK
    if not 0 < distance <= _FARTHEST_SEQUENCE:
        return None
    try:
        for header in islice(headers_before(segments, entry.batches[0].base_offset), _MOST_HEADERS):
            if header.producer_id != incoming.producer_id or header.attributes & CONTROL:
                continue
            found = produced_batch(header)
            if (found.first_sequence, found.last_sequence) == (wanted.first_sequence, wanted.last_sequence):
                return found if header.producer_epoch == incoming.epoch else None
    except (OSError, CorruptRecord, KafkaError) as problem:
        logger.warning("%s: older batches cannot be read: %s", segments.active, problem)
    return None


def produced_batch(header: BatchHeader) -> ProducedBatch:
    """The sequences and offsets in a batch header."""
    last_sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
    if header.base_sequence == NO_SEQUENCE:
        # Offsets that a group's coordinator commits in a transaction have no sequences.
        last_sequence = NO_SEQUENCE
    return ProducedBatch(
        header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )


def headers_before(segments: Segments, offset: int) -> Iterator[BatchHeader]:
    """The headers of the batches before `offset`, newest first, over the last ten megabytes."""
    left_bytes = _WINDOW_BYTES
    for segment in reversed(list(segments)):
        if segment.base_offset >= offset or not segment.size_bytes:
            continue
        end = _end_before(segment, offset)
        while end > 0:
            start = segment.index.floor_position(max(0, end - _PIECE_BYTES), segment.size_bytes)
            yield from reversed(_between(segment, start, end))
            left_bytes -= end - start
            if left_bytes <= 0:
                return
            end = start


def _end_before(segment: Segment, offset: int) -> int:
    """The position after the last batch of the segment that lies before `offset`."""
    placed = segment.find(offset) if segment.next_offset > offset else None
    return segment.size_bytes if placed is None else placed.position


def _between(segment: Segment, start: int, end: int) -> list[BatchHeader]:
    return [placed.header for placed in takewhile(lambda placed: placed.position < end, segment.walk(start))]
