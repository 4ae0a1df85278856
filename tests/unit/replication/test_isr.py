"""Into the ISR, out of it, and what becomes of proposals (REP-2)."""

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.unit.replication.leaders import LAG_MS, LEADER_EPOCH, assigned, fetched, leader, proposals

from ottla.errors import ErrorCode
from ottla.replication.events import (
    FollowerLost,
    HighWatermarkAdvanced,
    LogEndOffsetMoved,
    Tick,
)
from ottla.replication.isr import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS, IsrAnswered, ProposeIsr
from ottla.replication.partition import NEVER, PartitionReplica


def proposal(isr: tuple[int, ...], *, partition_epoch: int = 1) -> ProposeIsr:
    epochs = tuple(-1 if member == 1 else 7 for member in isr)
    return ProposeIsr(isr, epochs, LEADER_EPOCH, partition_epoch)


def accepted(answered: ProposeIsr) -> IsrAnswered:
    return IsrAnswered(answered, ErrorCode.NONE, LEADER_EPOCH, answered.partition_epoch + 1, answered.isr)


def joining(log_end_offset: int = 10) -> tuple[PartitionReplica, ProposeIsr]:
    """A leader that has just proposed to let node 2 in."""
    replica = leader(isr=(1,), replicas=(1, 2), log_end_offset=log_end_offset)
    effects = replica.step(fetched(2, log_end_offset), 0)
    assert effects == [proposal((1, 2))]
    return replica, proposal((1, 2))


# -- joining


def test_a_follower_joins_when_its_log_goes_to_the_high_watermark() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    assert replica.step(fetched(2, 9), 0) == []
    assert replica.step(fetched(2, 10), 0) == [proposal((1, 2))]


def test_a_follower_joins_only_when_it_holds_all_that_was_there_when_the_leader_began() -> None:
    replica = leader(isr=(1, 2), log_end_offset=10)
    replica.step(fetched(2, 5), 0)
    # The high watermark is not known yet: what was committed before may lie above it.
    assert replica.high_watermark == 5
    replica.step(fetched(3, 5), 0)
    assert replica.step(fetched(3, 9), 0) == []
    assert proposals(replica.step(fetched(3, 10), 0)) == [proposal((1, 2, 3))]


def test_a_damaged_follower_is_not_proposed_and_keeps_no_other_from_joining() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    replica.step(replace(assigned(isr=(1,), partition_epoch=2, log_end_offset=10), damaged=frozenset({2})), 0)
    assert replica.step(fetched(2, 10), 0) == []
    assert replica.step(fetched(3, 10), 0) == [proposal((1, 3), partition_epoch=2)]


def test_from_the_proposal_on_the_new_member_counts_for_the_high_watermark() -> None:
    replica, _ = joining()
    assert replica.step(LogEndOffsetMoved(20), 0) == []
    assert replica.isr == (1,)
    assert replica.step(fetched(2, 15), 0) == [HighWatermarkAdvanced(15)]


def test_an_accepted_proposal_is_the_isr() -> None:
    replica, asked = joining()
    assert replica.step(accepted(asked), 0) == []
    assert (replica.isr, replica.partition_epoch) == ((1, 2), 2)
    assert not replica.followers[2].is_joining


def test_one_proposal_at_a_time() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    (first,) = proposals(replica.step(fetched(2, 10), 0))
    assert replica.step(fetched(3, 10), 0) == []
    assert replica.step(accepted(first), 0) == [proposal((1, 2, 3), partition_epoch=2)]


def test_the_metadata_may_tell_of_a_proposal_before_its_answer_does() -> None:
    replica, asked = joining()
    replica.step(assigned(partition_epoch=2, isr=(1, 2), replicas=(1, 2), log_end_offset=10), 0)
    assert replica.isr == (1, 2)
    assert replica.step(accepted(asked), 0) == []
    assert replica.partition_epoch == 2


