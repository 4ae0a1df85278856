"""Opening a directory: after a clean stop, after a crash, and with whatever lies in it (STO-2, STO-9,
STO-12).
"""

import logging
from random import Random

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import DIRECTORY, append, config, content, open_log, read_all, refusal

from ottla.errors import ErrorCode
from ottla.log.files.file_names import file_name
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log

SMALL = config(segment_bytes=1000, index_interval_bytes=200)


def filled(disk: SimulatedDisk, count: int = 30) -> Log:
    log = open_log(disk, settings=SMALL)
    for number in range(count):
        append(log, batch(2, timestamp=NOW_MS + number))
    return log


def path(offset: int, kind: str) -> str:
    return f"{DIRECTORY}/{file_name(offset, kind)}"


def reopened(disk: SimulatedDisk, log: Log) -> Log:
    return open_log(disk, settings=SMALL, recovery_point=log.log_end_offset)


def test_a_new_log_is_an_empty_segment_with_its_indexes() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    assert disk.paths(DIRECTORY) == [path(0, ".index"), path(0, ".log"), path(0, ".timeindex")]
    assert (log.log_start_offset, log.log_end_offset, log.extent.segments.size_bytes) == (0, 0, 0)


def test_a_clean_stop_brings_everything_back() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    before, end = content(log), log.log_end_offset
    log.close()
    log = reopened(disk, log)
    assert content(log) == before
    assert (log.log_end_offset, log.durability.flushed_offset) == (end, end)
    assert log.durability.unflushed_messages == 0
    append(log, batch())
    assert log.log_end_offset == end + 1


def test_a_closed_log_takes_no_writes() -> None:
    log = filled(SimulatedDisk())
    log.close()
    assert refusal(log, batch()).code == ErrorCode.KAFKA_STORAGE_ERROR


def test_closing_a_log_to_which_nothing_happened_writes_nothing() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    log.close()
    log = reopened(disk, log)
    before = disk.operations
    log.close()
    assert disk.operations == before
    assert log.status.was_closed_cleanly


def test_a_power_loss_after_a_clean_stop_takes_nothing() -> None:
    for seed in range(20):
        disk = SimulatedDisk()
        log = filled(disk)
        before = content(log)
        log.close()
        assert content(reopened(disk.crash(Random(seed)), log)) == before
        assert len(disk.crash(Random(seed)).paths(DIRECTORY)) == len(disk.paths(DIRECTORY))


def test_opening_a_thousand_segments_after_a_clean_stop_reads_no_record_and_opens_few_files() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=config(segment_bytes=160, segment_index_bytes=48))
    append(log, *(batch() for _ in range(1000)))
    assert len(log.extent.segments) == 1000
    log.close()
    disk.counts.clear()
    log = open_log(disk, settings=config(segment_bytes=160), recovery_point=log.log_end_offset)
    assert len(log.extent.segments) == 1000
    assert log.log_end_offset == 1000
    assert log.extent.segments.size_bytes == 1000 * len(batch())
    # The last segment's headers after its last index entry, two small files, and the listing.
    assert disk.counts["open"] + disk.counts["map"] <= 4
    assert disk.counts["read"] <= 4
    assert disk.counts["list"] <= 3
    assert disk.counts["exists"] + disk.counts["size"] <= 10


def test_open_files_stay_bounded_however_many_segments_are_read() -> None:
    disk = SimulatedDisk()
    open_files = OpenFiles(files=3, maps=3)
    log = open_log(disk, settings=SMALL, open_files=open_files)
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(100)))
    assert len(log.extent.segments) > 10
    for offset in range(0, 100, 3):
        found = log.read(offset, 10, upper_offset=100, at_least_one=True)
        assert found is not None
        assert len(open_files.files) <= 3
        assert len(open_files.maps) <= 3
    assert log.timestamps.first_at(NOW_MS + 50, upper_offset=100) is not None
    assert len(open_files.maps) <= 3
    append(log, batch())


