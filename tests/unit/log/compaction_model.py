"""Drives compaction in one process, and a model of what must be left of a log."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.unit.log.batches import NOW_MS
from tests.unit.log.logs import config, read_all, replicate

from ottla.config import TopicConfig
from ottla.log.compaction.cleaner import Cleaner, CleanerLimits, Mapped
from ottla.log.compaction.segment_reader import Throttle
from ottla.log.log import Log
from ottla.records.builder import BatchOptions, build_batch
from ottla.records.compression import Compression
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.record import Record
from ottla.runtime.disk import Disk

RETENTION_MS = 1000
COMPACTED = config(
    cleanup_policy=("compact",),
    segment_bytes=900,
    index_interval_bytes=200,
    segment_index_bytes=4800,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)
LIMITS = CleanerLimits(map_bytes=1 << 16, io_bytes=512, bytes_per_second=1e12)


def unhurried() -> Throttle:
    return Throttle(float("inf"), lambda: 0.0, lambda seconds: None)


def compacted(**settings: object) -> TopicConfig:
    values = {name: getattr(COMPACTED, name) for name in COMPACTED.__slots__}
    return TopicConfig(**(values | settings))


def last_stable_offset(log: Log) -> int:
    """Of a log that all replicas hold."""
    replicate(log)
    unstable = log.first_unstable_offset
    return log.log_end_offset if unstable is None else unstable


def run_pass(disk: Disk, log: Log, now_ms: int, limits: CleanerLimits = LIMITS) -> Iterator[Mapped]:
    """One pass, if the log needs one; yields after the map was built and after each swap."""
    plan = log.compaction.plan(last_stable_offset(log), now_ms)
    if plan is None:
        return
    begun = log.compaction.begin(plan, now_ms)
    cleaner = Cleaner(disk, limits, unhurried())
    mapped = cleaner.build_map(begun.job)
    yield mapped
    horizons = []
    for group in log.compaction.groups(begun, mapped.end_offset):
        cleaned = cleaner.clean(group.base_offsets)
        assert log.compaction.swap(group, cleaned, now_ms)
        horizons.append(cleaned.next_horizon_ms)
        yield mapped
    log.compaction.complete(mapped, min((ms for ms in horizons if ms is not None), default=None))


def compact(disk: Disk, log: Log, now_ms: int = NOW_MS, limits: CleanerLimits = LIMITS) -> Mapped | None:
    """One pass from its beginning to its end; None if the log needs none."""
    mapped = None
    for passed in run_pass(disk, log, now_ms, limits):
        mapped = passed
    return mapped


def records(log: Log) -> list[Record]:
    """Every data record, as a reader of uncommitted ones sees them."""
    return [record for batch in read_all(log) if not batch.is_control for record in batch.records()]


def append_records(log: Log, *pairs: tuple[bytes | None, bytes | None], **options: object) -> int:
    """Append one batch of (key, value); the offset of its first record."""
    made = [Record(delta, NOW_MS, key, value) for delta, (key, value) in enumerate(pairs)]
    named: BatchOptions = {**options}  # type: ignore[typeddict-item]
    data = memoryview(build_batch(made, **named))
    return log.append_records(data, leader_epoch=0, now_ms=NOW_MS).base_offset


def append_marker(log: Log, producer_id: int, *, is_commit: bool, epoch: int = 0) -> int:
    marker = EndTransactionMarker(is_commit, 0)
    data = build_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS)
    base_offset = log.append_records(memoryview(data), leader_epoch=0, now_ms=NOW_MS).base_offset
    replicate(log)
    return base_offset


@dataclass
class ModelBatch:
    """A batch as it was appended, and the notes of compaction in it."""

    records: list[Record]
    producer_id: int
    is_transactional: bool
    is_aborted: bool = False
    horizon_ms: int | None = None


@dataclass
class Model:
    """A log that is compacted the simple way: all of it in memory, one dictionary."""

    random: Random
    batches: list[ModelBatch] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[ModelBatch]] = field(default_factory=dict)

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records]

    def append(self, log: Log) -> None:
        """Something random, to the log and to the model."""
        event = self.random.random()
        if self.open and event < 0.2:
            self._end_transaction(log)
        else:
            self._append_batch(log)

    def end_transactions(self, log: Log) -> None:
        while self.open:
            self._end_transaction(log)

    def _append_batch(self, log: Log) -> None:
        random = self.random
        producer_id = random.choice((-1, -1, 1, 2, 10, 11))
        is_transactional = producer_id >= 10
        count = random.randint(1, 5)
        made = [self._record(delta) for delta in range(count)]
        sequence = self.sequences.get(producer_id, 0)
        data = build_batch(
            made,
            compression=random.choice((Compression.NONE, Compression.NONE, *Compression)),
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=-1 if producer_id < 0 else sequence,
            is_transactional=is_transactional,
        )
        base = log.append_records(memoryview(data), leader_epoch=0, now_ms=NOW_MS).base_offset
        kept = [record._replace(offset=base + record.offset) for record in made]
        batch = ModelBatch(kept, producer_id, is_transactional)
        self.batches.append(batch)
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + count
        if is_transactional:
            self.open.setdefault(producer_id, []).append(batch)

    def _record(self, delta: int) -> Record:
        random = self.random
        key = None if random.random() < 0.03 else b"k%d" % random.randrange(12)
        value = None if random.random() < 0.2 else random.randbytes(random.randint(0, 40))
        headers = (("h", random.choice((None, b"", b"x" * 70))),) if random.random() < 0.1 else ()
        return Record(delta, NOW_MS + random.randint(-100, 100), key, value, headers)

    def _end_transaction(self, log: Log) -> None:
        producer_id = self.random.choice(list(self.open))
        is_commit = self.random.random() < 0.5
        append_marker(log, producer_id, is_commit=is_commit)
        for batch in self.open.pop(producer_id):
            batch.is_aborted = not is_commit

    def compact(self, end_offset: int, now_ms: int) -> None:
        """The records that a pass up to `end_offset` must keep."""
        newest = {
            record.key: record.offset
            for batch in self.batches
            if not batch.is_aborted
            for record in batch.records
            if record.offset < end_offset
        }
        for batch in self.batches:
            if batch.is_aborted and batch.records and batch.records[0].offset < end_offset:
                batch.records = []
            batch.records = [
                record
                for record in batch.records
                if record.offset >= end_offset
                or (
                    record.key is not None
                    and newest[record.key] == record.offset
                    and (record.value is not None or batch.horizon_ms is None or batch.horizon_ms > now_ms)
                )
            ]
            is_first_seen = any(
                record.value is None and record.offset < end_offset for record in batch.records
            )
            if is_first_seen and batch.horizon_ms is None:
                batch.horizon_ms = now_ms + RETENTION_MS