def test_the_metadata_that_repeats_an_answer_does_not_end_the_next_proposal() -> None:
    replica = leader(isr=(1,), log_end_offset=10)
    (first,) = proposals(replica.step(fetched(2, 10), 0))
    replica.step(fetched(3, 10), 0)
    (second,) = proposals(replica.step(accepted(first), 0))
    replica.step(assigned(partition_epoch=2, isr=(2, 1), log_end_offset=10), 0)
    replica.step(LogEndOffsetMoved(20), 0)
    # Node 3 may be a member by now.
    assert replica.step(fetched(2, 20), 0) == []
    assert replica.step(accepted(second), 0) == []
    assert replica.isr == (1, 2, 3)


def test_an_answer_that_comes_late_is_no_news() -> None:
    replica, asked = joining()
    replica.step(assigned(partition_epoch=5, isr=(1,), replicas=(1, 2), log_end_offset=10), 0)
    replica.step(accepted(asked), 0)
    assert (replica.isr, replica.partition_epoch) == ((1,), 5)


def test_an_answer_for_an_earlier_leader_epoch_changes_nothing() -> None:
    replica, asked = joining()
    later = assigned(
        leader_epoch=LEADER_EPOCH + 1, partition_epoch=2, isr=(1,), replicas=(1, 2), log_end_offset=10
    )
    replica.step(later, 0)
    answer = IsrAnswered(asked, ErrorCode.NONE, LEADER_EPOCH, 3, (1, 2))
    assert replica.step(answer, 0) == []
    assert (replica.isr, replica.partition_epoch) == ((1,), 2)


def test_an_answer_reaches_who_does_not_lead_any_more() -> None:
    replica, asked = joining()
    replica.step(assigned(leader=2, leader_epoch=LEADER_EPOCH + 1, partition_epoch=2, log_end_offset=10), 0)
    assert replica.step(accepted(asked), 0) == []
    assert replica.step(IsrAnswered(asked, ErrorCode.FENCED_LEADER_EPOCH), 0) == []
    assert replica.isr == (1, 2, 3)


# -- refusals


def test_who_was_refused_does_not_count_and_is_proposed_again_after_a_pause() -> None:
    replica, asked = joining()
    replica.step(LogEndOffsetMoved(20), 0)
    refused = IsrAnswered(asked, ErrorCode.INELIGIBLE_REPLICA)
    assert replica.step(refused, 0) == [HighWatermarkAdvanced(20)]
    # A broker that is fenced or about to stop continues to fetch: the high watermark does not wait for it.
    assert replica.step(fetched(2, 20), RETRY_BACKOFF_MS - 1) == []
    assert replica.step(LogEndOffsetMoved(30), RETRY_BACKOFF_MS - 1) == [HighWatermarkAdvanced(30)]
    assert replica.step(fetched(2, 30), RETRY_BACKOFF_MS) == [proposal((1, 2))]


def test_the_pauses_become_longer_up_to_a_bound_and_a_decision_ends_them() -> None:
    replica = leader(isr=(1,), replicas=(1, 2), log_end_offset=10)
    pauses, now_ms = [], 0
    for _ in range(7):
        while not (effects := proposals(replica.step(fetched(2, 10), now_ms))):
            now_ms += 1
        replica.step(IsrAnswered(effects[0], ErrorCode.INELIGIBLE_REPLICA), now_ms)
        pauses.append(now_ms)
    gaps = [later - earlier for earlier, later in pairwise(pauses)]
    assert gaps == [50, 100, 200, 400, 800, RETRY_BACKOFF_MAX_MS]
    replica.step(assigned(partition_epoch=2, isr=(1,), replicas=(1, 2), log_end_offset=10), now_ms)
    assert replica.step(fetched(2, 10), now_ms) == [proposal((1, 2), partition_epoch=2)]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION,
     ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR],
)  # fmt: skip
def test_a_proposal_of_which_nobody_knows_what_became_goes_on_counting(error: ErrorCode) -> None:
    replica, asked = joining()
    assert replica.step(IsrAnswered(asked, error), 0) == []
    assert replica.step(LogEndOffsetMoved(20), 0) == []
    assert replica.step(FollowerLost(2), 0) == []
    assert replica.high_watermark == 10
    # It was carried out after all, and the metadata says so.
    replica.step(assigned(partition_epoch=2, isr=(1, 2), replicas=(1, 2), log_end_offset=20), 0)
    assert replica.high_watermark == 10


