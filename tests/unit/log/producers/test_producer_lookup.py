"""An idempotent producer may send its last five batches again, also after the broker restarted (PRO-4)."""

import errno

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, open_log, refusal

from ottla.errors import ErrorCode
from ottla.log.log import Log
from ottla.log.producers import producer_lookup as recall


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
    known = log.producers.get(7)
    assert known is not None
    assert [found.first_sequence for found in known.batches] == [3, 4, 5, 6, 7]
    assert log.log_end_offset == 8


def test_an_older_batch_is_a_duplicate_if_it_is_in_the_log() -> None:
    log = open_log(SimulatedDisk())
    for number in range(20):
        append(log, produced(2 * number, 2), batch(3), produced(number, producer=8))
        log.roll(NOW_MS)
    for number in (0, 7, 13):
        (answer,) = append(log, produced(2 * number, 2))
        assert (answer.base_offset, answer.is_duplicate) == (6 * number, True)
    assert log.log_end_offset == 120
    (answer,) = append(log, produced(40, 2))
    assert not answer.is_duplicate


@pytest.mark.parametrize(
    ("sequence", "count", "epoch"),
    [(1, 2, 0), (4, 1, 0), (4, 4, 0), (4, 2, 1), (44, 2, 0), (2**31 - 2, 2, 0)],
)
def test_what_was_never_sent_like_that_is_still_out_of_order(sequence: int, count: int, epoch: int) -> None:
    log = open_log(SimulatedDisk())
    append(log, *(produced(2 * number, 2) for number in range(20)))
    assert refusal(log, produced(sequence, count, epoch=epoch)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 40


def test_what_the_log_never_had_is_not_called_a_duplicate() -> None:
    """A new leader may know a producer from the middle on: what came before may be nowhere."""
    log = open_log(SimulatedDisk())
    append(log, *(produced(sequence) for sequence in range(3, 20)))
    assert refusal(log, produced(2)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_batch_of_an_earlier_epoch_is_not_taken_for_one_of_this() -> None:
    log = open_log(SimulatedDisk())
    append(log, *(produced(sequence) for sequence in range(3)))
    append(log, *(produced(sequence, epoch=1) for sequence in (0, *range(1, 9))))
    (answer,) = append(log, produced(1, epoch=1))
    assert (answer.base_offset, answer.is_duplicate) == (4, True)


def test_the_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "_MOST_HEADERS", 10)
    log = open_log(SimulatedDisk())
    append(log, *(produced(sequence) for sequence in range(30)))
    assert append(log, produced(15))[0].is_duplicate
    assert refusal(log, produced(14)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_disk_that_cannot_be_read_finds_nothing() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(produced(sequence) for sequence in range(30)))
    disk.failing["read"] = errno.EIO
    assert refusal(log, produced(3)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


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
