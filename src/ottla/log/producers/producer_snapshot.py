"""The format of a producer snapshot: `<offset>.snapshot` holds the producer state before that offset.

A snapshot has only the last batch of each producer, as in Kafka; `producer_lookup` finds earlier ones in the
log.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from crc32c import crc32c

from ottla.log.producers.producer_state import SEQUENCE_MASK, ProducedBatch, ProducerEntry, Producers
from ottla.model import NO_SEQUENCE

_VERSION: Final = 1
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class SnapshotError(ValueError):
    """The file is not a producer snapshot, or it is damaged."""


def render_snapshot(producers: Producers) -> bytes:
    """The file's content."""
    entries = producers.items()
    body = bytearray(_COUNT.pack(len(entries)))
    for producer_id, entry in entries:
        body += _render_entry(producer_id, entry)
    return _HEAD.pack(_VERSION, crc32c(body)) + bytes(body)


def _render_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    delta = last.last_offset - last.base_offset if last else 0
    return _ENTRY.pack(
        producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_offset,
        delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def parse_snapshot(data: bytes) -> Producers:
    """The state in a file's content; SnapshotError if it cannot be trusted."""
    try:
        version, crc = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except struct_error:
        raise SnapshotError(f"{len(data)} bytes are too few for a producer snapshot") from None
    if version != _VERSION:
        raise SnapshotError(f"snapshot version {version} is not {_VERSION}")
    start = _HEAD.size + _COUNT.size
    if crc32c(data[_HEAD.size :]) != crc or len(data) != start + count * _ENTRY.size:
        raise SnapshotError("the snapshot's checksum or size is wrong")
    producers = Producers()
    producers.restore(dict(_parse_entry(data, start + number * _ENTRY.size) for number in range(count)))
    return producers


def _parse_entry(data: bytes, position: int) -> tuple[int, ProducerEntry]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first = (
        _ENTRY.unpack_from(data, position)
    )
    entry = ProducerEntry(
        epoch,
        is_whole=False,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        txn_first_offset=txn_first,
    )
    if last_offset >= 0:
        has_sequence = last_sequence != NO_SEQUENCE
        first_sequence = (last_sequence - delta) & SEQUENCE_MASK if has_sequence else NO_SEQUENCE
        entry.add(ProducedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
    return producer_id, entry