def test_it_is_proposed_again_while_the_follower_is_there() -> None:
    replica, asked = joining()
    replica.step(IsrAnswered(asked, ErrorCode.REQUEST_TIMED_OUT), 0)
    assert replica.next_deadline_ms == RETRY_BACKOFF_MS
    assert replica.step(Tick(), RETRY_BACKOFF_MS - 1) == []
    assert replica.step(Tick(), RETRY_BACKOFF_MS) == [asked]


def test_it_is_closed_by_moving_the_partition_epoch_when_the_follower_is_gone() -> None:
    replica, asked = joining()
    replica.step(LogEndOffsetMoved(20), 0)
    replica.step(IsrAnswered(asked, ErrorCode.REQUEST_TIMED_OUT), 0)
    assert replica.step(Tick(), 60) == [asked]
    # The first copy may still be on its way: a refusal of the second says nothing about it.
    assert replica.step(IsrAnswered(asked, ErrorCode.INELIGIBLE_REPLICA), 70) == []
    assert replica.high_watermark == 10
    (closing,) = proposals(replica.step(Tick(), replica.next_deadline_ms))
    assert closing == ProposeIsr((1,), (-1,), LEADER_EPOCH, 1)
    assert replica.step(accepted(closing), 4000) == [HighWatermarkAdvanced(20)]


def test_an_answer_that_moved_no_epoch_closes_nothing() -> None:
    replica, asked = joining()
    replica.step(LogEndOffsetMoved(20), 0)
    assert replica.step(IsrAnswered(asked, ErrorCode.NONE, LEADER_EPOCH, 1, (1,)), 0) == []
    assert replica.high_watermark == 10


@pytest.mark.parametrize(
    "error",
    [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
     ErrorCode.NEW_LEADER_ELECTED, ErrorCode.NOT_LEADER_OR_FOLLOWER],
)  # fmt: skip
def test_who_seems_to_be_deposed_proposes_nothing_until_it_knows(error: ErrorCode) -> None:
    replica, asked = joining()
    assert replica.step(IsrAnswered(asked, error), 0) == []
    assert replica.step(Tick(), 10_000) == []
    assert proposals(replica.step(fetched(2, 10), 20_000)) == []
    later = assigned(
        leader_epoch=LEADER_EPOCH + 2, partition_epoch=3, isr=(1,), replicas=(1, 2), log_end_offset=10
    )
    replica.step(later, 20_000)
    assert len(proposals(replica.step(fetched(2, 10), 20_000))) == 1


def test_the_answer_to_an_earlier_proposal_is_not_taken_for_one_to_the_pending() -> None:
    replica, asked = joining()
    replica.step(assigned(partition_epoch=2, isr=(1,), replicas=(1, 2), log_end_offset=10), 0)
    (second,) = proposals(replica.step(fetched(2, 10), 0))
    replica.step(LogEndOffsetMoved(20), 0)
    assert replica.step(IsrAnswered(asked, ErrorCode.INELIGIBLE_REPLICA), 0) == []
    assert replica.high_watermark == 10
    replica.step(accepted(second), 0)
    assert replica.isr == (1, 2)


# -- leaving


def test_a_follower_leaves_when_it_was_not_caught_up_for_too_long() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2), log_end_offset=10)
    replica.step(fetched(2, 10), 100)
    replica.step(LogEndOffsetMoved(20), 200)
    assert replica.next_deadline_ms == 100 + LAG_MS + 1
    assert replica.step(Tick(), 100 + LAG_MS) == []
    assert replica.step(Tick(), 100 + LAG_MS + 1) == [proposal((1,))]


