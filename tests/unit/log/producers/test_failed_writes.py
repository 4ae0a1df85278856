"""What a producer sent behind a batch that a bad disk refused is refused for the same reason (PRO-4,
STO-11).
"""

import errno

from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, open_log, refusal

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log

FULL = {"append": errno.ENOSPC}
OUT_OF_ORDER, STORAGE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.KAFKA_STORAGE_ERROR


def produced(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> bytearray:
    return batch(count, producer_id=producer, producer_epoch=epoch, sequence=sequence)


def log_of(disk: SimulatedDisk, *sequences: int) -> Log:
    log = open_log(disk)
    append(log, *(produced(sequence) for sequence in sequences))
    return log


def interrupted(disk: SimulatedDisk, log: Log, *batches: bytearray) -> None:
    """The disk is full for a moment."""
    disk.failing = dict(FULL)
    for each in batches:
        assert refusal(log, each).code == STORAGE
    disk.failing = {}


def test_a_batch_behind_the_missing_one_hears_of_the_disk_until_that_has_come_again() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0, 1)
    interrupted(disk, log, produced(2))
    assert refusal(log, produced(3)).code == STORAGE
    assert refusal(log, produced(4, 2)).code == STORAGE
    append(log, produced(2), produced(3), produced(4, 2))
    assert refusal(log, produced(9)).code == OUT_OF_ORDER
    assert log.log_end_offset == 6


def test_of_several_that_were_refused_the_first_is_missing() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0)
    interrupted(disk, log, produced(1), produced(2), produced(1), produced(3))
    assert refusal(log, produced(2)).code == STORAGE
    append(log, produced(1))
    assert refusal(log, produced(3)).code == OUT_OF_ORDER


def test_it_can_happen_to_a_producer_again_and_again() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0)
    for sequence in range(1, 9, 2):
        interrupted(disk, log, produced(sequence), produced(sequence + 1))
        assert refusal(log, produced(sequence + 1)).code == STORAGE
        append(log, produced(sequence), produced(sequence + 1))


def test_a_call_that_fails_as_a_whole_keeps_the_order() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0)
    disk.failing = dict(FULL)
    sets = [memoryview(each) for each in (produced(1), produced(0, producer=8), produced(2), batch(1))]
    answers = log.append(sets, leader_epoch=0, now_ms=NOW_MS)
    assert {isinstance(each, KafkaError) and each.code for each in answers} == {STORAGE}
    disk.failing = {}
    assert refusal(log, produced(2)).code == STORAGE
    assert refusal(log, produced(1, producer=8)).code == STORAGE
    append(log, produced(1), produced(2), produced(0, producer=8))


def test_a_producer_that_nobody_knows_yet_must_begin_where_it_was_refused() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    interrupted(disk, log, produced(0))
    assert refusal(log, produced(1)).code == STORAGE
    append(log, produced(0), produced(1))


def test_others_are_not_concerned() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0)
    append(log, produced(0, producer=8))
    interrupted(disk, log, produced(1))
    assert refusal(log, produced(5, producer=8)).code == OUT_OF_ORDER
    append(log, produced(1, producer=8), batch(2))


def test_a_retry_of_what_is_there_is_a_duplicate_as_ever() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0, 1)
    interrupted(disk, log, produced(2))
    (again,) = append(log, produced(1))
    assert again.is_duplicate


def test_a_new_epoch_begins_anew() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0)
    interrupted(disk, log, produced(1))
    append(log, produced(0, epoch=1))
    assert refusal(log, produced(2, epoch=1)).code == OUT_OF_ORDER


def test_a_new_epoch_can_be_interrupted_too() -> None:
    disk = SimulatedDisk()
    log = log_of(disk, 0)
    interrupted(disk, log, produced(0, epoch=1))
    assert refusal(log, produced(1, epoch=1)).code == STORAGE
    append(log, produced(0, epoch=1), produced(1, epoch=1))


def test_what_is_remembered_has_a_bound() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for producer in range(1_100):
        interrupted(disk, log, produced(0, producer=producer))
    append(log, produced(1, producer=1))  # forgotten, so it is unknown and may begin anywhere
    assert refusal(log, produced(1, producer=1_099)).code == STORAGE
