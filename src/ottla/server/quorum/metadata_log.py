"""The metadata log as the quorum needs it: `ottla.log` as a `LogView`, with what a shell has to do to it.

After a crash the log of a topic keeps what lies behind a hole; this one is cut before the first hole, because
a record counts only if everything before it is there. The log begins at 0 or at the end of a snapshot
(`quorum_snapshots`), whose epoch is that of the record before the first one. A log that was cut by its disk,
not by its quorum, has forgotten what it promised: `is_whole` is False then.

Disks damage records after they were written as well. All of the log is checked when it is opened, and is cut before
the first damaged batch; what is read later is checked, too, so that nobody replays or fetches it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from ottla.config import TopicConfig
from ottla.controller.records import encode_record
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import LogDirectory
from ottla.log.log import Log
from ottla.log.plan.retention import plan_retention
from ottla.log.writing.flush import FlushJob
from ottla.model import NO_EPOCH, EpochEnd, TopicPartition
from ottla.raft.events import AppendLeaderChange, AppendVoters
from ottla.raft.leader_change import leader_change_batch
from ottla.raft.messages import METADATA_PARTITION, METADATA_TOPIC, SnapshotId
from ottla.raft.voter_records import voters_batch, voters_in
from ottla.raft.voters import LoggedVoters, VoterSet
from ottla.records.batch import BatchView, CorruptRecord, iter_batches, read_header
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.runtime.disk import Disk, is_out_of_room
from ottla.server.quorum.snapshots import Snapshots
from ottla.server.quorum.state_file import QuorumStateFile

logger = logging.getLogger(__name__)

_KEEPS_ALL: Final = TopicConfig(cleanup_policy=())
_BEGINNING: Final = SnapshotId(0, NO_EPOCH)
_SCAN_BYTES: Final = 1 << 20


class MetadataLog:
    """See the module. Everything is called on the loop, but what `FlushJob.run` and `Snapshots` say may run
    in a thread.
    """

    def __init__(
        self,
        directory: LogDirectory,
        disk: Disk,
        file: QuorumStateFile,
        now_ms: Callable[[], int],
        *,
        is_alone: bool = False,
    ) -> None:
        """`is_alone`: no other node is a voter by the settings. KafkaError if the log is damaged, and no other has it."""
        self._directory = directory
        self._file = file
        self._now_ms = now_ms
        self._log: Log = directory.open_metadata_log(METADATA_TOPIC, now_ms())
        self.snapshots = Snapshots(disk, self._log.directory)
        self._snapshot_records = self.snapshots.latest_records()
        self.is_whole = True
        self.lost_offset = 0  # everything before it is gone, and no snapshot has it
        self._start = _BEGINNING
        self._voters: list[LoggedVoters] = []
        self._find_start()
        self._cut_at_hole()
        self._cut_at_damage(is_alone=is_alone)

    def take_snapshot_records(self) -> list[Any]:
        """The records of the snapshot that the log was opened with; once, so that they do not stay in
        memory.
        """
        records, self._snapshot_records = self._snapshot_records, []
        return records

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

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots.latest

    @property
    def voters(self) -> LoggedVoters | None:
        return self._voters[-1] if self._voters else None

    @property
    def former_voters(self) -> VoterSet | None:
        return self._voters[-2].voters if len(self._voters) > 1 else None

    def voters_at(self, offset: int) -> VoterSet | None:
        """The newest set of voters below an offset; None if the log names none there."""
        return next((each.voters for each in reversed(self._voters) if each.end_offset <= offset), None)

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest epoch that is at most `epoch`, and where it ends."""
        return self._log.extent.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- reading

    @property
    def directory(self) -> str:
        """Where its files are."""
        return self._log.directory

    @property
    def size_bytes(self) -> int:
        return self._log.extent.segments.size_bytes

    @property
    def is_broken(self) -> bool:
        """Whether nothing can be written any more, whatever the disk does from now on."""
        return self._log.status.refusal is not None

    @property
    def is_failing(self) -> bool:
        """Whether the last write failed, or nothing can be written any more."""
        return self._log.status.is_failing or self.is_broken

    @property
    def is_full(self) -> bool:
        """Whether the last write failed for lack of room only, and left the log as it was."""
        return self._log.status.is_full and not self.is_broken

    def read(self, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
        """Whole batches from the one that holds `offset` on; at least one if there is one. KafkaError if one of them
        is damaged.
        """
        upper = self.log_end_offset if upper_offset is None else upper_offset
        data = self._bytes_from(offset, max_bytes, upper)
        if sum(each.size_bytes for each in _whole_batches(data, offset)) < len(data):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.directory} is damaged behind offset {offset}")
        return data

    def _bytes_from(self, offset: int, max_bytes: int, upper_offset: int) -> bytes:
        found = self._log.read(offset, max_bytes, upper_offset=upper_offset, at_least_one=True)
        return b"" if found is None else found.file.read(found.position, found.size)

    # ---- writing

    def append(self, records: list[Any], epoch: int) -> int:
        """Append the records of one decision as one batch; returns its end offset. KafkaError if the disk
        refuses.
        """
        now_ms = self._now_ms()
        values = [Record(delta, now_ms, None, encode_record(record)) for delta, record in enumerate(records)]
        self._log.append_records(memoryview(build_batch(values)), leader_epoch=epoch, now_ms=now_ms)
        return self.log_end_offset

    def append_control(self, effect: AppendLeaderChange | AppendVoters) -> None:
        """Append the record with which an epoch begins, or the one that names the voters."""
        now_ms = self._now_ms()
        batch = (
            voters_batch(effect.voters, effect.epoch, now_ms)
            if isinstance(effect, AppendVoters)
            else leader_change_batch(effect, now_ms)
        )
        self._log.append_records(memoryview(batch), leader_epoch=effect.epoch, now_ms=now_ms)
        if isinstance(effect, AppendVoters):
            self._voters.append(LoggedVoters(effect.voters, self.log_end_offset))

    def append_fetched(self, records: bytes | memoryview) -> None:
        """Append what a leader sent, as it is. KafkaError if it does not fit, or the disk refuses."""
        view = memoryview(records)
        try:
            base_offset = read_header(view).base_offset
        except CorruptRecord as problem:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(problem)) from None
        if base_offset != self.log_end_offset:
            reason = f"offset {base_offset} comes where {self.log_end_offset} is next"
            raise KafkaError(ErrorCode.INVALID_RECORD, reason)
        self._log.append_replicated(view, self._now_ms())
        self._voters += voters_in(iter_batches(view))

    def truncate_to(self, offset: int) -> None:
        """Cut the end off, durably."""
        self._directory.lower_checkpoints({TopicPartition(METADATA_TOPIC, METADATA_PARTITION): offset})
        self._log.truncate_to(offset)
        self._voters = [each for each in self._voters if each.end_offset <= offset]

    def begin_at(self, snapshot_id: SnapshotId) -> None:
        """Throw all away and begin at the end of a snapshot, which is durable."""
        self._directory.lower_checkpoints({TopicPartition(METADATA_TOPIC, METADATA_PARTITION): 0})
        self._log.truncate_fully(snapshot_id.end_offset)
        self._start = snapshot_id
        self._voters = self._voters_of_start()

    def begin_flush(self) -> FlushJob | None:
        """None while the disk has no room for the file of leader epochs: nothing was synced, and nothing is unknown."""
        try:
            return self._log.durability.begin_flush()
        except OSError as problem:
            if not is_out_of_room(problem):
                raise
            self._log.status.write_failed(problem)
            return None

    def complete_flush(self, job: FlushJob) -> None:
        self._log.durability.complete_flush(job)

    def fail_flush(self, problem: BaseException) -> None:
        """Nothing is written any more: what is on the disk is unknown."""
        self._log.durability.fail_flush(problem)

    # ---- getting shorter

    def forget_before(self, snapshot_id: SnapshotId) -> None:
        """Let the log begin at the end of a snapshot, which is durable; segments before it go."""
        now_ms = self._now_ms()
        self._log.roll(now_ms)
        self._log.advance_log_start_offset(snapshot_id.end_offset)
        self._start = snapshot_id
        plan = plan_retention(self._log.retention.segment_facts(), _KEEPS_ALL, snapshot_id.end_offset, now_ms)
        if plan.deletions:
            self._log.retention.delete_segments(plan, now_ms)
        self._log.retention.remove_deleted(now_ms)

    # ---- opening

    def _find_start(self) -> None:
        """Begin at the end of the oldest snapshot that the log goes on from; where there is none, all
        over.
        """
        log, latest = self._log, self.snapshots.latest
        fitting = [
            each
            for each in self.snapshots.ids
            if log.log_start_offset <= each.end_offset <= log.log_end_offset
        ]
        if latest is not None and latest not in fitting:
            if latest.end_offset < log.log_start_offset:
                self._lost(f"begins at {log.log_start_offset}, after its snapshot at {latest.end_offset}")
            self.begin_at(latest)
        elif log.log_start_offset > 0 and fitting:
            log.advance_log_start_offset(fitting[0].end_offset)
            self._start = fitting[0]
        elif log.log_start_offset > 0:
            self._lost(f"begins at {log.log_start_offset}, and there is no snapshot of what was before")
            self.lost_offset = log.log_start_offset
            self.begin_at(_BEGINNING)

    def _voters_of_start(self) -> list[LoggedVoters]:
        found = None if self._start == _BEGINNING else self.snapshots.voters(self._start)
        return [] if found is None else [LoggedVoters(found, self._start.end_offset)]

    def _cut_at_hole(self) -> None:
        """Truncate before the first hole."""
        offset = self._log.extent.first_lost_offset
        if offset is None:
            return
        if offset < self._directory.recovery_point(METADATA_TOPIC, METADATA_PARTITION):
            self._lost(f"has a hole at {offset}, and more was durable once")
        self._cut_at(offset)

    def _cut_at_damage(self, *, is_alone: bool) -> None:
        """Truncate before the first damaged batch, and find the sets of voters in the snapshot before the log, and
        in the log.
        """
        self._voters = self._voters_of_start()
        offset = self.log_start_offset
        while offset < self.log_end_offset:
            batches = self._whole_from(offset)
            if not batches and is_alone and not self._voters:
                # Without its topics the broker would take their records for those of deleted ones.
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"The metadata log in {self.directory} is damaged at offset {offset}, and no other node has it: "
                    "restore the directory from a copy. `ottla dump` shows the records that are left.",
                )
            if not batches:
                self._lost(f"is damaged at {offset}")
                self._cut_at(offset)
                return
            self._voters += [each for each in voters_in(batches) if each.end_offset > offset]
            offset = batches[-1].next_offset

    def _whole_from(self, offset: int) -> list[BatchView]:
        try:
            return _whole_batches(self._bytes_from(offset, _SCAN_BYTES, self.log_end_offset), offset)
        except KafkaError as problem:
            if isinstance(problem.__cause__, CorruptRecord):
                return []
            raise

    def _cut_at(self, offset: int) -> None:
        """Truncate to an offset. If nothing is left, the log restarts empty."""
        if offset > self._start.end_offset:
            self.truncate_to(offset)
        else:
            self.begin_at(self._start)

    def _lost(self, what: str) -> None:
        """Durable records are lost, and the promises with them: forget the vote, durably, before the log
        looks whole again.
        """
        logger.error("the metadata log in %s %s", self._log.directory, what)
        self.is_whole = False
        self._file.forget()


def _whole_batches(data: bytes, offset: int) -> list[BatchView]:
    """The batches in what was read from an offset on, up to the first that is not what was written."""
    whole: list[BatchView] = []
    with suppress(CorruptRecord):
        for batch in iter_batches(memoryview(data)):
            expected = whole[-1].next_offset if whole else min(batch.base_offset, offset)
            if batch.base_offset != expected or batch.next_offset <= offset or not batch.crc_is_valid():
                break
            whole.append(batch)
    return whole
