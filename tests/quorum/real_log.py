"""The log of a simulated member of the quorum, as the broker has it: `ottla.log` on the disk that forgets and tears.

Beside it a list says what must be in it. Whatever the real log answers is compared with the list, and after every crash the
log is opened and read anew. It also shows how a `Log` is the `LogView` of the quorum.
"""

from __future__ import annotations

from random import Random
from struct import Struct

from tests.quorum.checks import require
from tests.quorum.model_disk import Entry, SimulatedLog
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.logs import config, open_log, read_all

from ottla.log.writing.flush import FlushJob
from ottla.model import NO_EPOCH, EpochEnd
from ottla.raft.messages import SnapshotId
from ottla.records.batch import BatchView, iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record

_VALUE = Struct(">q")
_SETTINGS = config(segment_bytes=700, file_delete_delay_ms=0)
NOW_MS = 1_700_000_000_000


class RealLog:
    """A Log and the list that it must agree with."""

    def __init__(self) -> None:
        self._disk = SimulatedDisk()
        self._disk.mkdir("/data")
        self._log = open_log(self._disk, settings=_SETTINGS)
        self._list = SimulatedLog()
        self._job: FlushJob | None = None
        # The two checkpoints that the broker keeps beside its logs.
        self._recovery_point = 0
        self._start = SnapshotId(0, NO_EPOCH)
        self.latest_snapshot: SnapshotId | None = None

    # ---- the view

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_start_epoch(self) -> int:
        return self._start.epoch

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        return self._log.durability.flushed_offset

    @property
    def last_epoch(self) -> int:
        latest = self._log.latest_epoch
        return self._start.epoch if latest == NO_EPOCH else latest

    def end_offset_for(self, epoch: int) -> EpochEnd:
        return self._log.extent.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- what the shell does

    def entry(self, offset: int) -> Entry:
        return self._list.entry(offset)

    def epoch_before(self, offset: int) -> int:
        return self._list.epoch_before(offset)

    def append(self, entry: Entry) -> None:
        batch = build_batch([Record(0, NOW_MS, None, _VALUE.pack(entry.value))])
        self._log.append_records(memoryview(batch), leader_epoch=entry.epoch, now_ms=NOW_MS)
        self._list.append(entry)
        self._compare()

    def append_records(self, records: bytes | memoryview) -> None:
        self._log.append_replicated(memoryview(bytes(records)), NOW_MS)
        for _, entry in self.entries_of(records):
            self._list.append(entry)
        self._compare()

    def entries_of(self, records: bytes | memoryview) -> list[tuple[int, Entry]]:
        return [(batch.base_offset, _entry(batch)) for batch in iter_batches(records)]

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = self._log.read(offset, max_bytes, upper_offset=self.log_end_offset, at_least_one=True)
        return b"" if found is None else found.file.read(found.position, found.size)

    def truncate(self, offset: int) -> None:
        self._recovery_point = min(self._recovery_point, offset)
        self._log.truncate_to(offset)
        self._list.truncate(offset)
        self._compare()

    def reset(self, snapshot_id: SnapshotId) -> None:
        self._recovery_point = 0  # nothing that is not there was ever promised
        self._log.truncate_fully(snapshot_id.end_offset)
        self._recovery_point = snapshot_id.end_offset
        self._start = snapshot_id
        self._list.reset(snapshot_id)
        self._compare()

    def advance_start(self, snapshot_id: SnapshotId) -> None:
        self._log.advance_log_start_offset(snapshot_id.end_offset)
        self._start = snapshot_id
        self._list.advance_start(snapshot_id)
        self._compare()

    def begin_flush(self) -> None:
        self._job = self._log.durability.begin_flush()

    def end_flush(self) -> None:
        assert self._job is not None
        self._job.run()
        self._log.durability.complete_flush(self._job)
        self._job = None
        self._recovery_point = self._log.durability.flushed_offset

    def crash(self, random: Random) -> None:
        self._open_again(self._disk.crash(random))

    def restart(self) -> None:
        self._open_again(self._disk.kill())

    def _open_again(self, disk: SimulatedDisk) -> None:
        flushed = max(self._log.durability.flushed_offset, self._start.end_offset)
        self._log.close(clean=False)
        self._disk, self._job = disk, None
        self._log = open_log(
            disk,
            settings=_SETTINGS,
            recovery_point=self._recovery_point,
            log_start_offset=self._start.end_offset,
            clean=False,
        )
        # A process that died may have made a segment whose name is not durable; a flush syncs the file, and not the name.
        self._disk.sync_directory(self._log.directory)
        self._cut_at_hole()
        end = self.log_end_offset
        require(flushed <= end <= self._list.log_end_offset, f"{flushed} was flushed, the log ends at {end}")
        self._list.truncate(end)
        self._compare()
        for batch in read_all(self._log):
            if batch.base_offset >= self.log_start_offset:
                found, expected = _entry(batch), self._list.entry(batch.base_offset)
                require(found == expected, f"{batch.base_offset} was {expected} and is {found}")

    def _cut_at_hole(self) -> None:
        """The log of a topic keeps what comes behind a hole that a crash made; the quorum's must end before it.

        Where nothing is left behind the snapshot that the log begins with, it begins there anew.
        """
        expected = self._start.end_offset
        last: BatchView | None = None
        for batch in read_all(self._log, from_offset=max(expected, self.log_start_offset)):
            if batch.base_offset > expected:
                break
            expected, last = batch.next_offset, batch
        if last is None:
            self._log.truncate_fully(expected)
            return
        self._log.truncate_to(expected)
        if self.log_end_offset > expected:
            # A segment may end with a hole, where there is no batch to cut at: cut before the last one, and put it back.
            self._log.truncate_to(last.base_offset)
            self._log.append_replicated(memoryview(bytes(last.view())), NOW_MS)

    def _compare(self) -> None:
        ours = (self.log_start_offset, self.log_end_offset, self.last_epoch)
        model = self._list
        theirs = (model.log_start_offset, model.log_end_offset, model.last_epoch)
        require(ours == theirs, f"the log is {ours} and should be {theirs}")


def _entry(batch: BatchView) -> Entry:
    (record,) = batch.records()
    (value,) = _VALUE.unpack(record.value or b"")
    return Entry(batch.partition_leader_epoch, value)