def test_until_that_is_decided_it_counts() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2), log_end_offset=10)
    (asked,) = proposals(replica.step(Tick(), LAG_MS + 1))
    assert replica.step(LogEndOffsetMoved(20), LAG_MS + 1) == []
    assert replica.step(accepted(asked), LAG_MS + 2) == [HighWatermarkAdvanced(20)]
    assert replica.isr == (1,)


def test_a_follower_that_holds_everything_stays_however_long_it_is_silent() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2), log_end_offset=10)
    replica.step(fetched(2, 10), 0)
    assert replica.next_deadline_ms == NEVER
    assert replica.step(Tick(), 100 * LAG_MS) == []


def test_who_always_asks_for_the_newest_stays_although_the_leader_is_always_ahead() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2))
    end = 0
    for now_ms in range(0, 5 * LAG_MS, 100):
        replica.step(fetched(2, end), now_ms)
        end = replica.log_end_offset
        replica.step(LogEndOffsetMoved(end + 10), now_ms)
        assert replica.step(Tick(), now_ms) == []


def test_who_asks_and_falls_behind_leaves() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2))
    left = []
    for now_ms in range(0, 2 * LAG_MS, 100):
        replica.step(fetched(2, now_ms // 100), now_ms)
        replica.step(LogEndOffsetMoved(now_ms + 100), now_ms)
        left += proposals(replica.step(Tick(), now_ms))
    assert left == [proposal((1,))]


def test_a_member_of_a_new_epoch_has_the_whole_time_to_be_heard_of() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2), log_end_offset=5, now_ms=500)
    assert replica.next_deadline_ms == 500 + LAG_MS + 1
    assert replica.step(Tick(), 500 + LAG_MS) == []
    (asked,) = proposals(replica.step(Tick(), 500 + LAG_MS + 1))
    assert asked.isr == (1,)


def test_one_may_leave_while_another_joins() -> None:
    replica = leader(isr=(1, 2), log_end_offset=10)
    assert proposals(replica.step(fetched(3, 10), LAG_MS + 1)) == [proposal((1, 3))]
    # Neither is known to be gone, or to be there.
    replica.step(LogEndOffsetMoved(20), LAG_MS + 1)
    replica.step(fetched(3, 20), LAG_MS + 2)
    assert replica.high_watermark == 0


def test_a_proposal_to_leave_that_was_refused_is_made_again() -> None:
    replica = leader(isr=(1, 2), replicas=(1, 2), log_end_offset=10)
    (asked,) = proposals(replica.step(Tick(), LAG_MS + 1))
    assert replica.step(IsrAnswered(asked, ErrorCode.STALE_BROKER_EPOCH), LAG_MS + 1) == []
    assert replica.next_deadline_ms == LAG_MS + 1 + RETRY_BACKOFF_MS
    assert replica.step(Tick(), replica.next_deadline_ms) == [asked]


def test_a_member_that_nobody_wants_keeps_no_other_from_leaving() -> None:
    replica = leader(isr=(1, 2), log_end_offset=10)
    replica.step(fetched(2, 10), 0)
    replica.step(LogEndOffsetMoved(11), 1)
    late_ms = LAG_MS + 2
    (asked,) = proposals(replica.step(fetched(3, 11), late_ms))
    assert asked == proposal((1, 3))
    replica.step(IsrAnswered(asked, ErrorCode.INELIGIBLE_REPLICA), late_ms)
    again_ms = late_ms + RETRY_BACKOFF_MS
    (asked,) = proposals(replica.step(fetched(3, 11), again_ms))
    assert asked == ProposeIsr((1,), (-1,), LEADER_EPOCH, 1)
    (asked,) = proposals(replica.step(accepted(asked), again_ms))
    assert replica.isr == (1,)
    assert asked == proposal((1, 3), partition_epoch=2)
