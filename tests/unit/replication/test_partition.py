"""The leader's side of a partition: epochs, high watermark, and what it answers on the hot path (REP-3 to
REP-5).
"""

import pytest
from tests.unit.replication.leaders import LAG_MS, LEADER_EPOCH, assigned, fetched, leader, proposals

from ottla.errors import ErrorCode
from ottla.model import LEAVING_BROKER_EPOCH
from ottla.replication.events import (
    Assigned,
    CommitsRefused,
    FollowerLost,
    HighWatermarkAdvanced,
    HighWatermarkLowered,
    LeaderHighWatermark,
    LogEndOffsetMoved,
    Tick,
)
from ottla.replication.isolation import ControllerSilent, FlushHangs, LogBroken, LogWorks, StepDown
from ottla.replication.isr import IsrAnswered, ProposeIsr
from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo
from ottla.replication.partition import (
    JOIN_WAIT_MS,
    NEVER,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    PartitionReplica,
)


def alone() -> PartitionReplica:
    replica = PartitionReplica(node_id=1, high_watermark=0)
    event = Assigned(leader=1, leader_epoch=3, isr=(1,), replicas=(1,))
    assert replica.step(event, now_ms=0) == []
    return replica


# -- one replica


def test_with_one_replica_the_high_watermark_follows_the_log_end() -> None:
    replica = alone()
    assert replica.step(LogEndOffsetMoved(10), now_ms=0) == [HighWatermarkAdvanced(10)]
    assert replica.step(LogEndOffsetMoved(10), now_ms=0) == []
    assert replica.high_watermark == 10
    assert replica.next_deadline_ms == NEVER


def test_the_high_watermark_never_goes_back() -> None:
    replica = alone()
    replica.step(LogEndOffsetMoved(10), now_ms=0)
    assert replica.step(LogEndOffsetMoved(4), now_ms=0) == []
    assert replica.high_watermark == 10


def test_where_only_flushed_records_count_the_leaders_share_is_its_durable_offset() -> None:
    replica = alone()
    assert replica.step(LogEndOffsetMoved(10, durable_offset=0), now_ms=0) == []
    assert replica.step(LogEndOffsetMoved(12, durable_offset=7), now_ms=0) == [HighWatermarkAdvanced(7)]


def test_a_new_leader_alone_commits_all_it_holds_that_is_durable() -> None:
    replica = PartitionReplica(node_id=1, high_watermark=2)
    event = Assigned(leader=1, leader_epoch=3, isr=(1,), replicas=(1,), log_end_offset=9, durable_offset=5)
    assert replica.step(event, now_ms=0) == [HighWatermarkAdvanced(5)]
    assert replica.leader_epoch_start_offset == 9
    assert not replica.high_watermark_is_known


# -- the high watermark


def test_the_high_watermark_is_what_all_in_sync_replicas_hold() -> None:
    replica = leader(log_end_offset=10)
    assert replica.step(fetched(2, 10), 0) == []
    assert replica.step(fetched(3, 8), 0) == [HighWatermarkAdvanced(8)]
    assert replica.step(LogEndOffsetMoved(20), 0) == []
    assert replica.step(fetched(3, 20), 0) == [HighWatermarkAdvanced(10)]
    assert replica.step(fetched(2, 15), 0) == [HighWatermarkAdvanced(15)]


def test_the_leaders_own_durable_offset_counts_beside_the_followers() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2))
    replica.step(LogEndOffsetMoved(10, durable_offset=0), 0)
    assert replica.step(fetched(2, 10), 0) == []
    assert replica.step(LogEndOffsetMoved(10, durable_offset=6), 0) == [HighWatermarkAdvanced(6)]


def test_a_replica_that_is_not_in_sync_holds_nobody_up() -> None:
    replica = leader(isr=(1, 2))
    replica.step(LogEndOffsetMoved(10), 0)
    assert replica.step(fetched(3, 4), 0) == []
    assert replica.step(fetched(2, 10), 0) == [HighWatermarkAdvanced(10)]


def test_a_smaller_isr_lets_the_high_watermark_rise() -> None:
    replica = leader(log_end_offset=10)
    replica.step(fetched(2, 7), 0)
    assert replica.step(assigned(partition_epoch=2, isr=(1, 2), log_end_offset=10), 0) == [
        HighWatermarkAdvanced(7)
    ]


