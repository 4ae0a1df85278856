"""A batch that comes before an earlier one of its producer is sent again after that one."""

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, is_waiting, open_log
from tests.unit.log.transactional import sent as in_transaction

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log

WAIT, OUT_OF_ORDER = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
LAST_SEQUENCE = 2**31 - 1


def produced(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> bytearray:
    return batch(count, producer_id=producer, producer_epoch=epoch, sequence=sequence)


def told(log: Log, *batches: bytearray) -> list[ErrorCode | int]:
    """Each batch sent once: its base offset, or the error."""
    answers = []
    for each in batches:
        (answer,) = log.append([memoryview(each)], leader_epoch=1, now_ms=NOW_MS)
        answers.append(answer.code if isinstance(answer, KafkaError) else answer.base_offset)
    return answers


def log_of(*sequences: int) -> Log:
    """The log of a leader that has these batches from the leader before it."""
    log = open_log(SimulatedDisk())
    append(log, *(produced(sequence) for sequence in sequences))
    return log


def test_batches_that_came_before_an_earlier_one_are_taken_after_it() -> None:
    log = log_of(0)
    assert told(log, produced(2), produced(3)) == [WAIT, WAIT]
    assert told(log, produced(0), produced(1), produced(2), produced(3)) == [0, 1, 2, 3]


def test_a_gap_that_stays_over_some_rounds_is_out_of_order() -> None:
    log = log_of(0)
    for _ in range(3):
        assert told(log, produced(2), produced(3)) == [WAIT, WAIT]
    assert told(log, produced(2), produced(3), produced(2)) == [OUT_OF_ORDER] * 3
    assert told(log, produced(1), produced(2)) == [1, 2]


def test_the_next_gap_has_its_rounds_again() -> None:
    log = log_of(0)
    for expected in (1, 2, 3):
        for _ in range(3):
            assert told(log, produced(expected + 1)) == [WAIT]
        assert told(log, produced(expected)) == [expected]


def test_a_producer_without_state_may_begin_anywhere_but_not_at_once() -> None:
    """Otherwise its first batch, refused a moment ago, could never be appended."""
    log = open_log(SimulatedDisk())
    assert told(log, produced(1), produced(0), produced(1)) == [WAIT, 0, 1]
    for _ in range(3):
        assert told(log, produced(40, producer=8)) == [WAIT]
    assert told(log, produced(40, producer=8), produced(41, producer=8)) == [2, 3]


def test_the_first_batch_of_a_new_epoch_may_be_missing_too() -> None:
    log = log_of(0, 1)
    assert told(log, produced(1, epoch=1), produced(0, epoch=1), produced(1, epoch=1)) == [WAIT, 2, 3]


def test_gaps_of_producers_are_their_own() -> None:
    log = log_of(0)
    append(log, produced(0, producer=8))
    assert told(log, produced(2), produced(2, producer=8), produced(1), produced(2)) == [WAIT, WAIT, 2, 3]


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_answer_that_no_missing_batch_explains_stays_as_it_is(epoch: int) -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(0, 3, epoch=1))
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH
    assert told(log, produced(0, 2, epoch=epoch)) == [OUT_OF_ORDER if epoch else fenced]


def test_sequences_wrap_around() -> None:
    log = open_log(SimulatedDisk())
    append(log, produced(LAST_SEQUENCE))
    assert told(log, produced(1), produced(0), produced(1)) == [WAIT, 1, 2]


def test_what_is_remembered_has_a_bound() -> None:
    log = open_log(SimulatedDisk())
    for producer in range(1_100):
        assert told(log, produced(1, producer=producer)) == [WAIT]
    assert told(log, produced(0, producer=1), produced(0, producer=1_099)) == [0, 1]


def test_a_transaction_goes_on_after_a_gap() -> None:
    log = open_log(SimulatedDisk())
    append(log, in_transaction(0))
    (answer,) = log.append([memoryview(in_transaction(2))], leader_epoch=0, now_ms=NOW_MS)
    assert is_waiting(answer)
    append(log, in_transaction(1), in_transaction(2))
    assert log.log_end_offset == 3


def test_a_transaction_of_an_unknown_producer_begins_with_its_first_batch() -> None:
    log = open_log(SimulatedDisk())
    assert told(log, in_transaction(1), in_transaction(0), in_transaction(1)) == [WAIT, 0, 1]
