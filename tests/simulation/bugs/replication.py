"""Bugs in `ottla.replication`: the high watermark, the ISR as its leader sees it, followers."""

from tests.simulation.bugs.bug import Bug, Edit, Swap

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.replication import divergence
from ottla.replication.divergence import LogView
from ottla.replication.follower import Follower
from ottla.replication.follower_progress import FollowerProgress
from ottla.replication.isr import Isr
from ottla.replication.log_holes import settle_hole
from ottla.replication.partition import PartitionReplica
from ottla.server.apis import follower_fetch


def _judge_fetch_by_offset(
    log: LogView, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | ErrorCode:
    if fetch_offset > log.log_end_offset:
        return EpochEnd(last_fetched_epoch, log.log_end_offset)
    return ErrorCode.NONE if fetch_offset >= log.log_start_offset else ErrorCode.OFFSET_OUT_OF_RANGE


_REPLICA = PartitionReplica

BUGS = (
    # ---- the high watermark
    Bug(
        "watermark_without_isr",
        "What the leader holds is committed, whoever follows.",
        Edit(_REPLICA._advance, "(follower.is_counted or follower.is_joining)", "False"),
    ),
    Bug(
        "watermark_of_the_committed_isr",
        "A proposed member does not count before the controller has agreed.",
        Edit(Isr.propose, "self.maximal |= frozenset(proposal.isr)", "pass"),
        Edit(_REPLICA._count_members, "is_member=replica_id in self.isr", "is_member=True"),
        Edit(_REPLICA._is_in_sync, "return follower.is_joining and", "return"),
        faults=("kill", "cut-pair", "pause"),
    ),
    Bug(
        "lost_answer_counts_as_a_refusal",
        "A proposal without an answer is taken for refused, though the controller may carry it out.",
        Edit(Isr.failed, "is_refused = error in _REFUSALS", "is_refused = True"),
        faults=("cut-leader",),
    ),
    Bug(
        "removed_members_do_not_count",
        "A member that is to leave the ISR is not waited for any more, before the controller has agreed.",
        Edit(
            Isr.propose, "self.maximal |= frozenset(proposal.isr)", "self.maximal = frozenset(proposal.isr)"
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "watermark_of_a_follower_is_the_leaders",
        "A follower takes the leader's high watermark although its own log ends before.",
        Edit(
            _REPLICA._leader_high_watermark,
            "high_watermark = min(high_watermark, self.log_end_offset)",
            "pass",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "reads_beyond_the_watermark",
        "Consumers read to the end of the log.",
        Edit(_REPLICA.readable_up_to, "    return self.high_watermark\n", "    return self.log_end_offset\n"),
        faults=("cut-leader", "chase", "slow-link"),
    ),
    Bug(
        "new_leader_commits_what_it_finds",
        "A new leader takes the end of its log for committed.",
        Edit(
            _REPLICA._assigned,
            "self.leader_epoch_start_offset = event.log_end_offset",
            "self.leader_epoch_start_offset = self.high_watermark = event.log_end_offset",
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    # ---- the in-sync replicas
    Bug(
        "expansion_before_it_has_caught_up",
        "A follower joins the ISR with its first fetch.",
        Edit(
            _REPLICA._is_in_sync,
            "return follower.is_joining and",
            "return follower.log_end_offset >= 0 or",
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "expansion_below_the_epochs_start",
        "A follower joins when it has what this leader knows to be committed, which may be less than what is.",
        Edit(_REPLICA._is_in_sync, "return follower.is_joining and", "return"),
        Edit(
            _REPLICA._is_in_sync,
            "self.high_watermark, self.leader_epoch_start_offset",
            "self.high_watermark, 0",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "followers_are_kept_across_leaderships",
        "What a follower held under an earlier leadership counts in the next one.",
        Edit(_REPLICA._assigned, "self.followers = {}", "pass"),
        Edit(_REPLICA._meet_followers, "if self.is_leader else []", ""),
        faults=("cut-leader",),
    ),
    Bug(
        "proposal_is_never_repeated",
        "After a proposal that was refused, or whose answer was lost, nothing is proposed any more.",
        Edit(Isr.failed, "self._is_over = error in _ENDS", "self._is_over = True"),
        faults=("cut-leader",),
    ),
    Bug(
        "pending_proposal_is_never_over",
        "A proposal that failed still counts as under way.",
        Edit(Isr.failed, "self.pending = None", "pass"),
        faults=("cut-leader",),
    ),
    # ---- followers
    Bug(
        "no_epoch_check_on_a_followers_fetch",
        "A leader compares offsets only: a diverging follower is not truncated.",
        Swap(follower_fetch, "judge_fetch", _judge_fetch_by_offset),
        faults=("cut-leader", "chase", "slow-link"),
    ),
    Bug(
        "fenced_leader_epoch_not_checked",
        "A leader answers followers of other epochs, and a follower takes the answers.",
        Edit(_REPLICA.fetch_error, "if current_leader_epoch != NO_EPOCH:", "if False:"),
        Edit(
            Follower._is_current,
            "(asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (\n"
            "        self.leader_epoch,\n"
            "        log.log_end_offset,\n"
            "        log.latest_epoch,\n"
            "    )",
            "asked.fetch_offset == log.log_end_offset",
        ),
        faults=("hold", "chase", "cut"),
    ),
    Bug(
        "answer_to_an_older_question_is_taken",
        "A follower appends the answer to a question that it asked before its log moved.",
        Edit(Follower.step, "if is_current else []", ""),
        faults=("hold", "chase", "cut"),
    ),
    Bug(
        "truncates_too_little",
        "A diverging follower keeps what its leader's epoch does not have.",
        Edit(divergence.truncation_offset, "if diverging.epoch >= log.latest_epoch:", "if True:"),
        faults=("cut-leader",),
    ),
    Bug(
        "truncates_too_much",
        "A diverging follower truncates records that its leader has, and that are committed.",
        Edit(
            Follower._diverged,
            "return [TruncateTo(offset)]",
            "return [TruncateTo(max(log.log_start_offset, offset - 3))]",
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "silent_fetch_counts_in_another_epoch",
        "A fetch that leaves a partition out counts, although the follower named it to another leadership.",
        Edit(FollowerProgress.repeat, " or self._leader_epoch != leader_epoch", ""),
        faults=("cut-leader",),
    ),
    Bug(
        "named_fetch_counts_before_it_is_judged",
        "The offset that a fetch names counts before its epoch was compared with the log.",
        Edit(FollowerProgress.repeat, " or self.is_named", ""),
        faults=("cut-leader",),
    ),
    Bug(
        "back_off_without_end",
        "A follower that was refused once is not asked for again.",
        Edit(
            Follower._back_off,
            "self.retry_at_ms = now_ms + self._backoff_ms",
            "self.retry_at_ms = now_ms + 10**9",
        ),
    ),
    Bug(
        "hole_is_accepted_where_others_have_the_records",
        "A leader keeps a log with a hole although its followers have the lost records.",
        Edit(settle_hole, "hole.leader == node_id and len(hole.replicas) == 1", "hole.leader == node_id"),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "refused_member_keeps_others_in_the_isr",
        "A follower that the controller does not want is proposed again and again together with a removal.",
        Edit(Isr.next_members, "if self._is_refused and", "if False and"),
    ),
)