def test_a_larger_isr_never_lowers_it() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    assert replica.high_watermark == 10
    assert replica.step(assigned(partition_epoch=2, isr=(1, 2), log_end_offset=10), 0) == []
    assert replica.step(fetched(2, 3), 0) == []
    assert replica.high_watermark == 10


def test_below_the_minimum_of_in_sync_replicas_nothing_more_is_committed() -> None:
    replica = leader(isr=(1, 2), log_end_offset=5)
    replica.configure(min_insync_replicas=2)
    replica.step(assigned(partition_epoch=2, isr=(1,), log_end_offset=5), 0)
    assert replica.high_watermark == 0
    assert replica.step(LogEndOffsetMoved(9), 0) == []
    assert replica.is_under_min_isr
    replica.step(assigned(partition_epoch=3, isr=(1, 3), log_end_offset=9), 0)
    assert replica.step(fetched(3, 9), 0) == [HighWatermarkAdvanced(9)]


def test_a_minimum_of_more_replicas_than_there_are_cannot_be_meant() -> None:
    replica = PartitionReplica(node_id=1, high_watermark=0, min_insync_replicas=3)
    event = Assigned(leader=1, leader_epoch=3, isr=(1,), replicas=(1,), log_end_offset=4)
    assert replica.step(event, 0) == [HighWatermarkAdvanced(4)]
    assert not replica.is_under_min_isr


def test_readers_of_committed_records_stop_at_the_first_open_transaction() -> None:
    replica = alone()
    replica.step(LogEndOffsetMoved(10), now_ms=0)
    assert replica.readable_up_to(READ_UNCOMMITTED, 4) == 10
    assert replica.readable_up_to(READ_COMMITTED, 4) == 4
    assert replica.readable_up_to(READ_COMMITTED, None) == 10


# -- a follower that is about to join


def test_the_high_watermark_waits_for_a_follower_that_has_caught_up_and_is_not_a_member_yet() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    replica.step(fetched(2, 4), 0)
    # It asks at what was the end when it asked before: it has all that it could have, but the leader is ahead
    # again.
    replica.step(LogEndOffsetMoved(20), 1)
    assert replica.high_watermark == 20
    assert replica.step(fetched(2, 10), 1) == []
    assert replica.step(LogEndOffsetMoved(30), 2) == []
    joins = replica.step(fetched(2, 20), 3)
    assert [proposal.isr for proposal in proposals(joins)] == [(1, 2)]
    assert replica.high_watermark == 20


def test_it_waits_for_it_no_longer_than_a_fetch_may_take() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    replica.step(fetched(2, 4), 0)
    replica.step(LogEndOffsetMoved(20), 0)
    replica.step(fetched(2, 10), 0)
    assert replica.step(LogEndOffsetMoved(30), 1) == []
    assert replica.next_deadline_ms == JOIN_WAIT_MS + 1
    assert replica.step(Tick(), JOIN_WAIT_MS) == []
    assert replica.step(Tick(), JOIN_WAIT_MS + 1) == [HighWatermarkAdvanced(30)]
    assert replica.next_deadline_ms == NEVER


def test_it_does_not_wait_for_one_whose_broker_is_gone() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    replica.step(fetched(2, 4), 0)
    replica.step(LogEndOffsetMoved(20), 0)
    replica.step(fetched(2, 10), 0)
    replica.step(LogEndOffsetMoved(30), 1)
    assert replica.step(FollowerLost(2), 2) == [HighWatermarkAdvanced(30)]


def silent_leader(min_insync_replicas: int) -> PartitionReplica:
    """Leads since 0, with two followers; both lack ten records."""
    replica = PartitionReplica(
        1,
        0,
        replica_lag_time_max_ms=30_000,
        replica_silence_max_ms=1_000,
        min_insync_replicas=min_insync_replicas,
    )
    replica.step(assigned(isr=(1, 2, 3)), 0)
    replica.step(LogEndOffsetMoved(10), 0)
    return replica


def test_a_member_that_lacks_records_and_does_not_fetch_leaves_soon() -> None:
    replica = silent_leader(min_insync_replicas=2)
    replica.step(fetched(2, 10), 900)
    assert replica.next_deadline_ms == 1_001
    assert replica.step(Tick(), 1_000) == []
    (proposal,) = proposals(replica.step(Tick(), 1_001))
    assert proposal.isr == (1, 2)


