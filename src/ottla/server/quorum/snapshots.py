"""Snapshots of the metadata: files beside its log, in Kafka's format, that hold everything below an offset.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint

A file is batches: a header, the records that make the state, a footer; without the footer it is not whole. It
has its name only once it is whole and durable. Two are kept: the log goes back to the end of the older one,
so that a node that is a little behind need not fetch a snapshot.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from ottla.controller.records import decode_record, encode_record
from ottla.protocol.codec import DecodeError, Int16, Int64, encode, record
from ottla.raft.messages import SnapshotId
from ottla.raft.voter_records import voters_batch, voters_in
from ottla.raft.voters import VoterSet
from ottla.records.batch import BatchView, CorruptRecord, iter_batches
from ottla.records.builder import build_batch
from ottla.records.control import ControlRecordType, control_key, control_type_of
from ottla.records.record import Record
from ottla.runtime.disk import Disk

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")
_DAMAGED: Final = ".damaged"
_KEPT: Final = 2
_RECORDS_PER_BATCH: Final = 1000
_VERSION: Final = 0


class SnapshotError(ValueError):
    """The bytes are not a whole snapshot."""


@record(key=0, versions=(0, 0), flexible=0)
class SnapshotHeaderRecord:
    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@record(key=0, versions=(0, 0), flexible=0)
class SnapshotFooterRecord:
    version: Int16 = 0


def snapshot_content(
    records: Iterable[Any], epoch: int, timestamp_ms: int, voters: VoterSet | None = None
) -> bytes:
    """The file's content. `voters` are those that the log names before the snapshot's end, if any."""
    out = bytearray()
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
    offset = _add_control(out, 0, ControlRecordType.SNAPSHOT_HEADER, header, epoch, timestamp_ms)
    if voters is not None:
        batch = voters_batch(voters, epoch, timestamp_ms, offset)
        out += batch
        offset = BatchView(memoryview(batch)).next_offset
    left = iter(records)
    while chunk := list(islice(left, _RECORDS_PER_BATCH)):
        values = [
            Record(number, timestamp_ms, None, encode_record(each))
            for number, each in enumerate(chunk, offset)
        ]
        out += build_batch(values, base_offset=offset, partition_leader_epoch=epoch)
        offset += len(chunk)
    _add_control(out, offset, ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(), epoch, timestamp_ms)
    return bytes(out)


def _add_control(
    out: bytearray, offset: int, kind: ControlRecordType, body: object, epoch: int, timestamp_ms: int
) -> int:
    control = Record(offset, timestamp_ms, control_key(kind), bytes(encode(body, _VERSION)))
    out += build_batch([control], is_control=True, base_offset=offset, partition_leader_epoch=epoch)
    return offset + 1


def snapshot_records(content: bytes) -> Iterator[Any]:
    """The metadata records in a snapshot; SnapshotError where it is damaged or not whole."""
    is_whole = False
    try:
        for batch in iter_batches(memoryview(content)):
            if not batch.crc_is_valid():
                raise SnapshotError(f"the batch at {batch.position} is damaged")
            if batch.is_control:
                is_whole = _is_footer(batch)
            else:
                for each in batch.records():
                    yield decode_record(each.value or b"")
    except (CorruptRecord, DecodeError) as problem:
        raise SnapshotError(str(problem)) from None
    if not is_whole:
        raise SnapshotError("it has no end")


def _is_footer(batch: BatchView) -> bool:
    return any(control_type_of(each.key) == ControlRecordType.SNAPSHOT_FOOTER for each in batch.records())


class Snapshots:
    """The snapshots in one directory. `keep` may run in any thread, one at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.ids: list[SnapshotId] = sorted(
            SnapshotId(int(match["offset"]), int(match["epoch"]))
            for entry in disk.list(directory)
            if (match := _NAME.fullmatch(entry.name)) is not None
        )

    @property
    def latest(self) -> SnapshotId | None:
        return self.ids[-1] if self.ids else None

    def records(self, snapshot_id: SnapshotId) -> list[Any]:
        """The content of a snapshot; SnapshotError or OSError if it cannot be read."""
        return list(snapshot_records(self._disk.read(self._path(snapshot_id))))

    def voters(self, snapshot_id: SnapshotId) -> VoterSet | None:
        """The voters that a readable snapshot names; None if it names none."""
        found = voters_in(iter_batches(memoryview(self._disk.read(self._path(snapshot_id)))))
        return next((each.voters for each in found), None)

    def latest_records(self) -> list[Any]:
        """The content of the latest readable snapshot; nothing if there is none. Damaged ones are set
        aside.
        """
        while self.ids:
            try:
                return self.records(self.ids[-1])
            except (SnapshotError, OSError) as problem:
                damaged = self._path(self.ids.pop())
                logger.error("%s cannot be used and is set aside: %s", damaged, problem)
                self._disk.rename(damaged, damaged + _DAMAGED)
        return []

    def piece(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """How large a snapshot is, and some bytes of it; None if there is no such snapshot."""
        if snapshot_id not in self.ids:
            return None
        file = self._disk.open(self._path(snapshot_id))
        return file.size, file.read(position, max_bytes) if position <= file.size else b""

    @staticmethod
    def check(content: bytes) -> None:
        """SnapshotError if these are not the bytes of a whole snapshot. In any thread."""
        for _ in snapshot_records(content):
            pass

    def write(self, snapshot_id: SnapshotId, content: bytes) -> None:
        """Make a snapshot durable; it is not known here before `add`. In any thread. OSError if that
        fails.
        """
        self._disk.write_atomically(self._path(snapshot_id), content)

    def add(self, snapshot_id: SnapshotId) -> SnapshotId | None:
        """A snapshot is durable. Answers the one at whose end the log may begin, if any; older ones go."""
        self.ids = sorted({*self.ids, snapshot_id})
        for old in self.ids[:-_KEPT]:
            self._disk.remove(self._path(old))
        self.ids = self.ids[-_KEPT:]
        return self.ids[0] if len(self.ids) == _KEPT else None

    def replace(self, snapshot_id: SnapshotId) -> None:
        """The log begins at the end of this one: no other belongs to it."""
        for old in self.ids:
            if old != snapshot_id:
                self._disk.remove(self._path(old))
        self.ids = [snapshot_id]

    def _path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}.checkpoint"
