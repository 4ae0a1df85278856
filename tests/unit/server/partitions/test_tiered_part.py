"""A partition with a remote part: its starts, its epochs, and where the two parts differ."""

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import append, config, open_log

from ottla.controller.remote_log import RemoteLog, RemoteSegment
from ottla.errors import ErrorCode
from ottla.log.log import Log
from ottla.log.plan.retention import Deletion, Reason, RetentionPlan
from ottla.model import EpochEnd
from ottla.replication.divergence import judge_read
from ottla.runtime.disk import OsDisk
from ottla.server.partitions.tiered_part import TieredPart


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Records 0 to 49, one in each batch, ten in each segment; a new leader epoch every twenty."""
    (tmp_path / "orders-0").mkdir()
    log = open_log(OsDisk(), directory=str(tmp_path / "orders-0"), settings=config())
    for number in range(50):
        if number % 10 == 0:
            log.roll(NOW_MS)
        append(log, batch(1), leader_epoch=number // 20)
    return log


def segment(base: int, following: int, *epochs: tuple[int, int]) -> RemoteSegment:
    return RemoteSegment(UUID(int=base + 1), base, following, 0, size_bytes=100, epochs=epochs)


# As the log above has them: epoch 0 from 0, epoch 1 from 20, epoch 2 from 40.
SEGMENTS = (
    segment(0, 10, (0, 0)),
    segment(10, 20, (0, 10)),
    segment(20, 30, (1, 20)),
    segment(30, 40, (1, 30)),
)


def forget_before(log: Log, offset: int) -> None:
    """Local retention deletes the segments before an offset."""
    bases = [each.base_offset for each in log.extent.segments if each.base_offset < offset]
    deletions = tuple(Deletion(base, Reason.SIZE) for base in bases)
    log.retention.delete_segments(RetentionPlan(deletions, offset, roll_active=False), NOW_MS)


def test_the_log_starts_where_the_store_does(log: Log) -> None:
    tier = TieredPart(log, RemoteLog())
    assert tier.log_start_offset == 0
    tier.apply(RemoteLog(5, SEGMENTS))
    forget_before(log, 30)
    assert (tier.log_start_offset, log.log_start_offset) == (5, 30)
    assert judge_read(tier, 2, 5, -1) is ErrorCode.NONE
    assert judge_read(tier, 2, 4, -1) is ErrorCode.OFFSET_OUT_OF_RANGE
    tier.apply(RemoteLog(45))
    assert tier.log_start_offset == 45


def test_epochs_go_back_to_the_start_of_the_store(log: Log) -> None:
    whole = [log.end_offset_for(epoch) for epoch in (0, 1, 2)]
    tier = TieredPart(log, RemoteLog(0, SEGMENTS))
    forget_before(log, 40)
    assert log.end_offset_for(0) != whole[0]
    assert [tier.end_offset_for(epoch) for epoch in (0, 1, 2)] == whole
    assert [tier.epoch_at(offset) for offset in (0, 19, 20, 39, 40)] == [0, 0, 1, 1, 2]
    assert tier.end_offset_for(-1) == EpochEnd(-1, -1)


def test_a_store_that_has_what_the_log_has_is_agreed_with(log: Log) -> None:
    tier = TieredPart(log, RemoteLog(0, SEGMENTS))
    assert (tier.agreed_offset, tier.divergence()) == (40, None)
    forget_before(log, 20)
    assert (tier.agreed_offset, tier.divergence()) == (40, None)


@pytest.mark.parametrize(
    ("last", "agreed", "diverges"),
    [
        (segment(30, 40, (1, 30), (3, 35)), 30, 35),  # another leader wrote the last five
        (segment(30, 40, (3, 30)), 30, 30),
        (segment(30, 70, (1, 30), (2, 40)), 30, 50),  # more than this log ever had
    ],
)
def test_records_of_another_history_are_not_agreed_with(
    log: Log, last: RemoteSegment, agreed: int, diverges: int
) -> None:
    tier = TieredPart(log, RemoteLog(0, (*SEGMENTS[:3], last)))
    assert tier.agreed_offset == agreed
    assert tier.divergence() == diverges


def test_the_oldest_closed_segment_that_is_stable_is_copied_next(log: Log) -> None:
    tier = TieredPart(log, RemoteLog())
    first = tier.next_to_copy(stable_offset=50)
    assert first is not None
    assert (first.base_offset, first.next_offset) == (0, 10)
    assert tier.next_to_copy(stable_offset=9) is None
    tier.apply(RemoteLog(0, SEGMENTS[:2]))
    following = tier.next_to_copy(stable_offset=50)
    assert following is not None
    assert following.base_offset == 20
    tier.apply(RemoteLog(0, SEGMENTS))
    assert tier.next_to_copy(stable_offset=50) is None


def test_missing_records_between_the_parts_are_noticed(log: Log) -> None:
    tier = TieredPart(log, RemoteLog(0, SEGMENTS[:2]))
    assert not tier.has_gap
    forget_before(log, 30)
    assert tier.has_gap