def test_a_member_that_fetches_and_is_behind_has_the_lag_time() -> None:
    replica = silent_leader(min_insync_replicas=2)
    for now_ms in range(500, 10_000, 500):
        replica.step(fetched(2, 5), now_ms)
        replica.step(fetched(3, 10), now_ms)
        assert not proposals(replica.step(Tick(), now_ms))


def test_a_leader_that_too_few_members_reach_waits_and_then_leaves_them_to_lead() -> None:
    replica = silent_leader(min_insync_replicas=2)
    assert replica.step(Tick(), 2_000) == []
    (effect,) = replica.step(Tick(), 2_001)
    assert isinstance(effect, StepDown)
    assert effect.proposal.isr == (2, 3, 1)
    assert effect.proposal.broker_epochs == (-1, -1, LEAVING_BROKER_EPOCH)


def test_a_member_whose_broker_is_gone_leaves_by_the_controllers_word_only() -> None:
    replica = leader(isr=(1, 2), log_end_offset=10)
    assert replica.step(FollowerLost(2), 2) == []
    assert replica.step(FollowerLost(9), 2) == []
    assert replica.high_watermark == 0


def test_one_that_the_controller_put_out_is_not_waited_for() -> None:
    replica = leader(isr=(1, 2), log_end_offset=10)
    replica.step(fetched(2, 10), 0)
    replica.step(LogEndOffsetMoved(20), 1)
    assert replica.step(assigned(partition_epoch=2, isr=(1,), log_end_offset=20), 2) == [
        HighWatermarkAdvanced(20)
    ]


# -- epochs


def test_an_assignment_of_an_older_leader_epoch_changes_nothing() -> None:
    replica = leader()
    older = assigned(leader=2, leader_epoch=LEADER_EPOCH - 1, partition_epoch=9, isr=(2,))
    assert replica.step(older, 0) == []
    assert (replica.leader, replica.leader_epoch, replica.isr) == (1, LEADER_EPOCH, (1, 2, 3))


def test_an_assignment_of_an_older_partition_epoch_changes_nothing() -> None:
    replica = leader(partition_epoch=5)
    assert replica.step(assigned(partition_epoch=4, isr=(1,), log_end_offset=7), 0) == []
    assert (replica.partition_epoch, replica.isr, replica.high_watermark) == (5, (1, 2, 3), 0)


def test_a_new_leader_knows_nothing_of_its_followers_and_its_epoch_begins_at_its_log_end() -> None:
    replica = PartitionReplica(node_id=1, high_watermark=6)
    replica.step(assigned(leader=2, leader_epoch=1, log_end_offset=10), 0)
    assert not replica.followers
    assert replica.step(assigned(leader_epoch=2, partition_epoch=2, log_end_offset=10), 1) == []
    assert replica.leader_epoch_start_offset == 10
    assert {node: state.log_end_offset for node, state in replica.followers.items()} == {2: -1, 3: -1}
    assert (replica.high_watermark, replica.high_watermark_is_known) == (6, False)
    replica.step(fetched(2, 8), 2)
    assert replica.step(fetched(3, 10), 2) == [HighWatermarkAdvanced(8)]
    assert not replica.high_watermark_is_known
    assert replica.step(fetched(2, 10), 3) == [HighWatermarkAdvanced(10)]
    assert replica.high_watermark_is_known


def test_who_leads_again_in_a_new_epoch_asks_its_followers_anew() -> None:
    replica = leader(log_end_offset=10)
    replica.step(fetched(2, 10), 0)
    again = assigned(leader_epoch=LEADER_EPOCH + 1, partition_epoch=2, log_end_offset=10)
    assert replica.step(again, 1) == []
    assert replica.step(fetched(3, 10), 1) == []
    assert replica.step(fetched(2, 10), 1) == [HighWatermarkAdvanced(10)]


def test_in_the_same_epoch_what_is_known_of_followers_stays() -> None:
    replica = leader(log_end_offset=10)
    replica.step(fetched(2, 9), 0)
    replica.step(assigned(partition_epoch=2, replicas=(1, 2, 4), log_end_offset=10), 1)
    assert {node: state.log_end_offset for node, state in replica.followers.items()} == {2: 9, 4: -1}


def test_a_fetch_of_an_earlier_life_of_a_broker_does_not_count() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2), log_end_offset=10)
    replica.step(fetched(2, 4, broker_epoch=8), 0)
    assert replica.step(fetched(2, 10, broker_epoch=7), 0) == []
    assert replica.followers[2].log_end_offset == 4
    assert replica.follower_error(2, 7) is ErrorCode.STALE_BROKER_EPOCH
    # Its next life may have lost records.
    replica.step(fetched(2, 3, broker_epoch=9), 0)
    assert replica.followers[2].log_end_offset == 3


