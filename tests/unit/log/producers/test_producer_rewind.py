"""Producers after a cut are what a log that never had more would know (PRO-4, REP-6)."""

from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log, refusal

from ottla.errors import ErrorCode
from ottla.log.log import Log
from ottla.log.producers import producer_rewind as rewinding
from ottla.log.producers.producer_replay import load_producers
from ottla.log.writing import truncation

SMALL = config(segment_bytes=1000, index_interval_bytes=200)

Known = dict[int, tuple[int, int, int, int]]


def known(log: Log) -> Known:
    """The facts that decide about a producer's next batch."""
    return {
        producer_id: (entry.epoch, entry.next_sequence, entry.last_offset, entry.last_timestamp)
        for producer_id, entry in log.producers.items()
    }


def sent(sequence: int, producer_id: int = 1, epoch: int = 0) -> bytearray:
    return batch(producer_id=producer_id, producer_epoch=epoch, sequence=sequence, timestamp=NOW_MS)


def rebuilds(log: Log, offset: int) -> bool:
    """Cut; whether the log had to be read again."""
    with patch.object(truncation, "load_producers", wraps=load_producers) as load:
        log.truncate_to(offset)
    return bool(load.called)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_left_of_producers_is_what_reading_the_log_again_says(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    sequences: dict[int, tuple[int, int]] = {}
    for number in range(random.randint(1, 60)):
        producer_id = random.choice((1, 1, 1, 2, 3, 4))
        epoch, sequence = sequences.get(producer_id, (0, 0))
        if random.random() < 0.05:
            epoch, sequence = epoch + 1, 0
        count = random.randint(1, 3)
        data = batch(
            count,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence,
            timestamp=NOW_MS + number,
        )
        append(log, data)
        sequences[producer_id] = epoch, sequence + count
        if random.random() < 0.05:
            log.truncate_to(random.randint(0, log.log_end_offset))
            sequences = {
                producer: (entry.epoch, entry.next_sequence) for producer, entry in log.producers.items()
            }
    if random.random() < 0.5:
        log.close()
        log = open_log(disk, settings=SMALL, recovery_point=log.log_end_offset)
    log.truncate_to(random.randint(0, log.log_end_offset))
    # Opened again after a crash, it reads everything.
    assert known(log) == known(open_log(disk.kill(), settings=SMALL, clean=False))


def test_a_small_cut_looks_at_no_more_than_what_is_cut() -> None:
    log = open_log(SimulatedDisk())
    append(log, *(sent(number) for number in range(30)))
    assert not rebuilds(log, 27)
    for number in (26, 25, 24):
        assert append(log, sent(number))[0].is_duplicate
    # The others of the last five are recalled when they are asked for.
    for number in (23, 22):
        assert append(log, sent(number))[0].is_duplicate
    assert refusal(log, sent(28)).code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not append(log, sent(27))[0].is_duplicate


def test_a_producer_of_which_all_known_batches_are_cut_is_found_before_the_cut() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0, producer_id=2), *(sent(number) for number in range(30)))
    assert not rebuilds(log, 11)
    assert append(log, sent(9))[0].is_duplicate
    assert append(log, sent(0, producer_id=2))[0].is_duplicate
    assert not append(log, sent(10))[0].is_duplicate


def test_a_producer_that_began_behind_the_cut_is_unknown_again() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0, producer_id=2), *(sent(number) for number in range(30)))
    assert not rebuilds(log, 1)
    assert set(known(log)) == {2}
    assert not append(log, sent(0))[0].is_duplicate


def test_a_cut_over_a_roll_needs_no_more() -> None:
    log = open_log(SimulatedDisk(), settings=SMALL)
    append(log, *(sent(number) for number in range(30)))
    assert len(log.extent.segments) > 4
    assert not rebuilds(log, log.extent.segments[-2].base_offset + 1)
    assert known(log)[1][1] == log.log_end_offset


def test_a_producer_that_is_found_nowhere_near_is_looked_for_everywhere() -> None:
    log = open_log(SimulatedDisk(), settings=config(index_interval_bytes=100))
    append(log, sent(0, epoch=3), *(batch() for _ in range(30)))
    append(log, *(sent(number, epoch=3) for number in range(1, 9)))
    with (
        patch("ottla.log.producers.producer_lookup._WINDOW_BYTES", 1000),
        patch("ottla.log.producers.producer_lookup._PIECE_BYTES", 500),
    ):
        assert rebuilds(log, 31)
    assert known(log)[1][:2] == (3, 1)


def test_too_large_a_cut_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewinding, "_LARGEST_REWIND_BYTES", 500)
    log = open_log(SimulatedDisk())
    append(log, *(sent(number) for number in range(30)))
    assert rebuilds(log, 11)
    assert known(log)[1][1] == 11


def test_where_transactions_are_cut_the_whole_story_is_read_again() -> None:
    log = open_log(SimulatedDisk())
    append(log, sent(0))
    append(log, batch(producer_id=1, producer_epoch=0, sequence=1, attributes=0x10))
    assert log.first_unstable_offset == 1
    assert rebuilds(log, 1)
    assert log.first_unstable_offset is None


def test_a_snapshot_of_what_was_cut_is_gone() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append(log, *(sent(number) for number in range(10)))
    log.close()
    log = open_log(disk, recovery_point=10)
    assert not rebuilds(log, 7)
    append(log, *(batch() for _ in range(3)))
    log.close()
    log = open_log(disk, recovery_point=10)
    assert known(log)[1][1] == 7
