"""The hot path: batches of clients are checked by their header and get their offsets in place.

An ordinary batch needs no further check (`batch_validation` has them for the others) and is the next one in
its producer's sequence. Nearly all batches are ordinary, so `_take` accepts them with one condition and a few
assignments.
"""

from collections.abc import Collection, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.errors import ErrorCode, KafkaError
from ottla.log.batch_validation import examine
from ottla.log.producers.failed_writes import InterruptedProducers
from ottla.log.producers.producer_lookup import recall_batches, sent_before
from ottla.log.producers.producer_state import (
    SEQUENCE_MASK,
    Incoming,
    ProducedBatch,
    ProducerEntry,
    Producers,
    expected_sequence,
)
from ottla.log.producers.sequence_gaps import SequenceGaps
from ottla.log.producers.verification import Verification
from ottla.log.segments.extent import Extent
from ottla.log.status import Status
from ottla.log.writing.tail import Tail
from ottla.log.writing.writer import Writer
from ottla.model import NO_EPOCH, NO_TIMESTAMP
from ottla.records.batch import HEADER, TRANSACTIONAL

_UNPACK: Final = HEADER.unpack_from
_NUMBER: Final = Struct(">qii").pack_into  # base offset, length (unchanged), leader epoch


class Appended(NamedTuple):
    """The offsets of an appended batch. `log_append_time_ms` is -1 unless the topic uses LogAppendTime."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


Answer = Appended | KafkaError

# Appended(...) spends most of its time in a generated __new__; this makes the same tuple without it.
_new_tuple: Final = tuple.__new__


class Appender:
    """Appends batches of clients to one log."""

    __slots__ = (
        "_append_time_ms",
        "_extent",
        "_gaps",
        "_interrupted",
        "_largest_bytes",
        "_leader_epoch",
        "_newest_ms",
        "_now_ms",
        "_oldest_ms",
        "_producers",
        "_status",
        "_tail",
        "_verified",
        "_writer",
    )

    def __init__(
        self, writer: Writer, extent: Extent, tail: Tail, producers: Producers, status: Status
    ) -> None:
        self._writer = writer
        self._extent = extent
        self._tail = tail
        self._producers = producers
        self._status = status
        self._interrupted = InterruptedProducers()
        self._gaps = SequenceGaps()
        self._leader_epoch = NO_EPOCH
        self._verified: Collection[Verification] | None = None
        # Derived from the settings and the time: `_set_limits` sets them before the first batch.
        self._now_ms = 0
        self._oldest_ms = self._newest_ms = 0
        self._append_time_ms = NO_TIMESTAMP
        self._largest_bytes = 0

    def append(
        self,
        record_sets: Sequence[memoryview],
        leader_epoch: int,
        now_ms: int,
        verified: Collection[Verification] | None,
    ) -> list[Answer]:
        """One answer per item, in order. Invalid data and a failing disk are answers, not exceptions."""
        status, writer = self._status, self._writer
        self._verified = verified
        if status.refusal is not None:
            return [status.refusal for _ in record_sets]
        answers: list[Answer] = []
        try:
            if writer.begin(now_ms):
                self._set_limits(now_ms)
            self._leader_epoch = leader_epoch
            if leader_epoch > self._extent.leader_epochs.latest:
                writer.begin_epoch(leader_epoch, writer.next_offset)
            # Answers from before an OSError stay in the list.
            answers.extend(map(self._take, record_sets))
            writer.write()
        except OSError as problem:
            writer.abandon()
            settled = self._with_failure(answers, len(record_sets), problem)
            pairs = zip(record_sets, settled, strict=True)
            failed = (records for records, answer in pairs if _is_storage_error(answer))
            self._interrupted.note(failed, self._producers)
            return settled
        return answers

    def _set_limits(self, now_ms: int) -> None:
        limits = self._tail.limits
        self._now_ms = now_ms
        self._oldest_ms = now_ms - limits.before_max_ms
        self._newest_ms = now_ms + limits.after_max_ms
        self._append_time_ms = now_ms if limits.is_log_append_time else NO_TIMESTAMP
        self._largest_bytes = limits.largest_ordinary_bytes

    def _take(self, records: memoryview) -> Answer:
        """Check one batch and write its offsets into it. OSError if the roll that it needed failed."""
        try:
            (
                _,
                length,
                _,
                magic,
                crc,
                attributes,
                delta,
                base_time,
                max_time,
                producer,
                epoch,
                sequence,
                count,
            ) = _UNPACK(records)
        except struct_error:
            return KafkaError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no record batch")
        # All at once and by header alone: this decides for nearly every batch that ever arrives.
        if (
            length + 12 != len(records)
            or magic != 2
            or (not 0 <= attributes <= 4 and (producer < 0 or not 16 <= attributes <= 20))
            or delta + 1 != count
            or count <= 0
            or length + 12 > self._largest_bytes
            or not self._oldest_ms <= base_time <= max_time <= self._newest_ms
            or (producer >= 0 and (sequence < 0 or epoch < 0))
            or crc32c(records[21:]) != crc
        ):
            try:
                records = examine(records, self._tail.limits, self._now_ms)
            except KafkaError as refused:
                return refused
            length, attributes, max_time = _changed_fields(records)
        writer = self._writer
        base_offset, last_offset = writer.next_offset, writer.next_offset + delta
        writer.make_room(length + 12, max_time, last_offset)
        if producer >= 0:
            batch = ProducedBatch(
                sequence, (sequence + delta) & SEQUENCE_MASK, base_offset, last_offset, max_time
            )
            # The next batch of a known producer needs no further checks.
            entry = writer.staged.entry(producer)
            if (
                entry is not None
                and sequence == entry.next_sequence
                and epoch == entry.epoch
                # Inside of an open transaction, or outside of any: as the batch says of itself.
                and (entry.txn_first_offset >= 0) is (attributes >= TRANSACTIONAL)
            ):
                entry.add(batch)
            elif answer := self._stage(Incoming(producer, epoch, bool(attributes & TRANSACTIONAL), batch)):
                return answer
        _NUMBER(records, 0, base_offset, length, self._leader_epoch)
        writer.place(records, length + 12, last_offset, max_time)
        fields = (base_offset, last_offset, self._append_time_ms, self._extent.start_offset, False)
        return _new_tuple(Appended, fields)

    def _stage(self, incoming: Incoming) -> Answer | None:
        """Check the producer's sequence: None if the batch is new and the next one."""
        staged = self._writer.staged
        if interrupted := self._interrupted.refusal_of(incoming, staged.entry(incoming.producer_id)):
            return interrupted
        try:
            earlier = staged.check(incoming)
        except KafkaError as refused:
            producer_id, segments = incoming.producer_id, self._extent.segments
            entry = staged.entries.get(producer_id)
            if recall_batches(segments, self._producers, producer_id, entry):
                return self._stage(incoming)
            earlier = sent_before(segments, incoming, entry)
            if earlier is None:
                return self._refusal(incoming, entry, refused)
        if earlier is None:
            if early := self._early(incoming):
                return early
            if incoming.is_transactional and (unverified := self._unverified(incoming)):
                return unverified
            staged.apply(incoming)
            return None
        is_stamped = self._append_time_ms != NO_TIMESTAMP
        return Appended(
            earlier.base_offset,
            earlier.last_offset,
            earlier.timestamp if is_stamped else NO_TIMESTAMP,
            self._extent.start_offset,
            True,
        )

    def _refusal(self, incoming: Incoming, entry: ProducerEntry | None, refused: KafkaError) -> KafkaError:
        """The answer to a batch that is not the producer's next one."""
        if refused.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return refused
        return self._gaps.refusal_of(incoming, expected_sequence(incoming, entry)) or refused

    def _early(self, incoming: Incoming) -> KafkaError | None:
        """Why the batch of an unknown producer must wait: perhaps it is not its first one."""
        if self._writer.staged.entry(incoming.producer_id) is not None:
            return None
        return self._gaps.refusal_of(incoming, 0)

    def _unverified(self, incoming: Incoming) -> KafkaError | None:
        """Why a batch must not begin a transaction here; None if it may, or continues one (`verification`)."""
        presented, producer_id = self._verified, incoming.producer_id
        entry = self._writer.staged.entry(producer_id)
        is_ongoing = entry is not None and entry.has_open_transaction and entry.epoch == incoming.epoch
        if presented is None or is_ongoing:
            return None
        verification, sequence = self._producers.verifications.get(producer_id), incoming.batch.first_sequence
        if verification is None or verification not in presented:
            return KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no transaction under way here"
            )
        lowest = verification.lowest_sequence
        if entry is None and verification.bumps_epoch:
            lowest = 0
        if sequence > lowest:
            return KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id}: sequence {lowest} must come before {sequence}",
            )
        return None

    def _with_failure(self, answers: list[Answer], count: int, problem: OSError) -> list[Answer]:
        """The answers after a failed write: batches in the log keep theirs, all others get the error."""
        failure = self._status.write_failed(problem)
        end = self._extent.end_offset
        settled: list[Answer] = [
            failure if isinstance(answer, Appended) and answer.base_offset >= end else answer
            for answer in answers
        ]
        return settled + [failure] * (count - len(settled))


def _is_storage_error(answer: Answer) -> bool:
    return isinstance(answer, KafkaError) and answer.code == ErrorCode.KAFKA_STORAGE_ERROR


def _changed_fields(records: memoryview) -> tuple[int, int, int]:
    """Length, attributes and largest timestamp, which `examine` may have changed."""
    header = _UNPACK(records)
    return header[1], header[5], header[8]