# -- on a follower


def test_a_follower_takes_the_leaders_high_watermark_up_to_its_own_log_end() -> None:
    replica = PartitionReplica(node_id=2, high_watermark=3)
    replica.step(assigned(log_end_offset=5), 0)
    assert replica.step(LeaderHighWatermark(9), 0) == [HighWatermarkAdvanced(5)]
    assert replica.step(LogEndOffsetMoved(12), 0) == []
    assert replica.step(LeaderHighWatermark(9), 0) == [HighWatermarkAdvanced(9)]
    assert replica.step(LeaderHighWatermark(7), 0) == []
    assert replica.high_watermark_is_known


def test_a_leader_does_not_take_anybodys_high_watermark() -> None:
    replica = leader(log_end_offset=5)
    assert replica.step(LeaderHighWatermark(5), 0) == []


def test_a_follower_whose_log_was_cut_below_it_has_a_lower_high_watermark() -> None:
    replica = PartitionReplica(node_id=2, high_watermark=8)
    replica.step(assigned(log_end_offset=10), 0)
    assert replica.step(LogEndOffsetMoved(8), 0) == []
    assert replica.step(LogEndOffsetMoved(6), 0) == [HighWatermarkLowered(6)]
    assert replica.high_watermark == 6


def test_a_follower_has_nothing_to_wait_for() -> None:
    replica = leader(log_end_offset=5)
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 1, partition_epoch=2, log_end_offset=5), 0)
    assert replica.next_deadline_ms == NEVER
    assert replica.step(Tick(), 10**9) == []
    assert replica.step(fetched(3, 5), 0) == []


# -- answers


def test_who_does_not_lead_refuses_appends_reads_and_followers() -> None:
    replica = PartitionReplica(node_id=1, high_watermark=0)
    replica.step(assigned(leader=2), now_ms=0)
    assert replica.append_error(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.fetch_error(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.follower_error(3) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_is_not_assigned_here_should_ask_again() -> None:
    replica = leader(replicas=(1, 2), isr=(1, 2))
    assert replica.follower_error(3) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert replica.follower_error(2, 5) is ErrorCode.NONE
    assert replica.step(fetched(3, 0), 0) == []


def test_too_small_an_isr_refuses_acks_all_and_nothing_else() -> None:
    replica = leader(isr=(1,), replicas=(1, 2))
    replica.configure(min_insync_replicas=2)
    assert replica.append_error(-1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert replica.append_error(1) is ErrorCode.NONE
    replica.configure(min_insync_replicas=1)
    assert replica.append_error(-1) is ErrorCode.NONE


def test_commits_are_refused_when_the_isr_becomes_too_small() -> None:
    replica = leader(isr=(1, 2), log_end_offset=5)
    replica.configure(min_insync_replicas=2)
    effects = replica.step(assigned(partition_epoch=2, isr=(1,), log_end_offset=5), 0)
    assert effects == [CommitsRefused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]
    assert replica.step(assigned(partition_epoch=3, isr=(1, 2), log_end_offset=5), 0) == []


def test_commits_are_refused_when_the_controller_accepts_a_smaller_isr() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2))
    replica.configure(min_insync_replicas=2)
    replica.step(LogEndOffsetMoved(5), 0)
    (asked,) = proposals(replica.step(Tick(), LAG_MS + 1))
    answer = IsrAnswered(asked, ErrorCode.NONE, LEADER_EPOCH, 2, (1,))
    assert replica.step(answer, LAG_MS + 1) == [CommitsRefused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]


def test_a_leadership_goes_on_only_into_the_very_next_epoch_of_the_same_leader() -> None:
    replica = leader()
    assert replica.leadership_epoch == LEADER_EPOCH
    replica.step(assigned(leader_epoch=LEADER_EPOCH + 1, partition_epoch=2), 0)
    assert replica.leadership_epoch == LEADER_EPOCH
    replica.step(assigned(leader_epoch=LEADER_EPOCH + 3, partition_epoch=3), 0)
    assert replica.leadership_epoch == LEADER_EPOCH + 3
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 4, partition_epoch=4), 0)
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 5, partition_epoch=5), 0)
    assert replica.leadership_epoch == LEADER_EPOCH + 5