def test_indexes_are_preallocated_while_active_and_trimmed_when_rolled_or_closed() -> None:
    disk = SimulatedDisk()
    log = open_log(
        disk, settings=config(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=403)
    )
    append(log, *(batch() for _ in range(4)))
    assert len(disk.content(path(0, ".index"))) == 400
    assert len(disk.content(path(0, ".timeindex"))) == 396
    assert disk.content(path(0, ".index")).endswith(bytes(380))
    append(log, *(batch(timestamp=NOW_MS + 1) for _ in range(4)))
    assert len(disk.content(path(0, ".index"))) == 8 * log.extent.segments[0].index.file.count > 0
    log.close()
    for segment in log.extent.segments:
        assert len(disk.content(segment.path(".index"))) < 50
        assert len(disk.content(segment.path(".timeindex"))) < 50


def test_an_index_entry_is_the_last_offset_and_the_start_of_a_batch_behind_more_than_the_interval() -> None:
    disk = SimulatedDisk()
    size = len(batch(2))
    log = open_log(disk, settings=config(index_interval_bytes=size))
    append(log, *(batch(2, timestamp=NOW_MS + number) for number in range(6)))
    log.close()
    # Exactly one interval is not more than one: every second batch, and never the first.
    index = bytes(disk.content(path(0, ".index")))
    entries = [(index[n : n + 4], index[n + 4 : n + 8]) for n in range(0, len(index), 8)]
    assert [(int.from_bytes(a, "big"), int.from_bytes(b, "big")) for a, b in entries] == [
        (5, 2 * size),
        (9, 4 * size),
    ]
    times = bytes(disk.content(path(0, ".timeindex")))
    assert [
        (int.from_bytes(times[n : n + 8], "big") - NOW_MS, int.from_bytes(times[n + 8 : n + 12], "big"))
        for n in range(0, len(times), 12)
    ] == [(2, 5), (4, 9), (5, 11)]


def test_a_snapshot_is_taken_at_each_roll_and_at_the_end_and_old_ones_go() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    bases = [segment.base_offset for segment in log.extent.segments]
    for _ in range(3):
        log.close()
        log = reopened(disk, log)
        append(log, batch())
    log.close()
    snapshots = [name for name in disk.paths(DIRECTORY) if name.endswith(".snapshot")]
    assert len(snapshots) <= len(log.extent.segments) + 1
    assert path(log.log_end_offset, ".snapshot") in snapshots
    for base in bases[1:]:
        assert path(base, ".snapshot") in snapshots


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("harm", ["missing", "empty", "garbage", "zeros", "long"])
@pytest.mark.parametrize("clean", [True, False])
def test_what_stands_beside_the_log_may_be_missing_or_damaged(kind: str, harm: str, clean: bool) -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    append(log, batch(producer_id=3, producer_epoch=0, sequence=0))
    log.close()
    for name in [name for name in disk.paths(DIRECTORY) if name.endswith(kind)]:
        data = disk.content(name)
        match harm:
            case "missing":
                disk.remove(name)
            case "empty":
                data.clear()
            case "garbage":
                data[:] = b"\xa5" * len(data)
            case "zeros":
                data[:] = bytes(len(data))
            case "long":
                data += b"\x7f" * 240
    log = open_log(disk, settings=SMALL, clean=clean, recovery_point=log.log_end_offset if clean else 0)
    assert [found.base_offset for found in read_all(log)] == [*range(0, 60, 2), 60]
    for offset in range(61):
        found = log.read(offset, 1, upper_offset=61, at_least_one=True)
        assert found is not None
        assert found.next_offset > offset
    assert log.timestamps.largest()[:2] == (NOW_MS + 29, 58)
    (again,) = append(log, batch(producer_id=3, producer_epoch=0, sequence=0))
    assert again.is_duplicate


