"""Compacting whole segments (RET-3, RET-5, RET-7)."""

import gc
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.simulation.world.disk import SimulatedDisk, SimulatedFile
from tests.unit.log.batches import NOW_MS
from tests.unit.log.compaction_model import (
    COMPACTED,
    LIMITS,
    append_marker,
    append_records,
    compact,
    compacted,
    records,
    unhurried,
)
from tests.unit.log.logs import DIRECTORY, append, content, open_log, read_all, replicate

from ottla.log.compaction.cleaner import Cleaner, CleanerLimits, CleaningJob
from ottla.log.compaction.plan.offset_map import OffsetMap
from ottla.log.log import Log
from ottla.records.batch import CorruptRecord
from ottla.records.builder import build_batch
from ottla.records.index_entries import TXN_INDEX_ENTRY
from ottla.records.record import Record
from ottla.runtime.disk import Buffer


def filled(disk: SimulatedDisk, *pairs: tuple[bytes, bytes | None], per_segment: int = 2) -> Log:
    """A batch per record, and a new segment every few of them; all sealed but an empty last one."""
    log = open_log(disk, settings=COMPACTED)
    for number, pair in enumerate(pairs, 1):
        append_records(log, pair)
        if number % per_segment == 0:
            log.roll(NOW_MS)
    log.roll(NOW_MS)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.extent.segments]


