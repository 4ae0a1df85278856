import pytest

from ottla.errors import ErrorCode
from ottla.replication.partition import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Assigned,
    HighWatermarkAdvanced,
    LogEndOffsetMoved,
    PartitionReplica,
)

LEADER = Assigned(leader=1, leader_epoch=3, isr=(1,), replicas=(1,))


def led_replica() -> PartitionReplica:
    replica = PartitionReplica(node_id=1, high_watermark=0)
    assert replica.step(LEADER, now_ms=0) == []
    return replica


def test_with_one_replica_the_high_watermark_follows_the_log_end() -> None:
    replica = led_replica()
    assert replica.step(LogEndOffsetMoved(10), now_ms=0) == [HighWatermarkAdvanced(10)]
    assert replica.step(LogEndOffsetMoved(10), now_ms=0) == []
    assert replica.high_watermark == 10


def test_the_high_watermark_never_goes_back() -> None:
    replica = led_replica()
    replica.step(LogEndOffsetMoved(10), now_ms=0)
    assert replica.step(LogEndOffsetMoved(4), now_ms=0) == []
    assert replica.high_watermark == 10


def test_with_followers_in_the_isr_the_leaders_log_alone_decides_nothing() -> None:
    replica = led_replica()
    replica.step(Assigned(leader=1, leader_epoch=4, isr=(1, 2), replicas=(1, 2)), now_ms=0)
    assert replica.step(LogEndOffsetMoved(10), now_ms=0) == []


def test_an_assignment_of_an_older_epoch_changes_nothing() -> None:
    replica = led_replica()
    replica.step(Assigned(leader=2, leader_epoch=2, isr=(2,), replicas=(2,)), now_ms=0)
    assert (replica.leader, replica.leader_epoch) == (1, 3)


def test_who_does_not_lead_refuses_appends_and_reads() -> None:
    replica = PartitionReplica(node_id=1, high_watermark=0)
    replica.step(Assigned(leader=2, leader_epoch=3, isr=(2,), replicas=(1, 2)), now_ms=0)
    assert replica.append_error(1, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.fetch_error(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_too_small_an_isr_refuses_acks_all_and_nothing_else() -> None:
    replica = led_replica()
    assert replica.append_error(-1, 2) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.append_error(1, 2) is ErrorCode.NONE
    assert replica.append_error(-1, 1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_readers_epoch_is_compared_with_ours(epoch: int, error: ErrorCode) -> None:
    assert led_replica().fetch_error(epoch) is error


def test_readers_of_committed_records_stop_at_the_first_open_transaction() -> None:
    replica = led_replica()
    replica.step(LogEndOffsetMoved(10), now_ms=0)
    assert replica.readable_up_to(READ_UNCOMMITTED, 4) == 10
    assert replica.readable_up_to(READ_COMMITTED, 4) == 4
    assert replica.readable_up_to(READ_COMMITTED, None) == 10
