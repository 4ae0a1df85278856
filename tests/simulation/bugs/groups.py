"""Bugs in `ottla.server.coordinators` and `ottla.group`: shards, their logs, commits, rebalances."""

from tests.simulation.bugs.bug import Bug, Edit

from ottla.group import offsets, rebalance, syncing
from ottla.group.coordinator import GroupCoordinator
from ottla.server.coordinators.coordinator_log import CoordinatorLog
from ottla.server.coordinators.coordinators import Coordinators
from ottla.server.coordinators.group_shard import GroupShard
from ottla.server.coordinators.log_reading import WholeLog
from ottla.server.coordinators.shards import Shards

BUGS = (
    Bug(
        "commit_answered_before_it_is_replicated",
        "An offset commit is answered when the coordinator has appended it.",
        Edit(GroupShard.ask, "if self._log.is_acknowledged(end):", "if True:"),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut", "kill"),
    ),
    Bug(
        "failed_commit_is_answered_as_success",
        "A commit whose replication failed is answered without an error.",
        Edit(
            GroupShard._answer_when_acknowledged,
            "answer.set_exception(KafkaError(self._code_for(failure)))",
            "answer.set_result(response)",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "shard_survives_a_new_leadership",
        "A coordinator that lost its partition and has it again goes on with what it knew.",
        Edit(CoordinatorLog.is_current, "\n        and partition.high_watermark is self._committed", ""),
        faults=("cut-leader",),
    ),
    Bug(
        "shard_is_kept_when_its_partition_moves",
        "A broker answers for groups whose partition it does not lead any more.",
        Edit(
            CoordinatorLog.is_current,
            "\n        and partition.replica.is_leader\n        and partition.high_watermark is self._committed",
            "",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "shard_begins_without_its_log",
        "A new coordinator answers before it has replayed its log, and does not replay it.",
        Edit(Shards._take, "if not partition.log.log_end_offset:", "if True:"),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut", "kill"),
    ),
    Bug(
        "shard_answers_while_it_loads",
        "A coordinator that still replays its log answers with what it has replayed so far.",
        Edit(GroupShard.load, "await replay_log(", "self.begin()\n    await replay_log("),
        faults=("cut-leader",),
    ),
    Bug(
        "shard_replays_to_its_watermark",
        "A new coordinator does not replay committed records above the high watermark that it knows.",
        Edit(
            WholeLog.read,
            "while self._is_wanted() and self._offset < log.log_end_offset:",
            "while self._is_wanted() and self._offset < self._partition.replica.high_watermark:",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "shards_are_loaded_once",
        "The task that loads shards is never begun again.",
        Edit(Shards._loaded, "self._loading = None", "pass"),
        faults=("cut-leader", "elect", "pause"),
    ),
    Bug(
        "deleted_topic_takes_all_offsets_with_it",
        "When a topic is deleted, the offsets in all topics are forgotten.",
        Edit(
            Coordinators.apply, "shard.forget_topics(removed)", "shard.forget_topics(shard.committed_topics)"
        ),
        faults=("recreate",),
    ),
    Bug(
        "generation_of_a_commit_is_not_checked",
        "A member that lost its partitions still commits.",
        Edit(offsets.check_commit, "if generation != group.generation:", "if False:"),
        faults=("pause-client",),
    ),
    Bug(
        "anybody_may_commit",
        "A commit is taken whoever sends it, as if the group were empty.",
        Edit(offsets.check_commit, "if generation < 0 and group.state is GroupState.EMPTY:", "if True:"),
        faults=("pause-client",),
    ),
    Bug(
        "member_that_did_not_join_again_stays",
        "A member that is gone is given partitions in the next generation.",
        Edit(rebalance.complete_join, "remove_member(group, member, turn)", "pass"),
        faults=("crash-client", "pause-client"),
    ),
    Bug(
        "session_of_a_member_never_ends",
        "A member that is not heard of keeps its partitions.",
        Edit(rebalance.expire_session, "remove_member(group, member, turn)", "return"),
        faults=("cut-leader",),
    ),
    Bug(
        "assignments_are_not_written_down",
        "The leader's assignments are not in the log: the next coordinator does not know them.",
        Edit(
            syncing._complete,
            "turn.records.append(group_record(group.group_id, group.value(shares, turn.now_ms, group.leader)))",
            "pass",
        ),
        faults=("cut-leader",),
    ),
    Bug(
        "tombstone_of_a_group_takes_its_offsets",
        "A group without members loses its offsets when its record is replayed.",
        Edit(
            GroupCoordinator._replay_group,
            "group.adopt(value)",
            "group.adopt(value)\n        group.offsets = type(group.offsets)()",
        ),
        faults=("slow-link", "cut-pair", "pause", "chase", "cut", "kill"),
    ),
)
