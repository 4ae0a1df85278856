"""Segments that are read again, and damaged ones that are set aside (STO-9)."""

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content, open_log

from ottla.log.files.file_names import LOG
from ottla.log.log import Log
from ottla.log.scrubbing.segment_check import Damage, SegmentCheck

SMALL = config(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    """A log of several segments."""
    opened = open_log(disk, settings=SMALL)
    for number in range(60):
        append(
            opened, batch(2, timestamp=NOW_MS + number, producer_id=7, producer_epoch=0, sequence=2 * number)
        )
    assert len(opened.extent.segments) > 3
    return opened


def checked(log: Log, number: int) -> Damage | None:
    check = SegmentCheck(log.extent.segments[number])
    while not check.is_complete:
        check.step()
    assert check.is_current(log.extent.segments)
    return check.damage


def test_every_byte_under_a_checksum_counts(disk: SimulatedDisk, log: Log) -> None:
    segment = log.extent.segments[1]
    data = disk.content(segment.path(LOG))
    batches = list(segment.walk())
    second = batches[1]
    for position in range(second.position + 16, second.end):
        data[position] ^= 1
        damage = checked(log, 1)
        assert damage is not None, position
        assert (damage.position, damage.first_offset) == (second.position, second.header.base_offset)
        assert not damage.is_unreadable
        data[position] ^= 1
    assert [checked(log, number) for number in range(len(log.extent.segments))] == [None] * len(
        log.extent.segments
    )


def test_a_file_that_is_too_short_is_damaged(disk: SimulatedDisk, log: Log) -> None:
    segment = log.extent.segments[1]
    data = disk.content(segment.path(LOG))
    del data[-1:]
    damage = checked(log, 1)
    assert damage is not None
    assert damage.position < len(data)
    del data[damage.position :]
    assert checked(log, 1) == damage


def test_a_disk_that_does_not_read_is_told_apart(disk: SimulatedDisk, log: Log) -> None:
    disk.failing["read"] = 5
    damage = checked(log, 0)
    assert damage is not None
    assert damage.is_unreadable


def test_a_check_of_a_segment_that_is_gone_says_nothing(log: Log) -> None:
    check = SegmentCheck(log.extent.segments[-2])
    log.truncate_to(log.extent.segments[1].base_offset)
    assert not check.is_current(log.extent.segments)


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_without_its_damaged_segment_goes_on_from_before_it(
    disk: SimulatedDisk, log: Log, number: int
) -> None:
    segment = log.extent.segments[number]
    path, before = segment.path(LOG), content(log)
    disk.content(path)[16] ^= 1  # in the header of the first batch
    damaged = bytes(disk.content(path))
    damage = checked(log, number)
    assert damage is not None
    kept = log.set_aside(damage)
    assert kept == f"{path}.quarantine-{damage.position}"
    assert bytes(disk.content(kept)) == damaged
    assert log.extent.first_lost_offset == segment.base_offset
    log.truncate_to(segment.base_offset)
    assert log.extent.first_lost_offset is None
    assert log.log_end_offset == segment.base_offset
    assert content(log) == {offset: data for offset, data in before.items() if offset < segment.base_offset}
    for data in [data for offset, data in before.items() if offset >= segment.base_offset]:
        log.append_replicated(memoryview(bytearray(data)), NOW_MS)
    assert content(log) == before
    (again,) = append(log, batch(2, producer_id=7, producer_epoch=0, sequence=118))
    assert again.is_duplicate


def test_a_crash_after_a_segment_was_set_aside_leaves_a_log_that_knows_of_its_loss(
    disk: SimulatedDisk, log: Log
) -> None:
    segment = log.extent.segments[1]
    disk.content(segment.path(LOG))[70] ^= 1
    damage = checked(log, 1)
    assert damage is not None
    log.set_aside(damage)
    opened = open_log(disk.kill(), settings=SMALL)
    assert opened.extent.first_lost_offset == segment.base_offset


def test_two_quarantines_at_one_place_are_two_files(disk: SimulatedDisk, log: Log) -> None:
    segment = log.extent.segments[1]
    disk.put(f"{segment.path(LOG)}.quarantine-0", b"older")
    kept = log.set_aside(Damage(segment, 0, segment.base_offset, is_unreadable=True, problem="EIO"))
    assert kept == f"{segment.path(LOG)}.2.quarantine-0"