@pytest.mark.parametrize("harm", ["missing", "empty", "garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_the_leader_epochs_are_made_anew_from_the_batches(harm: str, clean: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    for epoch in (0, 2, 5):
        append(log, *(batch() for _ in range(10)), leader_epoch=epoch)
    log.close()
    checkpoint = f"{DIRECTORY}/leader-epoch-checkpoint"
    assert bytes(disk.content(checkpoint)) == b"0\n3\n0 0\n2 10\n5 20\n"
    if harm == "missing":
        disk.remove(checkpoint)
    else:
        disk.content(checkpoint)[:] = b"" if harm == "empty" else b"0\n1\nx y\n"
    log = open_log(disk, settings=SMALL, clean=clean, recovery_point=30 if clean else 0)
    assert log.extent.leader_epochs.entries == [(0, 0), (2, 10), (5, 20)]


def test_leftovers_of_interrupted_work_are_cleared_away() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    before = content(log)
    log.close()
    for name in (
        path(0, ".log.deleted"),
        path(0, ".index.deleted"),
        path(4, ".log.cleaned"),
        path(8, ".log.swap"),
        f"{DIRECTORY}/leader-epoch-checkpoint.tmp",
        path(77777, ".index"),
        path(77777, ".timeindex"),
    ):
        disk.put(name, b"whatever")
    log = reopened(disk, log)
    assert content(log) == before
    kinds = {name.rpartition(".")[2] for name in disk.paths(DIRECTORY)}
    assert kinds <= {"log", "index", "timeindex", "snapshot", f"{DIRECTORY}/leader-epoch-checkpoint"[1:]} | {
        name for name in kinds if name.endswith("leader-epoch-checkpoint")
    }
    assert path(77777, ".index") not in disk.paths(DIRECTORY)


def test_an_interrupted_swap_is_completed() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    before = content(log)
    bases = [segment.base_offset for segment in log.extent.segments]
    log.close()
    merged = bytes(disk.content(path(0, ".log"))) + bytes(disk.content(path(bases[1], ".log")))
    disk.put(path(0, ".log.swap"), merged)
    log = open_log(disk, settings=SMALL, clean=False, recovery_point=0)
    assert content(log) == before
    assert [segment.base_offset for segment in log.extent.segments] == [bases[0], *bases[2:]]


def test_a_segment_that_overlaps_the_next_never_serves_an_offset_twice() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    before = content(log)
    second = log.extent.segments[1].base_offset
    log.close()
    disk.content(path(0, ".log")).extend(disk.content(path(second, ".log")))
    log = open_log(disk, settings=SMALL, clean=False, recovery_point=0)
    offsets = [found.base_offset for found in read_all(log)]
    assert offsets == sorted(set(offsets))
    assert content(log) == before


def test_empty_segments_in_the_middle_are_removed_and_an_empty_last_one_is_kept() -> None:
    disk = SimulatedDisk()
    log = filled(disk, 4)
    log.close()
    disk.put(path(100, ".log"), b"")
    disk.put(path(200, ".log"), b"")
    log = open_log(disk, settings=SMALL, clean=False, recovery_point=0)
    assert log.log_end_offset == 200
    assert [segment.base_offset for segment in log.extent.segments][-1] == 200
    assert path(100, ".log") not in disk.paths(DIRECTORY)
    append(log, batch())
    assert read_all(log)[-1].base_offset == 200


def test_a_torn_tail_is_cut_at_the_last_whole_batch(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch() for _ in range(5)))
    del disk.content(path(0, ".log"))[-10:]
    with caplog.at_level(logging.WARNING):
        log = open_log(disk, clean=False)
    assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 3]
    assert log.log_end_offset == 4
    assert not [name for name in disk.paths(DIRECTORY) if "quarantine" in name]
    assert "ends at offset 4" in caplog.text


def test_damage_in_the_middle_goes_to_quarantine_and_the_rest_keeps_its_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch(2) for _ in range(5)))
    before = content(log)
    size = len(batch(2))
    disk.content(path(0, ".log"))[2 * size + 100] ^= 1
    with caplog.at_level(logging.ERROR):
        log = open_log(disk, clean=False)
    del before[4]
    assert content(log) == before
    assert log.log_end_offset == 10
    kept = disk.content(f"{path(0, '.log')}.quarantine-{2 * size}")
    assert len(kept) == size
    assert "orders-0" in caplog.text
    assert "offsets 4 to 5 are lost" in caplog.text
    # A reader at a lost offset gets the next batch there is.
    found = log.read(4, 1, upper_offset=10, at_least_one=True)
    assert found is not None
    assert found.next_offset == 8
    assert open_log(disk, clean=False).log_end_offset == 10