def test_the_newest_value_of_each_key_stays_in_the_order_of_the_log() -> None:
    disk = SimulatedDisk()
    log = filled(disk, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"), (b"d", b"1"))
    compact(disk, log)
    assert [(record.offset, record.key, record.value) for record in records(log)] == [
        (2, b"a", b"2"),
        (3, b"c", b"1"),
        (4, b"b", b"2"),
        (5, b"d", b"1"),
    ]


def test_small_segments_become_one_and_the_active_one_is_left_alone() -> None:
    disk = SimulatedDisk()
    log = filled(disk, *((b"k%d" % number, b"v") for number in range(8)))
    append_records(log, (b"k0", b"new"))
    assert bases(log) == [0, 2, 4, 6, 8]
    compact(disk, log)
    assert bases(log) == [0, 8]
    assert [record.value for record in records(log) if record.key == b"k0"] == [b"v", b"new"]
    assert log.extent.segments.size_bytes == sum(segment.file.size for segment in log.extent.segments)


def test_segments_of_which_nothing_stays_keep_their_end() -> None:
    disk = SimulatedDisk()
    log = filled(disk, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", b"2"), (b"a", b"3"), (b"b", b"3"))
    big = compacted(segment_bytes=160)
    log.tail.configure(big)
    compact(disk, log)
    assert bases(log) == [0, 2, 4, 6]
    assert [(batch.base_offset, batch.records_count) for batch in read_all(log)] == [
        (1, 0),
        (3, 0),
        (4, 1),
        (5, 1),
    ]
    found = log.read(0, 1 << 20, upper_offset=6, at_least_one=True)
    assert found is not None
    assert found.next_offset == 2
    reopened = open_log(disk.kill(), settings=big, clean=False)
    assert content(reopened) == content(log)
    # When they are merged one day, the empty batches between go.
    log.tail.configure(COMPACTED)
    append_records(log, (b"c", b"1"))
    log.roll(NOW_MS)
    compact(disk, log)
    assert [(batch.base_offset, batch.records_count) for batch in read_all(log)] == [(4, 1), (5, 1), (6, 1)]


def test_keys_beyond_the_map_take_several_passes() -> None:
    disk = SimulatedDisk()
    pairs = [(b"k%d" % number, b"%d" % round_) for round_ in range(2) for number in range(12)]
    log = filled(disk, *pairs)
    small = CleanerLimits(map_bytes=5 * 16, io_bytes=1 << 10, bytes_per_second=1e12)
    ends = []
    while (mapped := compact(disk, log, limits=small)) is not None:
        assert mapped.keys <= 4
        ends.append(mapped.end_offset)
    assert ends == [4, 8, 12, 16, 20, 24]
    assert [record.offset for record in records(log)] == list(range(12, 24))


def test_a_map_that_is_full_in_the_middle_of_a_batch_ends_the_pass_there() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    append_records(log, *((b"k%d" % number, b"1") for number in range(10)))
    append_records(log, *((b"k%d" % number, b"2") for number in range(10)))
    log.roll(NOW_MS)
    small = CleanerLimits(map_bytes=5 * 16, io_bytes=1 << 10, bytes_per_second=1e12)
    mapped = compact(disk, log, limits=small)
    assert mapped is not None
    assert (mapped.end_offset, mapped.is_full) == (4, True)
    while compact(disk, log, limits=small) is not None:
        pass
    assert [record.offset for record in records(log)] == list(range(10, 20))


def test_a_damaged_batch_stops_the_pass_and_the_log_stays_as_it_is() -> None:
    disk = SimulatedDisk()
    log = filled(disk, *((b"a", b"%d" % number) for number in range(6)))
    disk.content(log.extent.segments[1].path(".log"))[69] ^= 1
    before = content(log)
    with pytest.raises(CorruptRecord, match=r"00000000000000000002\.log at 0"):
        compact(disk, log)
    log.compaction.drop_cleaned()
    assert content(log) == before
    assert not [path for path in disk.paths(DIRECTORY) if path.endswith(".cleaned")]


def test_a_damaged_offset_which_no_checksum_covers_stops_the_pass_too() -> None:
    disk = SimulatedDisk()
    log = filled(disk, *((b"a", b"%d" % number) for number in range(6)))
    disk.content(log.extent.segments[1].path(".log"))[0] ^= 1
    with pytest.raises(CorruptRecord, match="not between 2 and 4"):
        compact(disk, log)


def test_damage_in_the_clean_part_is_not_written_anew_as_if_it_were_sound() -> None:
    disk = SimulatedDisk()
    log = filled(disk, *((b"k%d" % number, b"v") for number in range(4)))
    compact(disk, log)
    for number in range(4):
        append_records(log, (b"k%d" % number, b"w"))
    log.roll(NOW_MS)
    disk.content(log.extent.segments[0].path(".log"))[70] ^= 1
    with pytest.raises(CorruptRecord):
        compact(disk, log)
    assert log.extent.segments.size_bytes == sum(segment.file.size for segment in log.extent.segments)


def test_a_full_disk_stops_the_pass_and_the_log_stays_as_it_is() -> None:
    disk = SimulatedDisk()
    log = filled(disk, *((b"a", b"%d" % number) for number in range(6)))
    before = content(log)
    disk.failing["append"] = 28
    with pytest.raises(OSError, match="No space left"):
        compact(disk, log)
    log.compaction.drop_cleaned()
    disk.failing.clear()
    assert content(log) == before
    assert compact(disk, log) is not None
    assert [record.value for record in records(log)] == [b"5"]


def test_the_largest_timestamp_is_that_of_a_record_that_is_still_there() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    for key, age_ms in ((b"a", 50), (b"b", 20), (b"c", 0), (b"c", 90)):
        batch = build_batch([Record(0, NOW_MS - age_ms, key, b"v")])
        log.append_records(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
        if key == b"c":
            log.roll(NOW_MS)
    log.tail.configure(compacted(segment_bytes=230))
    compact(disk, log)
    # Of the newest one only the header is left, because its segment ends there.
    assert [batch.records_count for batch in read_all(log)] == [1, 1, 0, 1]
    assert log.timestamps.largest()[:2] == (NOW_MS - 20, 1)
    assert log.timestamps.first_at(NOW_MS - 10, upper_offset=4) is None


def test_the_transaction_index_is_kept_in_step() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    for number in range(2):
        append_records(
            log,
            (b"a", b"aborted"),
            producer_id=7 + number,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        append_marker(log, 7 + number, is_commit=False)
    append_records(log, (b"b", b"1"))
    log.roll(NOW_MS)
    log.producers.expire(NOW_MS, 1)
    log.producers.expire(NOW_MS + 10**9, 1)
    compact(disk, log)
    # The aborted records are gone, their markers are not: the pass has seen a batch of theirs.
    assert [record.key for record in records(log)] == [b"b"]
    assert disk.size(f"{DIRECTORY}/{0:020d}.txnindex") == 2 * TXN_INDEX_ENTRY.size
    append_records(log, (b"b", b"2"))
    log.roll(NOW_MS)
    compact(disk, log)
    assert not disk.exists(f"{DIRECTORY}/{0:020d}.txnindex")


def test_an_aborted_value_does_not_take_the_place_of_a_committed_one() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    append_records(log, (b"a", b"committed"))
    options = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    append_records(log, (b"a", b"aborted"), base_sequence=0, **options)
    log.roll(NOW_MS)
    # The marker is in the active segment, which is not compacted: it is found there nevertheless.
    append_marker(log, 7, is_commit=False)
    append_records(log, (b"z", b"open"), base_sequence=1, **options)
    compact(disk, log)
    assert [record.value for record in records(log)] == [b"committed", b"open"]


def test_records_behind_an_open_transaction_are_not_compacted() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    append_records(log, (b"a", b"1"))
    append_records(log, (b"a", b"2"))
    append_records(log, (b"t", b"x"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_records(log, (b"a", b"3"))
    log.roll(NOW_MS)
    compact(disk, log)
    assert [record.value for record in records(log)] == [b"2", b"x", b"3"]
    append_marker(log, 7, is_commit=True)
    compact(disk, log)
    assert [record.value for record in records(log)] == [b"x", b"3"]


class MeasuredFile:
    """A file that notes how much is read from it and written to it at once."""

    def __init__(self, file: SimulatedFile, sizes: list[int]) -> None:
        self._file = file
        self._sizes = sizes

    def read(self, position: int, size: int) -> bytes:
        self._sizes.append(size)
        return self._file.read(position, size)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._sizes.append(sum(map(len, buffers)))
        return self._file.append(buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_memory_is_bounded_by_the_piece_and_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=compacted(segment_bytes=1 << 20))
    random = Random(7)
    for number in range(200):
        append_records(log, (b"k%d" % number, random.randbytes(3000 if number == 100 else 100)))
    log.roll(NOW_MS)
    plan = log.compaction.plan(log.log_end_offset, NOW_MS)
    assert plan is not None
    job = log.compaction.begin(plan, NOW_MS).job
    sizes: list[int] = []
    opened = disk.open
    monkeypatch.setattr(disk, "open", lambda *path, **how: MeasuredFile(opened(*path, **how), sizes))
    cleaner = Cleaner(disk, CleanerLimits(1 << 16, 1024, 1e12), unhurried())
    cleaner.build_map(job)
    cleaner.clean([0])
    # The one large batch is read by each half of the pass, and makes one write full.
    assert len([size for size in sizes if size > 1024 + 200]) == 3
    assert max(sizes) < 3000 + 100 + 1024 + 200


def test_the_map_of_a_pass_is_gone_before_the_next_one_is_made() -> None:
    disk = SimulatedDisk()
    log = filled(disk, (b"a", b"1"), (b"a", b"2"))
    plan = log.compaction.plan(log.log_end_offset, NOW_MS)
    assert plan is not None
    job = log.compaction.begin(plan, NOW_MS).job
    cleaner = Cleaner(disk, LIMITS, unhurried())
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            cleaner.build_map(job)
            cleaner.clean([0])
        assert len([one for one in gc.get_objects() if isinstance(one, OffsetMap)]) == 1
    finally:
        gc.enable()


def test_a_group_cannot_be_cleaned_before_there_is_a_map() -> None:
    with pytest.raises(ValueError, match="no map"):
        Cleaner(SimulatedDisk(), LIMITS, unhurried()).clean([0])


def test_a_segment_that_is_gone_is_an_ordinary_error() -> None:
    disk = SimulatedDisk()
    disk.mkdir(DIRECTORY)
    job = CleaningJob(DIRECTORY, 0, 10, NOW_MS, 0, 4096, 4096, segments=((0, 100), (10, 0)))
    with pytest.raises(FileNotFoundError):
        Cleaner(disk, LIMITS, unhurried()).build_map(job)


def test_batches_that_a_producer_may_send_again_are_known_after_compaction_and_a_restart() -> None:
    """A leader compacted them, died, and the next one is asked for them: an old value must not come back."""
    disk = SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)

    def send(sequence: int) -> int:
        record = Record(0, NOW_MS, b"k", b"%d" % sequence)
        (answer,) = append(
            log, build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)
        )
        return answer.base_offset

    assert [send(sequence) for sequence in range(8)] == [*range(8)]
    log.roll(NOW_MS)
    append_records(log, (b"k", b"of another"))
    log.roll(NOW_MS)
    for _ in range(2):  # a restored producer knows one batch: the second pass keeps the others as well
        replicate(log)
        compact(disk, log)
        assert [record.value for record in records(log)] == [b"of another"]
        log.close()
        log = open_log(disk, settings=COMPACTED, clean=False)
        append_records(log, (b"k", b"of another"))
        log.roll(NOW_MS)
    assert [send(sequence) for sequence in (3, 4, 5, 6, 7)] == [3, 4, 5, 6, 7]
    assert send(8) == log.log_end_offset - 1


def test_a_batch_of_which_only_the_header_is_left_has_no_place_in_the_time_index() -> None:
    """Kafka's dump tool looks for a record with the indexed time. The follower that copies the batch does the same."""
    disk, follower_disk = SimulatedDisk(), SimulatedDisk()
    log = open_log(disk, settings=COMPACTED)
    for sequence, (key, age_ms) in enumerate(((b"a", 50), (b"b", 0), (b"b", 20))):
        batch = build_batch(
            [Record(0, NOW_MS - age_ms, key, b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        append(log, batch)
    log.roll(NOW_MS)
    compact(disk, log)
    assert [batch.records_count for batch in read_all(log)] == [1, 0, 1]
    follower = open_log(follower_disk, settings=COMPACTED)
    for copied in read_all(log):
        follower.append_replicated(memoryview(bytearray(copied.view())), NOW_MS)
    for copy in (log, follower):
        copy.roll(NOW_MS)
        assert copy.extent.segments[0].largest_timestamp == (NOW_MS - 20, 2)
        copy.close()
        assert copy.extent.segments[0].time_index.last == (NOW_MS - 20, 2)
