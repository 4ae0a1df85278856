"""Finds the batches that a producer snapshot has forgotten (PRO-4).

A snapshot keeps only the last batch of each producer, and an idempotent producer may send its last five again. So when
a producer that came from a snapshot sends what does not come next, its earlier batches are looked up in the log
itself, before it is refused. That happens once per producer and start, and looks at headers only, in the last few
megabytes before what is known: what was in flight when the broker stopped cannot lie further back.

A batch that is older than those five may come, too: a client that learns of a new leader while requests to the old one
hang sends the next ones first, and those again when it gives them up. Kafka refuses them, and the client tries until its time is
over. Here the very batch is looked for in the same way, and is a duplicate if it is found. (By its sequence alone that
could not be said: a log takes a producer that it does not know at any sequence.)
"""

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
)
from ottla.log.segments.segment import Segment
from ottla.log.state import LogState, logger
from ottla.records.batch import CONTROL, BatchHeader, CorruptRecord

# Five batches of a mebibyte, which is as large as they get by default, and as much again of other producers.
_WINDOW_BYTES: Final = 10 << 20
_PIECE_BYTES: Final = 256 << 10
# Looking for one batch takes this many headers at most, some ten milliseconds: whoever sends nonsense can ask for it again and again.
_MOST_HEADERS: Final = 5000
_FARTHEST_SEQUENCE: Final = 1 << 30


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


def sent_before(state: LogState, incoming: Incoming, entry: ProducerEntry | None) -> ProducedBatch | None:
    """The batch as it was appended once, if it is older than those that are remembered; None if it is not found."""
    wanted = incoming.batch
    if entry is None or entry.epoch != incoming.epoch or not entry.batches:
        return None
    distance = (entry.batches[0].first_sequence - wanted.last_sequence) & SEQUENCE_MASK
    if not 0 < distance <= _FARTHEST_SEQUENCE:
        return None
    try:
        for header in islice(headers_before(state, entry.batches[0].base_offset), _MOST_HEADERS):
            if header.producer_id != incoming.producer_id or header.attributes & CONTROL:
                continue
            found = produced_batch(header)
            if (found.first_sequence, found.last_sequence) == (wanted.first_sequence, wanted.last_sequence):
                return found if header.producer_epoch == incoming.epoch else None
    except (OSError, CorruptRecord, KafkaError) as problem:
        logger.warning("%s: older batches cannot be read: %s", state.name, problem)
    return None


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
        end = _end_before(segment, offset)
        while end > 0:
            start = segment.index.floor_position(max(0, end - _PIECE_BYTES), segment.size_bytes)
            yield from reversed(_between(segment, start, end))
            left_bytes -= end - start
            if left_bytes <= 0:
                return
            end = start


def _end_before(segment: Segment, offset: int) -> int:
    """Where the batches of a segment end that lie before `offset`."""
    placed = segment.find(offset) if segment.next_offset > offset else None
    return segment.size_bytes if placed is None else placed.position


def _between(segment: Segment, start: int, end: int) -> list[BatchHeader]:
    return [placed.header for placed in takewhile(lambda placed: placed.position < end, segment.walk(start))]
