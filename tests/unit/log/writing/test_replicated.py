"""A follower's log: what a leader numbered, appended as it is, is known as the leader knows it (REP-2,
PRO-4).
"""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, content, open_log, read_all, refusal

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log

SMALL = config(segment_bytes=1000, index_interval_bytes=200)


def copy(leader: Log, follower: Log) -> None:
    """Fetch until there is nothing more."""
    for found in read_all(leader, from_offset=max(follower.log_end_offset, leader.log_start_offset)):
        follower.append_replicated(memoryview(bytearray(found.view())), NOW_MS)


def killed(log: Log, disk: SimulatedDisk) -> Log:
    return open_log(disk.kill(), settings=SMALL, recovery_point=log.durability.flushed_offset, clean=False)


def closed(log: Log, disk: SimulatedDisk) -> Log:
    log.close()
    return open_log(disk, settings=SMALL, recovery_point=log.log_end_offset)


def without_power(log: Log, disk: SimulatedDisk) -> Log:
    log.durability.flush()
    return open_log(
        disk.crash(Random(7)), settings=SMALL, recovery_point=log.durability.flushed_offset, clean=False
    )


def untouched(log: Log, disk: SimulatedDisk) -> Log:
    return log


RESTARTS = pytest.mark.parametrize("restarted", [untouched, closed, killed, without_power])


# -- epochs


