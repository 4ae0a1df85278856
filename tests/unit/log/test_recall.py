"""An idempotent producer may send its last five batches again, also after the broker restarted (PRO-4)."""

import pytest
from tests.simulation.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, open_log, refusal

from ottla.errors import ErrorCode
from ottla.log.log import Log


def produced(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> bytearray:
    return batch(count, producer_id=producer, producer_epoch=epoch, sequence=sequence)


def reopened(disk: SimulatedDisk, log: Log) -> Log:
    """Closed and opened again: of each producer the snapshot has the last batch."""
    end = log.log_end_offset
    log.close()
    return open_log(disk, clean=True, recovery_point=end)


def test_all_five_are_known_again_when_the_first_of_them_comes() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(produced(sequence) for sequence in range(8)))
    log = reopened(disk, log)
    for sequence in (3, 4, 5, 6, 7):
        (answer,) = append(log, produced(sequence))
        assert (answer.base_offset, answer.is_duplicate) == (sequence, True)
    assert refusal(log, produced(2)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 8


def test_they_are_found_across_rolled_segments_and_between_other_producers() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for sequence in range(0, 12, 2):
        append(log, produced(sequence, 2), produced(sequence, 2, producer=8))
        log.roll(NOW_MS)
    log = reopened(disk, log)
    answers = append(log, *(produced(sequence, 2) for sequence in range(2, 12, 2)))
    assert [answer.base_offset for answer in answers] == [4, 8, 12, 16, 20]
    assert all(answer.is_duplicate for answer in answers)


def test_a_retry_and_what_comes_next_may_come_together() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(produced(sequence) for sequence in range(5)))
    log = reopened(disk, log)
    answers = append(log, *(produced(sequence) for sequence in (5, 2, 3, 6)))
    assert [(answer.base_offset, answer.is_duplicate) for answer in answers] == [
        (5, False),
        (2, True),
        (3, True),
        (6, False),
    ]


@pytest.mark.parametrize("sequence", [7, 100])
def test_a_gap_stays_a_gap(sequence: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(produced(sequence) for sequence in range(5)))
    log = reopened(disk, log)
    assert refusal(log, produced(sequence)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_an_earlier_epoch_are_not_taken_for_retries() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, produced(0), produced(1), produced(0, epoch=1), produced(1, epoch=1))
    log = reopened(disk, log)
    (answer,) = append(log, produced(0, epoch=1))
    assert (answer.base_offset, answer.is_duplicate) == (2, True)
    assert refusal(log, produced(0)).code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_log_is_looked_through_once_however_often_a_producer_is_out_of_order() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(produced(sequence) for sequence in range(5)))
    log = reopened(disk, log)
    refusal(log, produced(90))
    entry = log.producers.get(7)
    assert entry is not None
    assert entry.is_whole
    assert len(entry.batches) == 5
