"""Bugs in `ottla.server.partitions`: hosting, watermarks, acknowledgements, flushes, checkpoints."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.server.partitions.acknowledgement import Acknowledgement
from ottla.server.partitions.flush_policy import FlushPolicy
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.hosting import Hosting

_HOSTED = HostedPartition

BUGS = (
    # ---- acknowledgements
    Bug(
        "acknowledged_before_the_watermark",
        "acks=all is answered when the leader has the records.",
        Edit(_HOSTED.is_acknowledged, "if acks_all and self.high_watermark.value < end_offset:", "if False:"),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut"),
    ),
    Bug(
        "waiters_are_not_told_of_a_new_leadership",
        "A leader that lost its leadership and has it again answers requests that still wait from before.",
        Edit(_HOSTED._leader_changed, "if not goes_on:", "if False:"),
        faults=("cut-leader",),
    ),
    Bug(
        "flush_under_another_leadership_acknowledges",
        "A flush that ends under another leadership acknowledges the records of the one before.",
        Edit(
            Acknowledgement._flushed,
            "if failure is None and self.partition.high_watermark is not self._leadership:",
            "if False:",
        ),
        faults=("cut-leader", "slow-disk"),
    ),
    Bug(
        "any_of_flush_and_replication_acknowledges",
        "An append is acknowledged when it is flushed or replicated, whichever comes first.",
        Edit(
            Acknowledgement.__init__,
            "self._left = 1 + is_replicated + must_flush",
            "self._left = 1 + is_replicated",
        ),
        faults=("cut-leader", "chase", "slow-disk"),
    ),
    Bug(
        "refused_commit_is_a_commit",
        "Waiting producers hear success when the leader is cut off or has too few in-sync replicas.",
        Edit(
            _HOSTED._refuse_commits,
            "self.high_watermark.refuse(KafkaError(error, reason))",
            "self.high_watermark.refuse(None)",
        ),
        Edit(
            Acknowledgement._committed,
            "if failure is None and self.partition.replica.is_under_min_isr:",
            "if False:",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "watermark_goes_on_in_the_next_leadership",
        "The watermark that producers wait for is kept when the leadership ends, although waits have failed.",
        Edit(_HOSTED._leader_changed, "self.high_watermark = Watermark(self.replica.high_watermark)", "pass"),
        faults=("chase", "elect", "cut"),
    ),
    # ---- roles
    Bug(
        "leads_before_it_is_registered",
        "A broker that starts believes what its metadata said before it died.",
        Edit(
            Hosting._is_registered,
            "known is not None and known.incarnation_id == self._incarnation_id",
            "known is not None",
        ),
        faults=("kill", "kill-two"),
    ),
    Bug(
        "truncation_by_watermark",
        "As Kafka did before KIP-101: a follower of a new leader truncates its log to its own high watermark.",
        Edit(
            _HOSTED.assign,
            "self._leader_changed(goes_on=replica.leadership_epoch == before[2])",
            "self._leader_changed(goes_on=replica.leadership_epoch == before[2])\n"
            "        if not replica.is_leader and replica.high_watermark < end:\n"
            "            self.truncate_to(replica.high_watermark, now_ms)",
        ),
    ),
    Bug(
        "replica_that_moved_away_is_kept",
        "A replica that was moved to other brokers is not removed, and leads on if it led.",
        Edit(Hosting._host, "if hosted is not None and self.is_active:", "if False:"),
        faults=("reassign", "kill"),
    ),
    # ---- flushes and checkpoints
    Bug(
        "leader_counts_what_it_has_not_flushed",
        "The leader's share in the high watermark is its log end, where only flushed records should count.",
        Edit(
            FlushPolicy.counted_offset,
            "return self._log.durability.flushed_offset if self._counts_flushed else None",
            "return None",
        ),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "nothing_waits_for_a_flush",
        "The settings that ask for an fsync before an acknowledgement have no effect.",
        Edit(
            FlushPolicy.configure,
            "self._flushes_acks_all = self._flushes_always or config.ottla_flush_on_acks_all",
            "self._flushes_acks_all = self._flushes_always = False",
        ),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "failed_flush_mark_is_kept_after_a_truncation",
        "The flushed offset that waits failed on stays in place, so that every later wait fails as well.",
        Edit(
            _HOSTED.log_was_truncated, "self.flushed = Watermark(self.log.durability.flushed_offset)", "pass"
        ),
        faults=("cut-leader", "slow-disk"),
    ),
    Bug(
        "checkpointed_watermark_is_the_log_end",
        "After a restart a replica takes everything it holds for committed.",
        Edit(
            Hosting.checkpoint,
            "p.high_watermark.value for p in partitions",
            "p.log.log_end_offset for p in partitions",
        ),
        faults=("cut-leader", "kill-all"),
    ),
    Bug(
        "checkpointed_recovery_point_is_the_log_end",
        "The recovery point covers records that are not flushed.",
        Edit(
            Hosting.checkpoint,
            "p.log.durability.flushed_offset for p in partitions",
            "p.log.log_end_offset for p in partitions",
        ),
        faults=("power-all", "slow-disk"),
    ),
    Bug(
        "log_of_a_topic_deleted_meanwhile_is_kept",
        "A log that was opened by an older image stays, also for a new topic of the same name.",
        Edit(Hosting.apply, "self._remove_deleted(after)", "pass"),
        faults=("recreate", "kill", "kill-two"),
    ),
)