def test_a_hole_in_the_log_is_settled_by_the_role_that_is_about_to_be_taken() -> None:
    replica = PartitionReplica(node_id=1, high_watermark=0)
    assert replica.step(HoleFound(7, leader=1, replicas=(1, 2)), 0) == [TruncateTo(7)]
    assert replica.step(HoleFound(7, leader=1, replicas=(1,)), 0) == [AcceptHole()]


# -- cut off, or with a broken log


def cut_off_leader() -> PartitionReplica:
    """Its followers fetched at 0, and have been silent since; so has the controller, at 100."""
    replica = PartitionReplica(1, 0, replica_lag_time_max_ms=10_000, isolation_patience_ms=50)
    replica.step(assigned(isr=(1, 2), replicas=(1, 2)), 0)
    replica.step(fetched(2, 0), 0)
    assert replica.step(ControllerSilent(100), 100) == [CommitsRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    return replica


def test_a_leader_without_controller_and_followers_refuses_writes_and_says_so_once() -> None:
    replica = cut_off_leader()
    assert replica.append_error(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.step(ControllerSilent(200), 200) == []


def test_a_leader_goes_on_without_a_controller_while_its_followers_fetch() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2, 3))
    replica.step(fetched(2, 0), 9_990)
    assert replica.step(ControllerSilent(10_000), 10_000) == []
    assert replica.append_error(-1) is ErrorCode.NONE


def test_a_leader_goes_on_without_followers_while_there_is_a_controller() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2))
    assert replica.step(ControllerSilent(0), 60_000) == []
    assert replica.append_error(-1) is ErrorCode.NONE


@pytest.mark.parametrize("back", ["controller", "follower", "assignment"])
def test_a_leader_that_is_not_cut_off_any_more_accepts_writes(back: str) -> None:
    replica = cut_off_leader()
    if back == "controller":
        assert replica.step(ControllerSilent(0), 110) == []
    elif back == "follower":
        replica.step(fetched(2, 0), 105)
        assert replica.step(ControllerSilent(110), 110) == []
    else:
        replica.step(assigned(isr=(1, 2), replicas=(1, 2), partition_epoch=2), 110)
    assert replica.append_error(1) is ErrorCode.NONE


def test_a_follower_is_never_cut_off() -> None:
    replica = cut_off_leader()
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 1, partition_epoch=2), 100)
    assert replica.step(ControllerSilent(1000), 1000) == []
    assert replica.append_error(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_whose_log_is_closed_to_writes_steps_down_at_once() -> None:
    replica = leader()
    without = ProposeIsr((2, 3), (-1, -1), LEADER_EPOCH, 1)
    assert replica.step(LogBroken(is_lasting=True), 0) == [StepDown(without)]
    assert replica.step(LogBroken(is_lasting=True), 500) == [StepDown(without)]


def test_a_log_that_fails_once_may_be_a_full_disk_and_one_that_fails_again_is_broken() -> None:
    replica = leader()
    assert replica.step(LogBroken(), 0) == []
    assert replica.step(LogWorks(), 500) == []
    assert replica.step(LogBroken(), 1000) == []
    assert len(replica.step(LogBroken(), 1500)) == 1


def test_a_leader_whose_flush_hangs_leaves_the_lead_to_others_if_enough_are_in_sync() -> None:
    replica = leader(min_insync_replicas=2)
    proposal = ProposeIsr((2, 3, 1), (-1, -1, LEAVING_BROKER_EPOCH), LEADER_EPOCH, 1)
    assert replica.step(FlushHangs(), 0) == [StepDown(proposal)]
    assert leader(isr=(1, 2), min_insync_replicas=2).step(FlushHangs(), 0) == []
    assert leader(isr=(1,)).step(FlushHangs(), 0) == []
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 1, partition_epoch=2), 0)
    assert replica.step(FlushHangs(), 0) == []


def test_the_only_member_of_the_isr_stays_leader_whatever_its_log_does() -> None:
    replica = leader(isr=(1,))
    assert replica.step(LogBroken(is_lasting=True), 0) == []


def test_a_follower_with_a_broken_log_has_nothing_to_step_down_from() -> None:
    replica = leader()
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 1, partition_epoch=2), 0)
    assert replica.step(LogBroken(is_lasting=True), 0) == []


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
    assert alone().fetch_error(epoch) is error