def test_damage_at_the_end_of_a_segment_that_is_followed_by_another_is_kept_in_quarantine() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    first, second = log.extent.segments[0], log.extent.segments[1]
    before = content(log)
    del disk.content(first.path(".log"))[-5:]
    log = open_log(disk, settings=SMALL, clean=False)
    lost = second.base_offset - 2
    del before[lost]
    assert content(log) == before
    assert [name for name in disk.paths(DIRECTORY) if "quarantine" in name]


def test_flushed_offsets_that_are_lost_are_not_given_out_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch() for _ in range(5)))
    log.close()
    del disk.content(path(0, ".log"))[len(batch()) * 3 :]
    with caplog.at_level(logging.ERROR):
        log = open_log(disk, clean=False, recovery_point=5)
    assert "up to 4 were given out" in caplog.text
    (answer,) = append(log, batch())
    assert answer.base_offset == 5
    assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 5]
    assert open_log(disk, clean=False, recovery_point=5).log_end_offset == 6


def test_a_log_that_lost_everything_goes_on_at_its_log_start_offset() -> None:
    log = open_log(SimulatedDisk(), clean=False, recovery_point=40, log_start_offset=30)
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)


def test_damage_found_after_a_clean_stop_is_recovered_too() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch() for _ in range(5)))
    log.close()
    disk.content(path(0, ".log"))[len(batch()) * 4 + 16] = 9
    log = open_log(disk, recovery_point=5)
    assert [found.base_offset for found in read_all(log)] == [0, 1, 2, 3]
    assert log.log_end_offset == 5


def test_a_batch_inside_a_damaged_batch_is_not_taken_for_one_of_the_log() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    inner = bytes(batch(base_offset=3, leader_epoch=0))
    append(log, batch(2), batch(1, value=b"x" * 30 + inner + b"y" * 30), batch(2))
    data = disk.content(path(0, ".log"))
    # The outer batch's length is damaged, so that only searching finds what follows.
    data[len(batch(2)) + 10] ^= 0x40
    log = open_log(disk, clean=False)
    assert [found.base_offset for found in read_all(log)] == [0, 3]
    assert bytes(read_all(log)[1].view()) != inner


def test_a_damaged_offset_is_noticed_by_the_batch_behind_it() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(batch() for _ in range(6)))
    disk.content(path(0, ".log"))[2 * len(batch()) + 5] = 3
    log = open_log(disk, clean=False)
    assert [found.base_offset for found in read_all(log)] == [0, 1, 3, 4, 5]


def test_segments_below_the_recovery_point_are_not_read_after_a_crash() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    log.durability.flush()
    flushed = log.durability.flushed_offset
    last = log.extent.segments[-1]
    disk = disk.kill()
    open_log(disk, settings=SMALL, clean=False, recovery_point=flushed)
    assert disk.files_read == {last.path(".log")}


def test_a_log_start_offset_inside_a_segment_is_kept() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    log.close()
    log = open_log(disk, settings=SMALL, recovery_point=60, log_start_offset=13)
    assert log.log_start_offset == 13
    assert log.extent.leader_epochs.entries == [(0, 13)]


def test_a_segment_begun_before_a_crash_is_durable_after_the_first_flush_behind_it() -> None:
    for seed in range(20):
        disk = SimulatedDisk()
        log = filled(disk, 5)
        log.durability.flush()
        while len(log.extent.segments) < 4:
            append(log, batch(2))
        # The process dies right after a roll: the names are there, and were never synced.
        disk = disk.kill()
        log = open_log(disk, settings=SMALL, recovery_point=log.durability.flushed_offset, clean=False)
        before, end = content(log), log.log_end_offset
        append(log, batch())
        log.durability.flush()
        assert log.durability.flushed_offset == end + 1
        # Then the power goes.
        log = open_log(
            disk.crash(Random(seed)),
            settings=SMALL,
            recovery_point=log.durability.flushed_offset,
            clean=False,
        )
        assert log.log_end_offset == end + 1
        assert {offset: data for offset, data in content(log).items() if offset < end} == before


def test_a_segment_that_ends_with_a_large_batch_needs_no_index(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, batch(value=b"small"), batch(value=bytes(100_000)))
    log.close()
    with caplog.at_level("WARNING"):
        assert open_log(disk).log_end_offset == 2
    assert caplog.messages == []
