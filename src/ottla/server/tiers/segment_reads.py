"""Pieces of one segment's objects, read and verified. In threads that may wait.

Indexes are compared with the checksum in the metadata, batches with their own. What does not fit is read once
more, because an answer may have been torn on its way, and is refused then: wrong bytes never leave this module.
"""

from collections.abc import Callable
from typing import Final, TypeVar
from uuid import UUID

from crc32c import crc32c

from ottla.controller.remote_log import RemoteSegment
from ottla.log.files.file_names import LOG
from ottla.log.tiers.batch_run import BatchRun, Bounds, parse_run
from ottla.log.tiers.object_names import object_name
from ottla.records.corruption import CorruptRecord
from ottla.records.index_lookup import position_before
from ottla.runtime.object_store import ObjectStore, StoreError

T = TypeVar("T")

_ATTEMPTS: Final = 2


class SegmentReads:
    """Reads of one segment, whose objects are named after its topic and partition."""

    def __init__(self, topic: str, topic_id: UUID, partition: int, segment: RemoteSegment) -> None:
        self._place = topic, topic_id, partition, segment.base_offset, segment.segment_id
        self.segment = segment

    def whole(self, store: ObjectStore, kind: str) -> bytes:
        """A small object as a whole; empty if the segment has none of this kind. StoreError."""
        known = self.segment.object(kind)
        if known is None:
            return b""
        name = self._name(kind)

        def read() -> bytes:
            data = store.get(name, 0, known.size_bytes)
            if len(data) != known.size_bytes or crc32c(data) != known.crc:
                raise CorruptRecord("the object is not what was written")
            return data

        return _twice(name, read)

    def run(self, store: ObjectStore, index: bytes, size_bytes: int, offset: int) -> BatchRun:
        """About `size_bytes` of whole batches from `offset` on. StoreError."""
        log = self.segment.object(LOG)
        assert log is not None, "a copied segment has batches"
        segment = self.segment
        bounds = Bounds(log.size_bytes, segment.base_offset, segment.next_offset, segment.epochs)
        position, last_offset = position_before(index, segment.base_offset, offset)
        name = self._name(LOG)

        def read() -> BatchRun:
            wanted = size_bytes
            while True:
                wanted = min(wanted, bounds.size_bytes - position)
                data = store.get(name, position, wanted)
                if len(data) != wanted:
                    raise CorruptRecord(f"the store gave {len(data)} of {wanted} bytes")
                found = parse_run(data, position, bounds, offset, last_offset)
                if isinstance(found, BatchRun):
                    return found
                if found is None:
                    raise CorruptRecord(f"there is no batch with offset {offset}")
                # A batch that is larger than what was read, or the batches before the wanted one.
                wanted = max(found, 2 * wanted)

        return _twice(name, read)

    def _name(self, kind: str) -> str:
        return object_name(*self._place, kind)


def _twice(name: str, read: Callable[[], T]) -> T:
    for attempt in range(_ATTEMPTS):
        try:
            return read()
        except CorruptRecord as problem:
            if attempt == _ATTEMPTS - 1:
                raise StoreError(f"reading {name}: {problem}") from problem
    raise AssertionError