@RESTARTS
def test_a_follower_learns_the_leaders_epochs_from_its_batches(
    restarted: Callable[[Log, SimulatedDisk], Log],
) -> None:
    leader, disk = open_log(SimulatedDisk(), settings=SMALL), SimulatedDisk()
    follower = open_log(disk, settings=SMALL)
    for number in range(30):
        append(leader, batch(2, timestamp=NOW_MS + number), leader_epoch=number // 10 * 3)
    copy(leader, follower)
    follower = restarted(follower, disk)
    assert (
        follower.extent.leader_epochs.entries
        == leader.extent.leader_epochs.entries
        == [(0, 0), (3, 20), (6, 40)]
    )
    assert content(follower) == content(leader)
    assert (follower.latest_epoch, follower.log_end_offset) == (6, 60)
    assert follower.end_offset_for(4) == (3, 40)


@RESTARTS
def test_epochs_are_right_after_a_cut_and_what_another_leader_wrote_instead(
    restarted: Callable[[Log, SimulatedDisk], Log],
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    for number in range(20):
        append(log, batch(timestamp=NOW_MS + number), leader_epoch=number // 5)
    log.truncate_to(log.end_offset_for(1).end_offset)
    assert (log.log_end_offset, log.latest_epoch) == (10, 1)
    for number in range(10, 14):
        log.append_replicated(memoryview(batch(base_offset=number, leader_epoch=6)), NOW_MS)
    log = restarted(log, disk)
    assert log.extent.leader_epochs.entries == [(0, 0), (1, 5), (6, 10)]
    assert log.end_offset_for(5) == (1, 10)
    assert log.end_offset_for(6) == (6, 14)


def test_a_leader_that_wrote_nothing_leaves_no_epoch_behind() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, batch(2), leader_epoch=1)
    # All of its first append is refused: nothing was written in epoch 4.
    refusal(log, batch(magic=1), leader_epoch=4)
    assert log.latest_epoch == 1
    log.append_replicated(memoryview(batch(base_offset=2, leader_epoch=5)), NOW_MS)
    assert log.extent.leader_epochs.entries == [(1, 0), (5, 2)]


@pytest.mark.parametrize("restarted", [untouched, closed, killed])
def test_a_follower_can_begin_where_its_leaders_log_begins(
    restarted: Callable[[Log, SimulatedDisk], Log],
) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, settings=SMALL)
    append(log, *(batch(timestamp=NOW_MS) for _ in range(20)), leader_epoch=2)
    log.truncate_fully(500)
    assert (log.latest_epoch, log.end_offset_for(2)) == (-1, (-1, -1))
    log.append_replicated(memoryview(batch(3, base_offset=500, leader_epoch=7)), NOW_MS)
    log = restarted(log, disk)
    assert (log.log_start_offset, log.log_end_offset) == (500, 503)
    assert log.extent.leader_epochs.entries == [(7, 500)]
    assert log.end_offset_for(2) == (2, 500)
    assert log.extent.first_lost_offset is None


def test_a_leaders_log_may_begin_inside_a_batch() -> None:
    leader = open_log(SimulatedDisk(), settings=SMALL)
    append(leader, batch(10), batch(10), batch(10), leader_epoch=3)
    leader.advance_log_start_offset(15)
    follower = open_log(SimulatedDisk(), settings=SMALL)
    append(follower, batch(2))
    follower.truncate_fully(15)
    for found in read_all(leader, from_offset=15):
        follower.append_replicated(memoryview(bytearray(found.view())), NOW_MS)
    assert (follower.log_start_offset, follower.log_end_offset) == (15, 30)
    assert [found.base_offset for found in read_all(follower)] == [10, 20]
    assert follower.extent.leader_epochs.entries == [(3, 15)]
    with pytest.raises(KafkaError) as refused:
        follower.append_replicated(memoryview(batch(10, base_offset=25)), NOW_MS)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_an_empty_log_takes_no_batch_that_ended_before_it() -> None:
    log = open_log(SimulatedDisk(), log_start_offset=15)
    for records in (batch(5, base_offset=10), bytearray(b"short")):
        with pytest.raises(KafkaError):
            log.append_replicated(memoryview(records), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (15, 15)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_epochs_are_those_of_the_batches_whatever_happened(seed: int) -> None:
    random = Random(seed)
    disk, epoch = SimulatedDisk(), 0
    log = open_log(disk, settings=SMALL)
    for number in range(random.randint(1, 60)):
        match random.randrange(12):
            case 0:
                log.truncate_to(random.randint(log.log_start_offset, log.log_end_offset))
                epoch += 1
            case 1:
                log.durability.flush()
            case 2:
                # A recovery point is a promise; the broker lowers it before a cut.
                disk = disk.crash(random) if random.random() < 0.5 else disk.kill()
                log = open_log(disk, settings=SMALL, clean=False)
            case 3:
                epoch += random.randint(1, 3)
            case _:
                data = batch(2, timestamp=NOW_MS + number, base_offset=log.log_end_offset, leader_epoch=epoch)
                log.append_replicated(memoryview(data), NOW_MS)
    starts: dict[int, int] = {}
    for found in read_all(log):
        starts.setdefault(found.partition_leader_epoch, found.base_offset)
    assert log.extent.leader_epochs.entries == list(starts.items())
    assert log.latest_epoch == max(starts, default=-1)


# -- idempotent producers


def sent(sequence: int, producer_id: int = 1) -> bytearray:
    """Two records that an idempotent producer sends, and sends again."""
    return batch(2, producer_id=producer_id, producer_epoch=0, sequence=sequence)


def cut(log: Log, disk: SimulatedDisk) -> Log:
    """It had records of another leader, which go."""
    stray = sent(40)
    log.append_replicated(_numbered(stray, log.log_end_offset), NOW_MS)
    log.truncate_to(log.log_end_offset - 2)
    return log


def cut_and_killed(log: Log, disk: SimulatedDisk) -> Log:
    return killed(cut(log, disk), disk)


def begun_anew(log: Log, disk: SimulatedDisk) -> Log:
    """It was too far behind, and has only the newest records."""
    batches = read_all(log)
    log.truncate_fully(batches[-12].base_offset)
    for found in batches[-12:]:
        log.append_replicated(memoryview(bytearray(found.view())), NOW_MS)
    return log


def _numbered(data: bytearray, offset: int, leader_epoch: int = 0) -> memoryview:
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = leader_epoch.to_bytes(4, "big")
    return memoryview(data)


@pytest.mark.parametrize(
    "happens", [untouched, closed, killed, without_power, cut, cut_and_killed, begun_anew]
)
def test_a_new_leader_knows_the_last_five_batches_of_every_producer(
    happens: Callable[[Log, SimulatedDisk], Log],
) -> None:
    leader, disk = open_log(SimulatedDisk(), settings=SMALL), SimulatedDisk()
    follower = open_log(disk, settings=SMALL)
    first_time = {}
    for number in range(20):
        for producer_id in (1, 2):
            (answer,) = append(leader, sent(2 * number, producer_id))
            first_time[producer_id, 2 * number] = answer.base_offset
    copy(leader, follower)
    new_leader = happens(follower, disk)
    end = new_leader.log_end_offset
    for producer_id in (1, 2):
        for sequence in (38, 36, 34, 32, 30, 38):
            (again,) = append(new_leader, sent(sequence, producer_id), leader_epoch=1)
            assert (again.is_duplicate, again.base_offset) == (True, first_time[producer_id, sequence])
        error = refusal(new_leader, sent(42, producer_id), leader_epoch=1)
        assert error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert new_leader.log_end_offset == end
    for producer_id in (1, 2):
        (answer,) = append(new_leader, sent(40, producer_id), leader_epoch=1)
        assert not answer.is_duplicate


def test_a_zombies_batch_is_refused_by_the_new_leader_too() -> None:
    leader, follower = open_log(SimulatedDisk()), open_log(SimulatedDisk())
    append(leader, batch(producer_id=1, producer_epoch=0, sequence=0))
    append(leader, batch(producer_id=1, producer_epoch=3, sequence=0))
    copy(leader, follower)
    error = refusal(follower, batch(producer_id=1, producer_epoch=0, sequence=1), leader_epoch=1)
    assert error.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_was_cut_off_is_not_remembered_as_sent() -> None:
    log = open_log(SimulatedDisk(), settings=SMALL)
    append(log, *(sent(2 * number) for number in range(10)))
    log.truncate_to(16)
    (again,) = append(log, sent(16), leader_epoch=1)
    assert (again.is_duplicate, again.base_offset) == (False, 16)


# -- gaps that the leader's compaction has made


def test_a_gap_at_the_beginning_of_a_segment_is_no_loss_after_a_crash() -> None:
    """A follower that was killed before its recovery point was written must not truncate what it has."""
    disk, settings = SimulatedDisk(), config(segment_bytes=300, cleanup_policy="compact")
    follower = open_log(disk, settings=settings)
    for offset in (0, 2, 40, 42, 90):
        follower.append_replicated(memoryview(bytearray(batch(2, base_offset=offset))), NOW_MS)
    reopened = open_log(disk.kill(), settings=settings, recovery_point=0, clean=False)
    assert len(reopened.extent.segments) > 1
    assert reopened.extent.first_lost_offset is None
    assert reopened.log_end_offset == 92
    assert [found.base_offset for found in read_all(reopened)] == [0, 2, 40, 42, 90]


def test_a_gap_that_is_longer_than_a_segment_may_be_begins_a_new_one() -> None:
    follower = open_log(SimulatedDisk(), settings=SMALL)
    for offset in (0, 3 << 31):
        follower.append_replicated(memoryview(bytearray(batch(2, base_offset=offset))), NOW_MS)
    assert [segment.base_offset for segment in follower.extent.segments] == [0, 3 << 31]
