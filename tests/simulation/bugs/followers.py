"""Bugs in `ottla.server.replicas` and in the leader's answers to followers: lanes, sessions, ISR proposals."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.server.apis import follower_fetch
from ottla.server.replicas.fetcher_lane import FetcherLane
from ottla.server.replicas.fetcher_session import FetcherSession
from ottla.server.replicas.fetchers import Fetchers
from ottla.server.replicas.follower_sessions import Cursor, FollowerSession
from ottla.server.replicas.isr_proposals import Isr

_FETCH = follower_fetch.FollowerFetch

BUGS = (
    # ---- as a follower
    Bug(
        "follower_asks_before_it_has_flushed",
        "A fetch announces records that the follower has not flushed, where only flushed records count.",
        Edit(FetcherLane._prepare, "if self._flushes:", "if False:"),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "new_session_without_what_was_asked_before",
        "After a lost connection the follower begins a session that names only what changed.",
        Edit(FetcherSession.reset, "followed.asked = None", "pass"),
    ),
    Bug(
        "session_goes_on_after_a_failed_fetch",
        "A fetch without an answer does not end the session, though nobody knows whether the leader got it.",
        Edit(FetcherLane._unreachable, "self._session.reset()", "pass"),
        faults=("reset", "hold", "cut"),
    ),
    Bug(
        "new_leader_epoch_is_no_news_to_a_lane",
        "A partition whose leader was elected again is not followed in the new epoch.",
        Edit(
            FetcherSession.follow,
            "elif followed.machine.leader_epoch == replica.leader_epoch:",
            "elif followed.machine.leader == replica.leader:",
        ),
        faults=("kill", "chase"),
    ),
    Bug(
        "reopened_partition_keeps_its_old_log",
        "A partition that was moved away and came back is fetched into the log that was deleted.",
        Edit(
            FetcherSession.follow,
            "if followed is None or followed.partition is not partition:",
            "if followed is None:",
        ),
        Edit(Fetchers._follow, "self._lanes[former].unfollow(partition)", "pass"),
        faults=("reassign",),
    ),
    Bug(
        "truncation_is_not_carried_out",
        "A follower that is told to truncate asks again without truncating.",
        Edit(FetcherLane._cut, "if self._may_touch(followed):", "if False:"),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "suspended_partition_is_not_resumed",
        "A partition that backed off is not asked for again.",
        Edit(FetcherSession._resume, "self._moved[followed] = None", "pass"),
    ),
    Bug(
        "lane_ends_with_its_first_error",
        "A fetcher's task is over after an error that nobody expected, or a leader that does not answer.",
        Edit(
            FetcherLane._run,
            "await self._round()",
            "await self._round()\n            if self._failures:\n                return",
        ),
        faults=("kill",),
    ),
    # ---- as a leader
    Bug(
        "diverging_fetch_counts",
        "The offset of a fetch counts towards the high watermark although the follower's log diverges.",
        Edit(
            _FETCH._prove,
            "verdict = judge_fetch(",
            "partition.step(cursor.progress.prove(self._now_ms), self._now_ms)\n    verdict = judge_fetch(",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "append_is_no_news_to_followers",
        "A follower whose fetch waits does not hear of an append.",
        Edit(Cursor.on_append, "session.news[self] = None", "pass"),
    ),
    Bug(
        "change_of_the_leadership_is_no_news_to_followers",
        "A fetch that waits is not woken when the leadership changes, nor told of it with the next answer.",
        Edit(Cursor.on_change, "self.session.news[self] = None", "pass"),
        faults=("chase", "elect", "cut"),
    ),
    Bug(
        "told_records_are_no_news_any_more",
        "Records that were sent once are not sent again, even if the answer was lost.",
        Edit(FollowerSession.told, "self.news[cursor] = None", "pass"),
        Edit(FollowerSession.update, "self.news[cursor] = None", "pass"),
    ),
    Bug(
        "session_without_its_partitions_goes_on",
        "A session whose partitions went to one that was asked for by a late fetch goes on without them.",
        Edit(Cursor.replaced, "self.session.supersede()", "pass"),
        faults=("cut-leader", "elect", "pause"),
    ),
    Bug(
        "follower_of_another_epoch_is_answered",
        "A leader answers the fetch of a follower that follows another leader epoch.",
        Edit(
            _FETCH._read_partition,
            "error = replica.fetch_error(want.current_leader_epoch) or replica.follower_error(",
            "error = replica.follower_error(",
        ),
        faults=("cut-leader",),
    ),
    # ---- proposals and isolation
    Bug(
        "controller_that_is_heard_counts_as_reached",
        "A leader that hears its controller, and does not reach it, takes itself for the leader in force.",
        Edit(
            Isr._tick_all,
            "max(self._started_ms, self._quorum.answered_ms)",
            "(now_ms if self._quorum.controller_id >= 0 else max(self._started_ms, self._quorum.answered_ms))",
        ),
        faults=("cut-pair",),
    ),
    Bug(
        "refused_proposal_is_not_told",
        "A proposal that failed is not answered, so that it stays under way.",
        Edit(Isr._send, "if not partition.is_closed:", "if not partition.is_closed and not answer.error:"),
        faults=("kill", "cut"),
    ),
    Bug(
        "proposals_are_sent_once",
        "The task that sends proposals is never begun again.",
        Edit(Isr._send, "self._sending = None", "pass"),
        faults=("kill",),
    ),
    Bug(
        "lost_answer_of_the_controller_is_a_yes",
        "A proposal whose answer was lost is taken for carried out.",
        Edit(
            Isr._send,
            "answer = _answered(proposal, answers, partition)",
            "answer = _answered(proposal, answers, partition)\n"
            "                if isinstance(answers, ErrorCode):\n"
            "                    answer = IsrAnswered(\n"
            "                        proposal, ErrorCode.NONE, proposal.leader_epoch, proposal.partition_epoch + 1, proposal.isr\n"
            "                    )",
        ),
        faults=("cut-leader",),
    ),
)
