"""The log of a simulated replica, as the broker has it: `ottla.log` on the disk that forgets and tears.

Beside it a `BrokerLog` says what must be in it. Whatever the real log answers is compared with that, and after every death of
the process, with or without the power, the log is opened and read anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from struct import Struct

from tests.simulation.broker_log import Appended, Batch, BrokerLog
from tests.simulation.raft_checks import require
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.logs import config, open_log, read_all

from ottla.errors import KafkaError
from ottla.log.log import Log
from ottla.log.writing.flush import FlushJob
from ottla.model import EpochEnd
from ottla.records.batch import BatchView, iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record

_VALUE = Struct(">q")
_SETTINGS = config(segment_bytes=2000, file_delete_delay_ms=0)
_READ_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000


class RealBrokerLog:
    """A Log and the list that it must agree with."""

    def __init__(self) -> None:
        self._disk = SimulatedDisk()
        self._disk.mkdir("/data")
        self._log: Log = open_log(self._disk, settings=_SETTINGS)
        self._list = BrokerLog()
        self._job: FlushJob | None = None
        # The checkpoints that the broker keeps beside its logs.
        self._recovery_point = 0
        self._log_start = 0

    # ---- what it is

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        return self._log.durability.flushed_offset

    @property
    def latest_epoch(self) -> int:
        return self._log.latest_epoch

    @property
    def first_lost_offset(self) -> int | None:
        return self._log.extent.first_lost_offset

    @property
    def batches(self) -> list[Batch]:
        return self._list.batches

    @property
    def removable_offset(self) -> int:
        return self._list.removable_offset

    def end_offset_for(self, epoch: int) -> EpochEnd:
        return self._log.end_offset_for(epoch)

    def index_of(self, offset: int) -> int:
        return self._list.index_of(offset)

    def read(self, offset: int, upper_offset: int, max_batches: int) -> list[Batch]:
        found = self._log.read(offset, _READ_BYTES, upper_offset=upper_offset, at_least_one=True)
        views = [] if found is None else list(iter_batches(found.file.read(found.position, found.size)))
        expected = self._list.read(offset, upper_offset, max_batches)
        for view, batch in zip(views, expected, strict=False):
            _compare(view, batch)
        # A real read ends with its segment.
        require(
            bool(views) == bool(expected), f"{len(views)} batches from {offset} to {upper_offset} are read"
        )
        return expected[: len(views)]

    # ---- appends

    def append(
        self, producer_id: int, base_sequence: int, values: tuple[int, ...], leader_epoch: int
    ) -> Appended:
        data = _encode(Batch(0, leader_epoch, producer_id, base_sequence, values))
        (answer,) = self._log.append([memoryview(data)], leader_epoch=leader_epoch, now_ms=NOW_MS)
        if isinstance(answer, KafkaError):
            raise answer
        appended = self._list.append(producer_id, base_sequence, values, leader_epoch)
        ours = Appended(answer.base_offset, answer.last_offset + 1, answer.is_duplicate)
        require(ours == appended, f"{ours} was appended, and {appended} should have been")
        self._agree()
        return appended

    def append_replicated(self, batches: Sequence[Batch]) -> None:
        data = b"".join(_encode(batch) for batch in batches)
        self._log.append_replicated(memoryview(bytearray(data)), NOW_MS)
        self._list.append_replicated(batches)
        self._agree()

    # ---- cuts

    def truncate(self, offset: int) -> None:
        self._recovery_point = min(self._recovery_point, offset)
        self._log.truncate_to(offset)
        self._list.truncate(offset)
        self._agree()

    def begin_at(self, offset: int) -> None:
        self._recovery_point = 0  # nothing that is not there was ever promised
        self._log.truncate_fully(offset)
        self._recovery_point = self._log_start = offset
        self._list.begin_at(offset)
        self._agree()

    def advance_start(self, offset: int) -> None:
        self._list.advance_start(offset)
        self._log_start = self._list.log_start_offset
        self._log.advance_log_start_offset(self._log_start)
        self._agree()

    def accept_loss(self) -> None:
        self._log.accept_loss()

    # ---- the disk

    def begin_flush(self) -> None:
        self._job = self._log.durability.begin_flush()

    def end_flush(self) -> None:
        if self._job is not None:
            self._job.run()
            self._log.durability.complete_flush(self._job)
            self._job = None
            self._recovery_point = self._log.durability.flushed_offset

    def flush(self) -> None:
        self.end_flush()
        self.begin_flush()
        self.end_flush()

    def close(self) -> None:
        """Leave everything on disk."""
        self.end_flush()
        self._log.close(clean=True)
        lost = self._open(self._disk.kill(), is_clean=True)
        require(lost == 0, f"{lost} batches are gone after a clean stop")

    def kill(self) -> None:
        """The process dies and the machine does not."""
        self._log.close(clean=False)
        lost = self._open(self._disk.kill(), is_clean=False)
        require(lost == 0, f"{lost} batches are gone although only the process died")

    def crash(self, random: Random) -> None:
        flushed = self.flushed_offset
        self._log.close(clean=False)
        self._open(self._disk.crash(random), is_clean=False)
        lost = self.first_lost_offset
        require(lost is None or lost >= flushed, f"{flushed} was flushed, and {lost} is lost")

    def _open(self, disk: SimulatedDisk, *, is_clean: bool) -> int:
        """Open the log again; how many batches are not there any more."""
        end, before = self._list.log_end_offset, {batch.base_offset: batch for batch in self._list.batches}
        self._disk, self._job = disk, None
        self._log = open_log(
            disk,
            settings=_SETTINGS,
            recovery_point=self._recovery_point,
            log_start_offset=self._log_start,
            clean=is_clean,
        )
        # A process that died may have made a segment whose name is not durable; a flush syncs the file, and not the name.
        self._disk.sync_directory(self._log.directory)
        require(self.log_end_offset <= end, f"the log ended at {end} and ends at {self.log_end_offset}")
        self._list = self._found(before)
        self._agree()
        return len(before) - len(self._list.batches)

    def _found(self, before: dict[int, Batch]) -> BrokerLog:
        """What is there, each batch the one that was there."""
        found = BrokerLog()
        found.begin_at(self.log_start_offset)
        for view in read_all(self._log):
            if view.base_offset >= self.log_start_offset:
                batch = before.get(view.base_offset)
                require(batch is not None, f"a batch at {view.base_offset} was not there before")
                if batch is not None:
                    _compare(view, batch)
                    found.append_replicated([batch])
        found.log_end_offset = self.log_end_offset
        return found

    def _agree(self) -> None:
        model = self._list
        # An empty log may remember the epoch of what was deleted.
        epoch = self.latest_epoch if model.batches else model.latest_epoch
        ours = (self.log_start_offset, self.log_end_offset, epoch)
        theirs = (model.log_start_offset, model.log_end_offset, model.latest_epoch)
        require(ours == theirs, f"the log is {ours} and should be {theirs}")


def _encode(batch: Batch) -> bytearray:
    records = [
        Record(batch.base_offset + number, NOW_MS, None, _VALUE.pack(value))
        for number, value in enumerate(batch.values)
    ]
    return build_batch(
        records,
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=0 if batch.producer_id >= 0 else -1,
        base_sequence=batch.base_sequence,
    )


def _compare(view: BatchView, batch: Batch) -> None:
    values = tuple(_VALUE.unpack(record.value or b"")[0] for record in view.records())
    ours = (view.base_offset, view.partition_leader_epoch, view.producer_id, values)
    theirs = (batch.base_offset, batch.leader_epoch, batch.producer_id, batch.values)
    require(ours == theirs, f"{ours} is in the log, and {theirs} should be")
